"""Looking into savepoints for a person: what is requested, what a run has found, and how it is shown. A result is bounded, so that it is one small object.
Also the work of the Spark job that writes a store's table, and its result. Pure.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.forms import SAVEPOINT, Form, FormField, request_of, savepoint_field
from streams_recovery.core.repository.manifest import SegmentFile
from streams_recovery.core.state.table import DiffCounts, RecordAt, StoreFormat
from streams_recovery.core.words import LIVE, moment

MOST_ROWS: Final = 50
MOST_CHARACTERS: Final = 300
MOST_SENTENCES: Final = 100
# Cells in which the application's data would be, when its configuration does not allow to show that.
NOT_SHOWN: Final = "not shown"
DELETED: Final = "deleted"
# Columns of a record: see ``record_cells``.
RECORD_COLUMNS: Final = ("partition", "offset", "time", "key", "value", "headers")
_PRIVATE: Final = ("key", "value", "headers")

OTHER: Final = savepoint_field(
    LIVE, name="other", title="Compared with", help="A savepoint's id; latest; or live: what is in the topics now."
)
STORES: Final = FormField(
    name="stores", title="Stores", help="Names with commas between them. Empty: all stores of the savepoint.", longest=10_000
)
STORE: Final = FormField(name="store", title="Store", help="In which the key is looked up.")
KEY: Final = FormField(
    name="key",
    title="Key",
    help="As the store's table shows it. Everybody who may see the run sees it.",
    longest=10_000,
)
TOPIC: Final = FormField(name="topic", title="Topic", help="In place of store and key: its newest records of each partition.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsRequest:
    """``count`` records of each partition, or of ``partition`` alone: the first ones from ``offset`` on, or the newest ones without it. ``savepoint`` is an id,
    ``latest``, or ``live``.
    """

    topic: str
    savepoint: str
    partition: int | None
    offset: int | None
    count: int

    def __post_init__(self) -> None:
        if self.offset is not None and self.partition is None:
            raise ConfigInvalid("an offset belongs to one partition", next_step="name it with --partition")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord(RecordAt):
    """One record of any topic."""

    topic: str
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    def as_json(self) -> dict[str, Any]:
        """As plain JSON. Bytes that are no text are in a field of their own, in hex."""
        plain: dict[str, Any] = {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "timestamp": self.timestamp,
        }
        for name, data in (("key", self.key), ("value", self.value)):
            plain |= {name: as_text(data)} if data is None or as_text(data) is not None else {f"{name}_hex": data.hex()}
        return plain | {"headers": [{"key": name, "value": shown_bytes(data)} for name, data in self.headers]}


class Outcome(enum.StrEnum):
    """The outcome of a comparison or a look-up. ``PARTLY``: what was compared is equal, and something was not compared."""

    EQUAL = "equal"
    DIFFERENT = "different"
    PARTLY = "partly compared"
    NOTHING_COMPARED = "nothing compared"
    FOUND = "found"
    NOT_FOUND = "not found"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRows:
    """Rows of text below ``columns``; ``more`` were left out."""

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    more: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Findings of one run, at ``at`` (ms). ``other`` is what the savepoint was compared with, empty for a look-up. ``has_data`` says that there may be keys and
    values of the application among them, as there are in ``found`` where the configuration allows to show them.
    """

    savepoint_id: str
    other: str
    outcome: Outcome
    found: FoundRows
    has_data: bool
    at: int
    run_id: str
    requested_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection(Findings):
    """Findings about records of state. It was compared with ``other``, a savepoint's id or ``live``. ``sentences`` have names, numbers and offsets, and the
    ``question`` may have keys and values.
    """

    question: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareRequest:
    """``stores`` are all stores of ``savepoint`` when none is named."""

    FORM = Form()
    savepoint: Annotated[str, SAVEPOINT]
    other: Annotated[str, OTHER]
    stores: Annotated[tuple[str, ...], STORES]
    run_id: str
    requested_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LookUpRequest:
    """A ``key`` of a ``store``, or the newest records of a ``topic``. Raises ``ConfigInvalid`` for both, and for half of one."""

    FORM = Form()
    savepoint: Annotated[str, SAVEPOINT]
    store: Annotated[str, STORE]
    key: Annotated[str | None, KEY]
    topic: Annotated[str, TOPIC]
    run_id: str
    requested_by: str

    def __post_init__(self) -> None:
        if bool(self.topic) == bool(self.store) or (self.key is None) == bool(self.store):
            raise ConfigInvalid("one of two can be looked up", next_step="name a store and a key of it; or a topic, and neither of them")


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


