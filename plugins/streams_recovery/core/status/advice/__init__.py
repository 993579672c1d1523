"""Advice: rules that tell of settings with which a recovery is slow or impossible. Each is a pure function of the facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from streams_recovery.core.status.advice.application import (
    auto_topic_creation,
    offsets_retention,
    recovery_lag,
    restore_consumer,
    rocksdb,
    session_timeout,
    settings_not_known,
    settings_not_readable,
    standbys,
    state_directory,
    transaction_timeout,
)
from streams_recovery.core.status.advice.facts import AdviceFacts
from streams_recovery.core.status.advice.topics import (
    changelog_policy,
    compaction_lag,
    delete_retention,
    hot_partition,
    input_retention,
    log_cleaner,
    min_in_sync,
    outputs_empty,
    repartition_retention,
    replication,
    segment_size,
    unclean_election,
)
from streams_recovery.core.status.report import StatusFinding

Rule = Callable[[AdviceFacts], Iterable[StatusFinding]]

ADVICE: Final[dict[str, Rule]] = {
    "input-retention": input_retention,
    "changelog-policy": changelog_policy,
    "repartition-retention": repartition_retention,
    "outputs-empty": outputs_empty,
    "delete-retention": delete_retention,
    "compaction-lag": compaction_lag,
    "log-cleaner": log_cleaner,
    "segment-size": segment_size,
    "hot-partition": hot_partition,
    "replication": replication,
    "min-insync": min_in_sync,
    "unclean-election": unclean_election,
    "auto-topic-creation": auto_topic_creation,
    "offsets-retention": offsets_retention,
    "transaction-timeout": transaction_timeout,
    "session-timeout": session_timeout,
    "standbys": standbys,
    "recovery-lag": recovery_lag,
    "state-directory": state_directory,
    "restore-consumer": restore_consumer,
    "rocksdb": rocksdb,
    "settings-not-known": settings_not_known,
    "settings-not-readable": settings_not_readable,
}
"""Every rule, by the kind of its findings."""


def advise(facts: AdviceFacts) -> tuple[StatusFinding, ...]:
    """All that the rules find, the worst first."""
    found = [finding for rule in ADVICE.values() for finding in rule(facts)]
    return tuple(sorted(found, key=lambda finding: finding.severity.rank))
