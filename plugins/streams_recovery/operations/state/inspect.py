"""Looking into savepoints for a person: two are compared, or something is looked up. Reads only and takes no lock.

Results are stored in an append log in the repository, of which only the newest entries are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from streams_recovery.core.errors import ConfigInvalid, NotFound, RecoveryError, Refused
from streams_recovery.core.escaping import logger
from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.names import store_name
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.state.inspection import (
    MOST_ROWS,
    MOST_SENTENCES,
    RECORD_COLUMNS,
    CompareRequest,
    FoundRows,
    Inspection,
    LookUpRequest,
    Outcome,
    RecordsRequest,
    bounded,
    compared_outcome,
    counts_text,
    hidden,
    hidden_columns,
    record_cells,
)
from streams_recovery.core.state.table import PLAIN_BYTES, DiffCounts, Entry, counted, differences
from streams_recovery.core.words import LIVE
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.state.keys import LIVE_WORDS, answered_or_why, live_cells
from streams_recovery.operations.state.read import StoreSide, chosen, in_columns, matching_rows, open_side, side_of, tables
from streams_recovery.operations.state.records import records_of
from streams_recovery.serdes.rows import Row, RowCodec, schema_of
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.repository import Repository

LOGGER = logger("streams_recovery.operations.state.inspect")

KEPT: Final = 20
_RECORDS = 10
# A look-up is for the savepoint: an application that rebalances, or that is down, does not keep it waiting.
_LIVE_SECONDS = 10.0
_COLUMNS = ("store", "key", "change", "before", "after")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two sides by name, the numbers, and each key that differs: ``change``, ``parts``, and its rows ``before`` and ``after``."""

    before: str
    after: str
    counts: DiffCounts
    rows: tuple[dict[str, Any], ...]


def compare_savepoints(recovery: RecoveryContext, request: CompareRequest) -> Inspection:
    """Compare the stores of two savepoints, or of a savepoint with the running application. Raises what reading one of ``stores`` raises. Without ``stores`` a
    store that cannot be compared is told of, and a store of only one savepoint is a difference.
    """
    manifest = chosen(recovery, request.savepoint)
    second = None if request.other == LIVE else chosen(recovery, request.other)
    other = LIVE if second is None else second.savepoint_id
    here = _stores(manifest)
    there = here if second is None else _stores(second)
    found = _Comparisons(recovery, manifest, other)
    for store in request.stores or sorted(here & there):
        found.add(store, named=bool(request.stores))
    for store in () if request.stores else sorted(here ^ there):
        found.add_alone(store, manifest.savepoint_id if store in here else other)
    inspection = Inspection(
        savepoint_id=manifest.savepoint_id,
        other=other,
        question=f"{manifest.savepoint_id} compared with {other}",
        outcome=found.outcome,
        sentences=found.sentences,
        found=found.rows(),
        has_data=found.shown,
        at=recovery.clock(),
        run_id=request.run_id,
        requested_by=request.requested_by,
    )
    _record(recovery, inspection)
    return inspection


class _Comparisons:
    """The results of the stores that were compared so far."""

    def __init__(self, recovery: RecoveryContext, manifest: Manifest, other: str) -> None:
        self._recovery, self._manifest, self._other = recovery, manifest, other
        self.shown = recovery.config.access.show_values
        self.counts: list[DiffCounts] = []
        self._alone: list[str] = []
        self._left_out: list[str] = []
        self._sentences: list[str] = []
        self._rows: list[tuple[str, ...]] = []

    def add(self, store: str, *, named: bool) -> None:
        """Compare one store."""
        try:
            self._compare(store)
        except (NotFound, Refused) as error:
            if named:
                raise
            self._left_out.append(f"{store}: not compared: {error.reason}")

    def add_alone(self, store: str, side: str) -> None:
        """Tell of a store that only the savepoint ``side`` has."""
        self._alone.append(f"{store}: only {side} has this store")

    @property
    def outcome(self) -> Outcome:
        return compared_outcome(self.counts, alone=len(self._alone), left_out=len(self._left_out))

    @property
    def sentences(self) -> tuple[str, ...]:
        """Stores that were not compared come first: only so many sentences are shown."""
        return _few([*self._alone, *self._left_out, *self._sentences])

    def _compare(self, store: str) -> None:
        one, other = side_of(self._recovery, store, self._manifest), open_side(self._recovery, store, self._other)
        done = compare(one, other, most=MOST_ROWS - len(self._rows) if self.shown else 0)
        self._rows += [(store, *difference_cells(row, one, other)) for row in done.rows]
        self.counts.append(done.counts)
        self._sentences.append(counts_text(store, done.counts))

    def rows(self) -> FoundRows:
        """The first of the keys that differ."""
        if not self.shown:
            return FoundRows()
        differing = sum(one.added + one.removed + one.changed for one in self.counts)
        return replace(bounded(_COLUMNS, self._rows), more=differing - len(self._rows))