def first_offset(start: int, end: int, wanted: int | None, count: int) -> int:
    """The offset to begin at in a log with the offsets ``[start, end)``: at the offset that is ``wanted``, else so many before the end."""
    return min(max(start, end - count if wanted is None else wanted), end)


def bounded(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> FoundRows:
    """The first rows, each cell cut to a length, and how many there are besides."""
    kept: list[tuple[str, ...]] = []
    more = 0
    for row in rows:
        if len(kept) == MOST_ROWS:
            more += 1
        else:
            kept.append(tuple(map(cut, row)))
    return FoundRows(columns=tuple(columns), rows=tuple(kept), more=more)


def cut(text: str) -> str:
    """The beginning of a long text, and how long it is."""
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}… ({len(text):,} characters)"


def hidden(columns: Sequence[str], row: Sequence[str], *, deleted: bool) -> tuple[str, ...]:
    """A row without what is the application's own: see ``hidden_columns``. It tells if the key is deleted."""
    cells = [cell for name, cell in zip(columns, row, strict=True) if name not in _PRIVATE]
    return (*cells, DELETED if deleted else NOT_SHOWN)


def hidden_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """The columns of ``hidden`` rows."""
    return (*(name for name in columns if name not in _PRIVATE), "value")


def without_data(found: Inspection) -> Inspection:
    """The findings without the keys and values that they may have."""
    question = f"{found.savepoint_id} compared with {found.other}" if found.other else f"something looked up in {found.savepoint_id}"
    # Why the running application was not asked names the address that was asked, which ends with the key.
    sentences = found.sentences if found.other else found.sentences[:1]
    return replace(found, question=question, sentences=sentences, found=FoundRows(), has_data=False)


def compared_outcome(counts: Sequence[DiffCounts], *, alone: int = 0, left_out: int = 0) -> Outcome:
    """The outcome of all stores together. ``alone`` is how many only one side has, ``left_out`` how many could not be compared."""
    if alone or any(one.compared and not one.equal for one in counts):
        return Outcome.DIFFERENT
    if not any(one.compared for one in counts):
        return Outcome.NOTHING_COMPARED
    return Outcome.PARTLY if left_out else Outcome.EQUAL


def compare_request(given: Mapping[str, Any], *, run_id: str, requested_by: str) -> CompareRequest:
    """The request for what was given. The names of stores are one text."""
    readers = {tuple[str, ...]: lambda asked, given: store_names(given.get(asked[0].name) or "")}
    return request_of(CompareRequest, given, readers, run_id=run_id, requested_by=requested_by)


def store_names(text: str) -> tuple[str, ...]:
    """The names in a list with commas, each once."""
    return tuple(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))


def inspection_lines(found: Inspection) -> list[str]:
    """All of it: the question, what came out, and the rows."""
    rows = found.found
    lines = [f"{found.question}: {found.outcome.value}", *(f"  {sentence}" for sentence in found.sentences)]
    if rows.rows:
        lines += ["  | ".join(rows.columns), *("  | ".join(row) for row in rows.rows)]
    if rows.more:
        lines.append(f"{rows.more:,} more are not shown")
    return lines


def counts_text(store: str, counts: DiffCounts) -> str:
    """The numbers of the comparison of one store."""
    if not counts.compared:
        return f"{store}: nothing was compared: neither side holds a key"
    return (
        f"{store}: {counts.compared:,} keys compared, {counts.before:,} and {counts.after:,}: "
        f"{counts.changed:,} changed, {counts.added:,} added, {counts.removed:,} removed"
    )


def record_cells(record: TopicRecord) -> tuple[str, ...]:
    """One record below ``RECORD_COLUMNS``."""
    headers = ", ".join(f"{name}={_cell(data)}" for name, data in record.headers)
    return f"{record.partition}", f"{record.offset}", moment(record.timestamp), _cell(record.key), _cell(record.value), headers


def _cell(data: bytes | None) -> str:
    return "null" if data is None else shown_bytes(data) or ""


def shown_bytes(data: bytes | None) -> str | None:
    """Text as it is, other bytes in hex with ``0x`` before them, None for none."""
    if data is None:
        return None
    text = as_text(data)
    return f"0x{data.hex()}" if text is None else text


def as_text(data: bytes | None) -> str | None:
    """Bytes as text, None if they cannot be shown as text."""
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() else None
