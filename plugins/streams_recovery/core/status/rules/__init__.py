"""All rules. A later one is a file beside this, and a line here."""

from __future__ import annotations

from typing import Final

from streams_recovery.core.status.facts import Rule
from streams_recovery.core.status.rules import archive, cluster, outputs, repository, savepoints

RULES: Final[tuple[Rule, ...]] = (
    repository.UNSEEN_PARTS,
    savepoints.SAVEPOINT_AGE,
    savepoints.SAVEPOINT_CONSISTENCY,
    savepoints.SAVEPOINT_RUNS,
    archive.RULE,
    savepoints.SURVIVAL,
    savepoints.DAMAGED_SAVEPOINTS,
    savepoints.RESTORES,
    savepoints.LOCKS,
    savepoints.QUIESCE,
    savepoints.TOPIC_HOLDS,
    repository.QUARANTINES,
    repository.DELETION,
    repository.CHECKS,
    repository.DRILLS,
    cluster.TOPICS,
    cluster.INPUT_RETENTION,
    cluster.TRANSACTIONS,
    cluster.LAG,
    cluster.TOPIC_SIZES,
    cluster.DISK_SPACE,
    repository.REPOSITORY_GROWTH,
    cluster.INSTANCES,
    outputs.OWNERS,
    outputs.RETIRED,
    outputs.DOWN,
    repository.SITES,
)
