"""What the steps of a restore hand to each other."""

from __future__ import annotations

from dataclasses import dataclass

from streams_recovery.core.jobs import PartitionVerified, StoreVerified
from streams_recovery.core.lease import LockTicket
from streams_recovery.core.plan import RestoreRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreTicket:
    """A restore under way. ``plan_hash`` is the plan that was approved; ``running`` are the instances that ran when it was opened."""

    application_id: str
    restore_id: str
    request: RestoreRequest
    requested_by: str
    plan_hash: str
    lock: LockTicket
    started_at: int
    running: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StopSummary:
    """The application, proven down."""

    instances: tuple[str, ...]
    closed_cleanly: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareSummary:
    """Topics created, empty and under hold. ``replaced`` were deleted first: empty ones, and partial ones of an earlier attempt."""

    created: tuple[str, ...]
    replaced: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSummary:
    """What was written. ``workers`` are the Spark executors that wrote."""

    topics: int
    partitions: int
    rows: int
    workers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifySummary:
    """What was compared, and that it was equal: a difference is an error, not a summary."""

    partitions: tuple[PartitionVerified, ...]
    stores: tuple[StoreVerified, ...]
    rows_compared: int
    keys_compared: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsSummary:
    """Committed offsets as they were set and read back."""

    partitions: int
    with_metadata: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WipeSummary:
    """Local state removed."""

    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartSummary:
    """The application started again. ``ends`` are the input ends to catch up to, read right before the start."""

    instances: tuple[str, ...]
    ends: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredSummary:
    """The application at work again: RUNNING everywhere, and every input processed to the end it had at the start."""

    instances: tuple[str, ...]
    partitions_caught_up: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """The evidence of a restore, kept in the repository. ``still_held`` are topics whose retention was not put back yet, because restored
    records would expire by it; every later savepoint tries again.
    """

    restore_id: str
    savepoint_id: str
    plan_hash: str
    requested_by: str
    reason: str
    started_at: int
    finished_at: int
    rows: int
    keys_compared: int
    offsets: int
    still_held: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AbandonReport:
    """What became of a restore that did not finish."""

    phase: str
    restarted: bool
    next_step: str