def _stores(manifest: Manifest) -> frozenset[str]:
    return frozenset(store_name(one.name, manifest.application_id) for one in manifest.topics if one.role is TopicRole.CHANGELOG)


def _few(sentences: list[str]) -> tuple[str, ...]:
    more = len(sentences) - MOST_SENTENCES
    return (*sentences[:MOST_SENTENCES], *((f"and {more} more stores",) if more > 0 else ()))


def look_up(recovery: RecoveryContext, request: LookUpRequest) -> Inspection:
    """Look up a key of a store, or the newest records of each partition of a topic, in a savepoint. A key that is not there is an answer too. Where values may
    be shown, the running application is asked for the key as well.
    """
    savepoint_id = chosen(recovery, request.savepoint).savepoint_id
    shown = recovery.config.access.show_values
    beside: tuple[str, ...] = ()
    if request.store:
        side = open_side(recovery, request.store, savepoint_id)
        key = str(request.key)
        found = _of_key(side, key, shown=shown)
        count = len(found.rows) + found.more
        if shown:
            found, beside = _with_live(recovery, side, key, found)
        subject = f"key {request.key} of store {request.store}" if shown else f"a key of store {request.store}"
    else:
        found = _of_topic(recovery, request.topic, savepoint_id, shown=shown)
        count = len(found.rows) + found.more
        subject = f"newest records of {request.topic}"
    inspection = Inspection(
        savepoint_id=savepoint_id,
        other="",
        question=f"{subject} in {savepoint_id}",
        outcome=Outcome.FOUND if count else Outcome.NOT_FOUND,
        sentences=(f"{count:,} {'row' if count == 1 else 'rows'}", *beside),
        found=found,
        has_data=shown,
        at=recovery.clock(),
        run_id=request.run_id,
        requested_by=request.requested_by,
    )
    _record(recovery, inspection)
    return inspection


def _with_live(recovery: RecoveryContext, side: StoreSide, key: str, found: FoundRows) -> tuple[FoundRows, tuple[str, ...]]:
    """The savepoint's rows for the key, and below them those of the running application; without its answer the reason, which may name the key."""
    asked = answered_or_why(recovery, side, key, seconds=_LIVE_SECONDS)
    if isinstance(asked, str):
        return found, (f"the running application was not asked: {asked}",)
    live, equal = asked
    columns = found.columns
    rows = [(side.name, *row) for row in found.rows]
    rows += [(LIVE, *(cells.get(name, "") for name in columns)) for cells in live_cells(key, live)]
    more = found.more + (1 if live.more else 0)
    beside = bounded(("in", *columns), rows)
    return replace(beside, more=beside.more + more), (f"the running application has {LIVE_WORDS[live.found, equal]}",)


def _of_key(side: StoreSide, key: str, *, shown: bool) -> FoundRows:
    names = schema_of(side.form).names
    if shown:
        return bounded(names, (in_columns(row, side.form) for row in matching_rows(side, key, deleted=True)))
    # Values are not read at all, so that not even an error has one.
    closed = replace(side, form=replace(side.form, value=PLAIN_BYTES))
    rows = (hidden(names, in_columns(row, closed.form), deleted=row["value"] is None) for row in _without_bytes(closed, key))
    return bounded(hidden_columns(names), rows)


