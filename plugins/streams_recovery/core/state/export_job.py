"""The work of the Spark job that writes a store's table, and its result."""

from __future__ import annotations

from dataclasses import dataclass

from streams_recovery.core.repository.manifest import SegmentFile
from streams_recovery.core.state.table import StoreFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionToShow:
    """All files of a partition of a changelog, in the order of offsets."""

    partition: int
    files: tuple[SegmentFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSpec:
    """Work for the job: the table of a store in a savepoint. ``directory`` is a path or address that Spark writes to; None means the repository,
    below ``run``.
    """

    application_id: str
    savepoint_id: str
    store: str
    form: StoreFormat
    partitions: tuple[PartitionToShow, ...]
    deleted: bool
    directory: str | None
    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePart:
    """One file of a table in the repository."""

    key: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StateResult:
    """The result: number of ``rows``, and the files if the table is in the repository."""

    rows: int
    parts: tuple[TablePart, ...]
    seconds: float
