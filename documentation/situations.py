"""What each finding is about, and the page that says what to do in just that situation.

A page that stops producers, replaces running state or moves the application is right in one situation only. In any other it does harm to whoever follows it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final


class Situation(enum.StrEnum):
    """Each is the address of its page below docs/."""

    NO_ANSWER = "runbooks/README.md"
    NO_SAVEPOINTS = "troubleshooting.md#savepoints-are-not-taken"
    NOT_EXACT = "concepts/exact-and-ahead.md#what-happens-to-one-that-is-not-exact"
    REPOSITORY_DAMAGED = "troubleshooting.md#something-in-the-repository-is-damaged"
    CLUSTER_LOSS_UNPREPARED = "configuration.md#backup"
    WRITTEN_BY_OTHERS = "security.md#an-append-only-writer"
    SEALS = "security.md#a-sealed-repository"
    ARCHIVE = "archive.md"
    STATE_BY_THE_MINUTE = "archive.md#state-by-the-minute"
    RESTORE_HALF_WAY = "runbooks/restore-failed.md"
    LOCK_HELD = "runbooks/restore-failed.md#the-lock-is-held-by-a-dead-run"
    LEFT_HELD = "troubleshooting.md#a-run-has-left-the-application-held"
    GUARD_LEFT = "concepts/guard.md#what-if-the-run-is-killed"
    RESTORE_HOLD = "concepts/guard.md#holds-of-a-restore"
    QUARANTINE = "strategies/pitr.md#appending-it-again"
    EXPIRY = "runbooks/disk-full.md#what-expiry-deletes-and-when"
    CHECKS_OVERDUE = "airflow.md#streams_check_name"
    SECOND_PLACE = "airflow.md#streams_mirror_name"
    KEYS = "storage.md#keys-of-the-records"
    DRILL = "strategies/drill.md"
    OBJECTIVE_MISSED = "sizing.md#time"
    RUN_FAILED = "troubleshooting.md#kinds-of-errors"
    CONFIGURATION = "configuration.md"
    WHOSE_TOPIC = "configuration.md#whose-a-topic-is"
    TOPIC_GONE = "runbooks/topic-deleted.md"
    INPUT_RETENTION = "troubleshooting.md#retention-deletes-input-too-early"
    TRANSACTION = "troubleshooting.md#a-transaction-does-not-end"
    NOT_PROCESSING = "troubleshooting.md#the-application-does-not-process"
    STRANGERS = "concepts/exact-and-ahead.md#who-else-is-in-the-group"
    BROKER_DISK = "runbooks/disk-full.md#a-broker"
    DISK = "runbooks/disk-full.md"
    REPOSITORY_DISK = "runbooks/disk-full.md#the-repository"
    CLONE = "strategies/clone.md"
    STANDBY = "sites.md#the-daily-look-at-each-site"
    SITE_LEFT = "sites.md#a-site-that-was-left-without-a-proof"
    MONITOR = "monitoring.md#who-watches-the-monitor"


_KINDS: Final[Mapping[Situation, str]] = {
    Situation.NO_ANSWER: "not-seen",
    Situation.NO_SAVEPOINTS: "no-savepoint savepoint-too-old savepoint-late savepoint-failed rpo-over-objective",
    Situation.NOT_EXACT: "newest-not-exact",
    Situation.REPOSITORY_DAMAGED: "savepoints-unreadable check-failed",
    Situation.CLUSTER_LOSS_UNPREPARED: "lost-with-cluster",
    Situation.WRITTEN_BY_OTHERS: "ids-ahead pin-released",
    Situation.SEALS: "records-forged not-sealed",
    Situation.ARCHIVE: "loss-over-objective archive-stopped archive-behind archive-incomplete archive-lost-input archive-unreadable drill-loss-over-objective",
    Situation.STATE_BY_THE_MINUTE: "archive-state-old",
    Situation.RESTORE_HALF_WAY: "restore-unfinished restore-over-deadline",
    Situation.LOCK_HELD: "lock-held-long lock-unreadable",
    Situation.LEFT_HELD: "quiesce-left",
    Situation.GUARD_LEFT: "guard-left",
    Situation.RESTORE_HOLD: "restore-hold-left",
    Situation.QUARANTINE: "quarantine-left",
    Situation.EXPIRY: "deletion-announced",
    Situation.CHECKS_OVERDUE: "check-overdue",
    Situation.SECOND_PLACE: "one-place-only",
    Situation.KEYS: "keys-unavailable",
    Situation.DRILL: "drill-failed drill-overdue",
    Situation.OBJECTIVE_MISSED: "rto-over-objective",
    Situation.RUN_FAILED: "run-failed",
    Situation.CONFIGURATION: "configuration-broken",
    Situation.WHOSE_TOPIC: "topics-unattributed",
    Situation.TOPIC_GONE: "topic-missing restore-refused",
    Situation.INPUT_RETENTION: "input-expires input-lost input-lost-unread",
    Situation.TRANSACTION: "transaction-hanging transaction-long",
    Situation.NOT_PROCESSING: "lag-high lag-grows group-empty instance-in-error instances-gone application-down application-stalled",
    Situation.STRANGERS: "group-members-unknown",
    Situation.BROKER_DISK: "changelog-large changelogs-grow repartition-large repartition-grows",
    Situation.DISK: "disk-full-soon disk-space-low",
    Situation.REPOSITORY_DISK: "repository-grows",
    Situation.CLONE: "outputs-unowned outputs-owned-twice retired-runs",
    Situation.STANDBY: "standby-not-ready",
    Situation.SITE_LEFT: "site-fenced runs-at-two-sites",
    Situation.MONITOR: "monitor-failed",
}
SITUATIONS: Final[Mapping[str, Situation]] = {kind: situation for situation, kinds in _KINDS.items() for kind in kinds.split()}