def _without_bytes(side: StoreSide, key: str) -> Iterator[Row]:
    try:
        yield from matching_rows(side, key, deleted=True)
    except ConfigInvalid:
        raise ConfigInvalid(
            f"the key that is looked up, or one of store {side.store}, does not have the configured format",
            next_step="`streams-recovery state show` names the bytes that do not; correct the key, or the store's key format",
            store=side.store,
        ) from None


def _of_topic(recovery: RecoveryContext, topic: str, savepoint_id: str, *, shown: bool) -> FoundRows:
    records = records_of(recovery, RecordsRequest(topic=topic, savepoint=savepoint_id, partition=None, offset=None, count=_RECORDS))
    if shown:
        return bounded(RECORD_COLUMNS, map(record_cells, records))
    rows = (hidden(RECORD_COLUMNS, record_cells(one), deleted=one.value is None) for one in records)
    return bounded(hidden_columns(RECORD_COLUMNS), rows)


def compare(one: StoreSide, other: StoreSide, *, most: int | None = None) -> Comparison:
    """Compare two sides key by key. Memory holds one partition's keys of both, and the rows of what differs: the first ``most`` of them, all without that.
    The counts are always of all.

    Raises ``Refused`` when the sides have different numbers of partitions: then no key of one is where it is in the other.
    """
    if one.partitions != other.partitions:
        raise Refused(
            f"{one.topic} has {len(one.partitions)} partitions in {one.name} and {len(other.partitions)} in {other.name}",
            next_step="compare savepoints from after the change",
        )
    rows: list[dict[str, Any]] = []
    total = DiffCounts(before=0, after=0, compared=0, added=0, removed=0, changed=0)
    before, after = RowCodec(one.form), RowCodec(other.form)
    for old, new in zip(tables(one), tables(other), strict=True):
        found = list(differences(old, new))
        total = total + counted(old, new, found)
        rows += [
            {
                "change": difference.change.value,
                "parts": list(difference.parts),
                "before": _row(before, difference.before),
                "after": _row(after, difference.after),
            }
            for difference in (found if most is None else found[: most - len(rows)])
        ]
    return Comparison(before=one.name, after=other.name, counts=total, rows=tuple(rows))


def _row(codec: RowCodec, entry: Entry | None) -> dict[str, Any] | None:
    return None if entry is None else codec.row(entry)


def difference_cells(row: dict[str, Any], one: StoreSide, other: StoreSide) -> tuple[str, str, str, str]:
    """A row of a comparison for a terminal: the key with its window or version, what changed, and that of both sides."""
    sides = {
        side: dict(zip(row[side], in_columns(row[side], form), strict=True))
        for side, form in (("before", one.form), ("after", other.form))
        if row[side]
    }
    known = sides.get("after") or sides["before"]
    key = [known[part] for part in ("key", "window_start", "window_end", "window_seq", "valid_from") if part in known]
    before, after = (_cells(sides.get(side), row["parts"]) for side in ("before", "after"))
    return " ".join(key), ", ".join([row["change"], *row["parts"]]), before, after


def _cells(row: dict[str, str] | None, parts: list[str]) -> str:
    names = parts or ["value"]
    return "" if row is None else " ".join(row.get(name, row.get("valid_from", "")) for name in names)


def inspection_log(repository: Repository, layout: Layout) -> AppendLog[Inspection]:
    """The log of what people had compared and looked up."""
    return AppendLog(repository, layout.inspections, Inspection)


def _record(recovery: RecoveryContext, found: Inspection) -> None:
    """Store an inspection, and remove old ones as far as that is allowed."""
    log = inspection_log(recovery.repository, recovery.layout)
    log.append(found, whole=False)
    try:
        log.prune(KEPT, whole=False)
    except RecoveryError as error:
        LOGGER.warning("old results of comparisons and look-ups stay: %s", error.reason)


def newest(repository: Repository, layout: Layout) -> tuple[Inspection, ...]:
    """The newest inspections that can be read, the last one first. Raises ``RepositoryUnavailable``."""
    return tuple(islice(inspection_log(repository, layout).readable_back(whole=False), KEPT))
