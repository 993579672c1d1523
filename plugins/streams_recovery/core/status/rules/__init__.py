"""All rules. A later one is a file beside this, and a line here."""

from __future__ import annotations

from typing import Final

from streams_recovery.core.status.rule import Rule
from streams_recovery.core.status.rules import (
    archive,
    checks,
    damaged_savepoints,
    deletion,
    disk_space,
    drills,
    input_retention,
    instances,
    lag,
    locks,
    outputs,
    quarantines,
    quiesce,
    repository_growth,
    restores,
    savepoint_age,
    savepoint_consistency,
    savepoint_runs,
    sites,
    survival,
    topic_holds,
    topic_sizes,
    topics,
    transactions,
    unseen_parts,
)

RULES: Final[tuple[Rule, ...]] = (
    unseen_parts.RULE,
    savepoint_age.RULE,
    savepoint_consistency.RULE,
    savepoint_runs.RULE,
    archive.RULE,
    survival.RULE,
    damaged_savepoints.RULE,
    restores.RULE,
    locks.RULE,
    quiesce.RULE,
    topic_holds.RULE,
    quarantines.RULE,
    deletion.RULE,
    checks.RULE,
    drills.RULE,
    topics.RULE,
    input_retention.RULE,
    transactions.RULE,
    lag.RULE,
    topic_sizes.RULE,
    disk_space.RULE,
    repository_growth.RULE,
    instances.RULE,
    outputs.OWNERS,
    outputs.RETIRED,
    outputs.DOWN,
    sites.RULE,
)
