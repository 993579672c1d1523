"""Messages between an orchestrator and a Spark job: a specification goes in, a result comes out, both JSON, neither with secrets.

Rows never appear here. The driver sees one specification row and one result row per range, partition or store.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from streams_recovery.core import codec, errors
from streams_recovery.core.jobs.volume import JobVolume
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.masking import masked
from streams_recovery.core.named_transactions.proof import NamedLogCut
from streams_recovery.core.repository.lease import LockTicket
from streams_recovery.core.repository.manifest import CopiedRange
from streams_recovery.core.repository.segment_file import SegmentFiles
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.waiting import RateLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeToCopy:
    """Copy offsets ``[start, end)``. ``size_hint``, in records, divides the work among tasks. ``may_lose`` says what to do when some of them are deleted
    before they could be read: go on behind them and tell, or else fail. ``names`` is the cut by names in this log: what it leaves out is not copied.
    """

    tp: TopicPartition
    start: int
    end: int
    size_hint: int
    may_lose: bool = False
    names: NamedLogCut | None = field(default=None, metadata=codec.LEFT_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupSpec:
    """Read these ranges and write them as segments. ``compression_level`` is zstd's. The names of their attempts begin with ``run``, where there is one."""

    application_id: str
    ranges: tuple[RangeToCopy, ...]
    compression_level: int
    run: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeCopied:
    """One range as a task wrote it. ``fetched`` counts the records the consumer received, by its own statistics;
    ``log_start_after`` was read from the broker after the last row and must not have passed the range's start.
    """

    tp: TopicPartition
    copied: CopiedRange
    fetched: int
    log_start_after: int
    worker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeLost:
    """Offsets ``[start, end)`` that were deleted before they could be read, from a range that may lose some."""

    tp: TopicPartition
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeOutcome:
    """The outcome of one range: pieces that were copied and pieces that were lost, which together are the range."""

    copied: tuple[RangeCopied, ...]
    lost: tuple[RangeLost, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupResult:
    """Everything a backup job copied, and what it came too late for."""

    ranges: tuple[RangeCopied, ...]
    seconds: float
    lost: tuple[RangeLost, ...] = ()


class CutBy(enum.StrEnum):
    """The rule for the cut: a record's ``timestamp``, or its ``position`` before the first later record."""

    TIMESTAMP = "timestamp"
    POSITION = "position"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalRows:
    """Rows of a log that are taken for an interval. ``own`` of them belong to it. The others are around it; ``lead`` of them come before its first record or
    any later one. ``stop`` is the offset of the first record that ends the log, None if the log has no such record. ``wrong`` records before it have a wrong
    clock and are left out. So are, from there on, ``left`` of the interval and ``around`` of the input around it.
    """

    own: int
    lead: int
    stop: int | None
    wrong: int = 0
    left: int = 0
    around: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSlice(IntervalRows):
    """More bounds than the moment. Left out are also rows with a timestamp before ``since``, and rows below the offset ``first``. None is no bound."""

    since: int | None
    first: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSpan:
    """Offsets ``first`` to ``last`` of a log."""

    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCut:
    """Selects rows of files. ``first_later`` is the offset of the first record later than the moment, None if the archive has none. ``rows`` is the
    number of selected rows. By timestamp ``late`` of them come after ``first_later``, by position none. A ``slice`` selects fewer. With ``rest`` the
    selection is inverted: the rows that do not belong to the moment.

    All rows below the offset ``written`` were written by the moment, so none of them is later; ``ahead`` of them have a later timestamp. By position,
    ``behind`` rows that are no later come after ``first_later`` and are left out. So are, whatever else is selected, rows at offsets that are ``left_out``.
    """

    by: CutBy
    moment: int
    first_later: int | None
    rows: int
    late: int
    slice: RowSlice | None = None
    rest: bool = False
    written: int = 0
    ahead: int = 0
    behind: int = 0
    left_out: tuple[OffsetSpan, ...] | None = field(default=None, metadata=codec.LEFT_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionToLoad:
    """Write these files, in this order, to one partition. ``first_offset`` is the end of the empty target partition, so t0.

    ``present`` records from there on were left by an attempt that failed: they must be the beginning of the files, and the rest goes behind
    them. ``topic_id`` says of which topic that was found. With a ``cut`` only the rows that it takes are written, and with a ``limit`` only so many of
    them from the first one on, ``present`` ones included.
    """

    tp: TopicPartition
    first_offset: int
    files: SegmentFiles
    present: int = 0
    topic_id: str | None = None
    cut: RowCut | None = None
    limit: int | None = None

    @property
    def rows(self) -> int:
        """Records to write."""
        if self.limit is not None:
            return self.limit
        return self.files.rows if self.cut is None else self.cut.rows

    @property
    def payload_bytes(self) -> int:
        """Bytes of their keys and values; where not all rows are written, the part that they are of all."""
        return self.files.payload_bytes * self.rows // max(1, self.files.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreSpec:
    """Load these partitions; each partition is written by one task, in order. The job ends at once when ``lock`` is no longer held, and gives up when a
    broker acknowledges nothing for ``stall_seconds``. ``throttle`` is for the whole load. With ``read_back`` other tasks read the whole logs afterwards,
    those of partitions with a ``limit`` left out: these are not whole yet.
    """

    application_id: str
    partitions: tuple[PartitionToLoad, ...]
    lock: LockTicket | None = None
    throttle: RateLimits | None = None
    stall_seconds: float = 120.0
    read_back: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLoaded:
    """One partition as a task loaded it. ``rows`` are all that are in it now, ``present`` those of them that were compared and not written.
    ``acknowledged_first`` and ``acknowledged_last`` are the broker's offsets of the first and last row, None when there is none. ``digest`` is over the
    ``archived_rows`` rows as they came out of the checked files, ``present`` ones included, before anything was sent.
    """

    tp: TopicPartition
    rows: int
    acknowledged_first: int | None
    acknowledged_last: int | None
    worker: str
    archived_rows: int
    digest: str
    present: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRead:
    """One log as a task read it that has written nothing: the topic, ``[start, end)`` by the broker, and the rows there."""

    tp: TopicPartition
    topic_id: str
    start: int
    end: int
    rows: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """Everything a restore job loaded, and what it read back after the last row was written."""

    partitions: tuple[PartitionLoaded, ...]
    seconds: float
    read: tuple[PartitionRead, ...] = ()
    read_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionToVerify:
    """Compare these files, in this order, with the target partition's records ``[start, end)``; with a ``cut`` only the rows that it takes.
    ``topic_id`` says of which topic these ends are. With ``rows_proven`` its rows were found equal before, and only its keys are compared.
    """

    tp: TopicPartition
    target_topic: str
    topic_id: str
    start: int
    end: int
    files: SegmentFiles
    cut: RowCut | None = None
    rows_proven: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifySpec:
    """Compare archive and cluster. ``keyed`` topics are also compared key by key as the state they stand for."""

    application_id: str
    partitions: tuple[PartitionToVerify, ...]
    keyed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionVerified:
    """Both sides of one partition: counts, and SHA-256 over key, value, headers and timestamp of every row in order. ``[start, end)`` of the topic with
    this id was read.
    """

    tp: TopicPartition
    topic_id: str
    start: int
    end: int
    archived_rows: int
    loaded_rows: int
    archived_digest: str
    loaded_digest: str

    @property
    def equal(self) -> bool:
        """True when both sides hold the same rows in the same order."""
        return self.archived_rows == self.loaded_rows and self.archived_digest == self.loaded_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysVerified:
    """A partition of a changelog as state: the latest row of each key, tombstones left out. ``examples`` are hex keys that differ, at most 20."""

    tp: TopicPartition
    keys_compared: int
    keys_different: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResult:
    """Everything a verification compared. ``keys`` has every partition of the keyed topics."""

    partitions: tuple[PartitionVerified, ...]
    keys: tuple[KeysVerified, ...]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFailure:
    """The error that ended a job, stored instead of a result: the waiting run raises the same error. Facts travel as text."""

    error: str
    reason: str
    next_step: str
    facts: dict[str, str]
    commands: tuple[str, ...] = ()

    @classmethod
    def of(cls, error: errors.RecoveryError) -> JobFailure:
        facts = {name: masked(str(value)) for name, value in error.facts.items()}
        return cls(error=type(error).__name__, reason=error.reason, next_step=error.next_step, facts=facts, commands=error.commands)

    def as_error(self) -> errors.RecoveryError:
        """The error again. A class that is not one of ``core.errors`` becomes the nearest there is: ``SparkJobFailed``."""
        # The name is data: it may be that of anything in the module, or of nothing.
        kind = getattr(errors, self.error, None)
        if not (isinstance(kind, type) and issubclass(kind, errors.RecoveryError)):
            kind = errors.SparkJobFailed
        return kind(self.reason, next_step=self.next_step, **self.facts).then(*self.commands)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """A job to run: its specification and where its result belongs. Both are None when there is nothing to do. ``plan`` is what it was planned from,
    for the steps behind the job that need it. ``volume`` is None for a job that only Spark can do.
    """

    spec: ArtifactRef | None
    result_key: str | None
    ranges: int
    offsets: int
    plan: ArtifactRef | None = None
    volume: JobVolume | None = None


NO_JOB = JobPlan(spec=None, result_key=None, ranges=0, offsets=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOrder:
    """The order for a job: its specification in the repository, and the key to create with the result, which must be new for each attempt."""

    spec: ArtifactRef
    result_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReceipt:
    """A driver's receipt for its submitter on the machine they share: the result that it has stored, or the error that ended it. What lies in the repository
    alone may be anybody's.
    """

    result: ArtifactRef | None
    failure: JobFailure | None


def failure_key(result_key: str) -> str:
    """The key at which a job leaves its failure: beside the result it could not write."""
    directory, _, name = result_key.rpartition("/")
    return f"{directory}/failure.{name}"
