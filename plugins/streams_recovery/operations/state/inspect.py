"""Looking into savepoints for a person: two are compared, or something is looked up. Reads only and takes no lock; what was found is stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from streams_recovery.core.errors import ConfigInvalid, NotFound, Refused
from streams_recovery.core.ids import LIVE
from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.names import store_name
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.state.cells import PLAIN_BYTES
from streams_recovery.core.state.inspection import (
    MOST_ROWS,
    MOST_SENTENCES,
    RECORD_COLUMNS,
    CompareRequest,
    FoundRows,
    Inspection,
    LookUpRequest,
    Outcome,
    bounded,
    compared_outcome,
    counts_text,
    hidden,
    hidden_columns,
    record_cells,
)
from streams_recovery.core.state.peek import PeekRequest
from streams_recovery.core.state.table import DiffCounts
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.state.ask import LIVE_WORDS, answered_or_why, live_cells
from streams_recovery.operations.state.compare import compare, difference_cells
from streams_recovery.operations.state.files import in_columns
from streams_recovery.operations.state.inspections import record
from streams_recovery.operations.state.peek import peek
from streams_recovery.operations.state.read import StoreSide, chosen, matching_rows, open_side, side_of
from streams_recovery.serdes.rows import Row, schema_of

_RECORDS = 10
# A look-up is for the savepoint: an application that rebalances, or that is down, does not keep it waiting.
_LIVE_SECONDS = 10.0
_COLUMNS = ("store", "key", "change", "before", "after")


def compare_savepoints(recovery: RecoveryContext, request: CompareRequest) -> Inspection:
    """Compare the stores of two savepoints, or of a savepoint with the running application. Raises what reading one of ``stores`` raises; when none is named,
    a store that cannot be compared is told of.
    """
    manifest = chosen(recovery, request.savepoint)
    other = LIVE if request.other == LIVE else chosen(recovery, request.other).savepoint_id
    found = _Comparisons(recovery, manifest, other)
    for store in request.stores or _stores(manifest):
        found.add(store, named=bool(request.stores))
    inspection = Inspection(
        savepoint_id=manifest.savepoint_id,
        other=other,
        question=f"{manifest.savepoint_id} compared with {other}",
        outcome=compared_outcome(found.counts),
        sentences=_few(found.sentences),
        found=found.rows(),
        has_data=found.shown,
        at=recovery.clock(),
        run_id=request.run_id,
        requested_by=request.requested_by,
    )
    record(recovery, inspection)
    return inspection


class _Comparisons:
    """What the stores that were compared so far have shown."""

    def __init__(self, recovery: RecoveryContext, manifest: Manifest, other: str) -> None:
        self._recovery, self._manifest, self._other = recovery, manifest, other
        self.shown = recovery.config.access.show_values
        self.counts: list[DiffCounts] = []
        self.sentences: list[str] = []
        self._rows: list[tuple[str, ...]] = []

    def add(self, store: str, *, named: bool) -> None:
        """Compare one store."""
        try:
            self._compare(store)
        except (NotFound, Refused) as error:
            if named:
                raise
            self.sentences.append(f"{store}: not compared: {error.reason}")

    def _compare(self, store: str) -> None:
        one, other = side_of(self._recovery, store, self._manifest), open_side(self._recovery, store, self._other)
        done = compare(one, other, most=MOST_ROWS - len(self._rows) if self.shown else 0)
        self._rows += [(store, *difference_cells(row, one, other)) for row in done.rows]
        self.counts.append(done.counts)
        self.sentences.append(counts_text(store, done.counts))

    def rows(self) -> FoundRows:
        """The first of the keys that differ."""
        if not self.shown:
            return FoundRows()
        differing = sum(one.added + one.removed + one.changed for one in self.counts)
        return replace(bounded(_COLUMNS, self._rows), more=differing - len(self._rows))


def _stores(manifest: Manifest) -> list[str]:
    return sorted(store_name(one.name, manifest.application_id) for one in manifest.topics if one.role is TopicRole.CHANGELOG)


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
    record(recovery, inspection)
    return inspection


def _with_live(recovery: RecoveryContext, side: StoreSide, key: str, found: FoundRows) -> tuple[FoundRows, tuple[str, ...]]:
    """What the savepoint has, and below it what the running application has for the key; without an answer of it, why, which may name the key."""
    asked = answered_or_why(recovery, side, key, seconds=_LIVE_SECONDS)
    if isinstance(asked, str):
        return found, (f"the running application was not asked: {asked}",)
    columns = found.columns
    rows = [(side.name, *row) for row in found.rows]
    rows += [(LIVE, *(cells.get(name, "") for name in columns)) for cells in live_cells(key, asked.live)]
    more = found.more + (1 if asked.live.more else 0)
    beside = bounded(("in", *columns), rows)
    return replace(beside, more=beside.more + more), (f"the running application has {LIVE_WORDS[asked.live.found, asked.equal]}",)


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
            next_step="`streams-recovery state` names the bytes that do not; correct the key, or the store's key format",
            store=side.store,
        ) from None


def _of_topic(recovery: RecoveryContext, topic: str, savepoint_id: str, *, shown: bool) -> FoundRows:
    records = peek(recovery, PeekRequest(topic=topic, savepoint=savepoint_id, partition=None, offset=None, count=_RECORDS))
    if shown:
        return bounded(RECORD_COLUMNS, map(record_cells, records))
    rows = (hidden(RECORD_COLUMNS, record_cells(one), deleted=one.value is None) for one in records)
    return bounded(hidden_columns(RECORD_COLUMNS), rows)
