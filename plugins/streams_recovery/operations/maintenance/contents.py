"""The contents of a repository, as retention has to know them: savepoints, segments, range tables, and what runs have left.

Besides these it reads the logs of an application, and finds manifests that are lost.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any

from streams_recovery.core.archive.cuts import KeptCut
from streams_recovery.core.archive.log import MOST_BYTES_OF_ARCHIVE_ENTRY, ArchiveEntry
from streams_recovery.core.codec import MOST_BYTES, MOST_BYTES_OF_ENTRY
from streams_recovery.core.errors import Damaged, Forged, NotFound, RecoveryError
from streams_recovery.core.offsets.snapshot import OffsetSnapshot
from streams_recovery.core.repository import check as findings
from streams_recovery.core.repository import retention
from streams_recovery.core.repository.check import Cause, Finding, cause_of
from streams_recovery.core.repository.journal import JournalEntry
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.lease import LockRecord
from streams_recovery.core.repository.ownership import OwnershipEntry, ReadUpTo
from streams_recovery.core.repository.publication import Publication
from streams_recovery.core.repository.ranges import TableRef
from streams_recovery.core.repository.retention import (
    Announcement,
    HeldSavepoint,
    KeptWork,
    Pin,
    Pins,
    RunWork,
    StoredFile,
    pinned,
)
from streams_recovery.core.repository.seal import Adoption
from streams_recovery.core.repository.sites import SiteEntry
from streams_recovery.core.restore.point_in_time import QuarantineEntry
from streams_recovery.core.sandbox.drill import DrillEntry
from streams_recovery.core.sandbox.interval_log import ReprocessEntry
from streams_recovery.core.sandbox.results import SlotEntry
from streams_recovery.core.savepoint.cut import QuiesceRecord
from streams_recovery.core.savepoint.writers import LoadedEntry
from streams_recovery.core.scheduled_run import RunEntry
from streams_recovery.core.topic_holds.log import HoldEntry
from streams_recovery.operations import unfinished
from streams_recovery.operations.archive import archived_files
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.maintenance.unproven import Unproven, find_unproven, ids_of
from streams_recovery.operations.unfinished import PLAN, NeededByOthers, keeps_work, needed_savepoints, restores_of
from streams_recovery.storage.json_object import UNREADABLE, only_this_one, read_value
from streams_recovery.storage.lock import ApplicationLock
from streams_recovery.storage.range_tables import RangeTables
from streams_recovery.storage.run_artifacts import RunArtifacts
from streams_recovery.storage.savepoints import SavepointStore

# Decisions rest on the newest entries; the others are history.
_NEWEST = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """A savepoint that exists no more. ``at`` is when its last copy was stored; ``copies`` are the keys of its manifest's copies. ``summary`` is None when its
    files may go: then their names are not needed any more.
    """

    at: int
    summary: Publication | None
    copies: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """Savepoints that can be read, safety savepoints, expired ones of both, segments, range tables, and what cannot be read or is lost: ids of manifests,
    keys of tables. ``needed`` has the keys of tables that a savepoint names, ``named`` a byte for each segment: 1 when one of these tables or the
    archive does.
    ``broken`` are hashes of tables that are not whole. ``in_use`` has the savepoints that an unfinished restore needs: the one it brings back, and the safety
    savepoint that leads back from it. ``of_others`` has those that restores of other applications need. An ``unproven`` record counts for no rule, and all that
    it names stays.
    """

    savepoints: tuple[Publication, ...]
    safety: tuple[Publication, ...]
    expired: dict[str, Expired]
    segments: tuple[StoredFile, ...]
    tables: tuple[StoredFile, ...]
    needed: frozenset[str]
    named: bytes
    broken: frozenset[str]
    unreadable: tuple[str, ...]
    pins: Pins
    in_use: frozenset[str]
    of_others: NeededByOthers
    unproven: Unproven

    def held(self) -> list[HeldSavepoint]:
        """The savepoints as retention sees them. A savepoint is whole when all its tables are, and all files of these are there with their size."""
        return [
            HeldSavepoint(
                savepoint_id=one.savepoint_id,
                captured_at=one.captured_at,
                consistency=one.consistency,
                whole=not any(ref.sha256 in self.broken for refs in one.tables.values() for ref in refs),
                in_use=one.savepoint_id in self.in_use,
                needed_by=self.of_others.by.get(one.savepoint_id, ()) or self.of_others.unreadable,
                replaces=one.replaces,
                profile=one.profile,
                survives=one.survives_cluster_loss,
                rescaled=bool(one.rescaled),
            )
            for one in self.savepoints
        ]

    def unnamed(self) -> list[StoredFile]:
        """Segments and tables that no savepoint needs, in this order."""
        return [
            *(file for file, named in zip(self.segments, self.named, strict=True) if not named),
            *(table for table in self.tables if table.key not in self.needed),
        ]


def holdings(recovery: RecoveryContext) -> Holdings:
    """All that the repository holds at this moment. Damage is noted, not raised. Each table is opened once, whatever names it, and each manifest: a record of
    its publication may be anybody's, and files go by what is found here.
    """
    savepoints, unreadable, forged = _readable_savepoints(recovery.savepoints)
    safety, unreadable_safety, forged_safety = _readable_savepoints(recovery.safety)
    unreadable += unreadable_safety
    forged |= forged_safety
    unproven = find_unproven(recovery, forged)
    expired, torn = _expired(recovery, {*(one.savepoint_id for one in (*savepoints, *safety)), *unreadable, *ids_of(forged)})
    # Files that only a lost manifest named look as if no savepoint needed them.
    gone = [f"{savepoint_id} (lost)" for savepoint_id in lost(recovery)]
    # Before the segments: a table is there after those that it names.
    tables = tuple(recovery.repository.listed(recovery.layout.range_tables))
    segments = tuple(recovery.repository.listed(recovery.layout.segments))
    needed = (*savepoints, *safety, *unproven.named, *(one.summary for one in expired.values() if one.summary is not None))
    opened = _opened(recovery, {(topic, ref) for one in needed for topic, refs in one.tables.items() for ref in refs}, segments)
    archived, torn_archive = _archived(recovery)
    pins, of_others = unfinished.pins_of(recovery), unfinished.needed_by_others(recovery)
    return Holdings(
        savepoints=tuple(savepoints),
        safety=tuple(safety),
        expired=expired,
        segments=segments,
        tables=tables,
        needed=opened.keys,
        named=bytes(
            named or file.key in archived or file.key in unproven.files for file, named in zip(segments, opened.named, strict=True)
        ),
        broken=opened.broken,
        unreadable=(*unreadable, *torn, *gone, *opened.unreadable, *torn_archive, *unproven.unreadable, *of_others.unreadable),
        pins=replace(pins, marks=(*pins.marks, *unproven.pins)),
        in_use=needed_savepoints(recovery) | unproven.in_use,
        of_others=of_others,
        unproven=unproven,
    )


def _archived(recovery: RecoveryContext) -> tuple[frozenset[str], tuple[str, ...]]:
    """Files of the continuous archive, which no savepoint may have yet, or that an opened restore uses; and its name where that cannot be told."""
    try:
        return archived_files(recovery), ()
    except Damaged:
        return frozenset(), ("the continuous archive",)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    keys: frozenset[str]
    named: bytes
    broken: frozenset[str]
    unreadable: tuple[str, ...]


def _opened(recovery: RecoveryContext, wanted: Iterable[tuple[str, TableRef]], segments: tuple[StoredFile, ...]) -> _Opened:
    places = {file.key: at for at, file in enumerate(segments)}
    sizes, named = array("q", (file.bytes for file in segments)), bytearray(len(segments))
    tables = RangeTables(recovery.repository, recovery.layout)
    keys, broken, unreadable = set(), set(), []
    for topic, ref in sorted(wanted, key=lambda one: (one[0], one[1].sha256)):
        key = recovery.layout.range_table(topic, ref.sha256)
        keys.add(key)
        try:
            found = tables.read(topic, ref)
        except Damaged:
            unreadable.append(key)
            broken.add(ref.sha256)
            continue
        for name, size in (file for columns in found.values() for file in columns.sizes()):
            at = places.get(name)
            if at is not None:
                named[at] = 1
            if at is None or sizes[at] != size:
                broken.add(ref.sha256)
    return _Opened(keys=frozenset(keys), named=bytes(named), broken=frozenset(broken), unreadable=tuple(unreadable))


def _readable_savepoints(store: SavepointStore) -> tuple[list[Publication], list[str], dict[str, str]]:
    """Savepoints that are believed, ids of those that cannot be read, and why the others are not believed, by the keys of their manifests."""
    found = store.summaries(by_manifest=True)
    readable = [one for one in found.values() if isinstance(one, Publication)]
    damaged = [savepoint_id for savepoint_id, one in found.items() if isinstance(one, Damaged) and not isinstance(one, Forged)]
    return (
        readable,
        damaged,
        {store.key(savepoint_id): str(one.facts["why"]) for savepoint_id, one in found.items() if isinstance(one, Forged)},
    )


def _expired(recovery: RecoveryContext, alive: set[str]) -> tuple[dict[str, Expired], list[str]]:
    found, unreadable = {}, []
    for savepoint_id, copies in recovery.savepoints.copies().items():
        if savepoint_id in alive:
            continue
        expired = recovery.savepoints.expired_as(savepoint_id, copies)
        if expired is None:
            unreadable.append(f"{savepoint_id} (expired)")
            continue
        # The writer of a copy chooses its name: the grace period counts from when it was stored.
        summary, at = expired
        over = bool(retention.past_grace({savepoint_id: at}, now=recovery.clock(), grace_ms=grace_ms(recovery)))
        found[savepoint_id] = Expired(at=at, summary=None if over else summary, copies=tuple(file.key for file in copies))
    return found, unreadable


def lost(recovery: RecoveryContext) -> dict[str, str]:
    """Savepoints that must exist and do not, with what proves it. What cannot be read proves nothing here: it is a finding of its own."""
    # In this order nothing that is published or expires meanwhile is taken for lost: a record follows its manifest, and a manifest goes only
    # after it was copied.
    published, kept, in_use = (
        recovery.savepoints.published(),
        _readable(lambda: pinned(unfinished.pin_log(recovery).read_all())),
        _readable(lambda: needed_savepoints(recovery)),
    )
    alive = {*recovery.savepoints.ids(), *recovery.safety.ids()}
    # A record that is forged says nothing.
    proven = [one for one in published if one in alive or not recovery.savepoints.forged_object(recovery.layout.published(one))]
    expired = [
        savepoint_id
        for savepoint_id, copies in recovery.savepoints.copies().items()
        if savepoint_id not in alive and recovery.savepoints.expired_as(savepoint_id, copies) is not None
    ]
    return findings.lost_manifests(alive, expired, published=proven, pinned=kept, in_use=in_use)


def _readable(read: Callable[[], Collection[str]]) -> Collection[str]:
    try:
        return read()
    except (Damaged, NotFound, *UNREADABLE):
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """Objects besides segments that are not needed any more: the ``work`` of runs that are over, ``staged`` files of writers that were killed, and ``keys`` of
    data that are in the name of nothing. The work of runs in ``kept`` is as old, and stays.
    """

    work: tuple[RunWork, ...]
    kept: tuple[KeptWork, ...]
    staged: tuple[StoredFile, ...]
    keys: tuple[StoredFile, ...] = ()


def leftovers(recovery: RecoveryContext) -> Leftovers:
    """All leftovers at this moment, those of drills too. Only the holder of the application's lock knows that no run needs them: an earlier holder has lost the
    lock, and its steps refuse to go on. Runs without a lock, such as checks, are over by their age alone.
    """
    found = [_left_of(one) for one in (recovery, drills_of(recovery)) if one is not None]
    return Leftovers(
        work=tuple(work for one in found for work in one.work),
        kept=tuple(work for one in found for work in one.kept),
        staged=tuple(file for one in found for file in one.staged),
        keys=tuple(file for one in found for file in one.keys),
    )


def drills_of(recovery: RecoveryContext) -> RecoveryContext | None:
    """The part of the repository that the drills of this application write to, with its lock; None without drills. Only the application's own maintenance looks
    after it. None too where the part has what no drill leaves: what is not needed there, only the expiry of the application knows that had this id.
    """
    drill = recovery.config.drill
    if drill is None or not drill.enabled or drill.application_id == recovery.application_id:
        return None
    layout = Layout(drill.application_id)
    named = (layout.savepoints, layout.safety.savepoints, layout.published_prefix, layout.retired_prefix, layout.archive)
    if any(any(recovery.repository.keys(one)) for one in named):
        return None
    return replace(
        recovery,
        layout=layout,
        artifacts=RunArtifacts(recovery.repository, layout),
        lock=ApplicationLock(recovery.repository, layout, recovery.clock),
    )


def _left_of(recovery: RecoveryContext) -> Leftovers:
    now = recovery.clock()
    age_ms = recovery.config.retention.work_days * retention.DAY_MS
    old = retention.old_work(recovery.repository.listed(recovery.layout.artifacts), recovery.layout.run_of, now=now, age_ms=age_ms)
    restores = restores_of(recovery) if old else set()
    kept = {work.run: why for work in old if (why := _needed(recovery, work, restores)) is not None}
    unnamed = [*recovery.repository.staged(f"{recovery.layout.application_id}/"), *_placed_by_drills(recovery)]
    staged = retention.removable(unnamed, now=now, grace_ms=grace_ms(recovery))
    return Leftovers(
        work=tuple(work for work in old if work.run not in kept),
        kept=tuple(KeptWork(run=run, why=why) for run, why in kept.items()),
        staged=tuple(staged),
        keys=tuple(_unneeded_keys(recovery)),
    )


def _unneeded_keys(recovery: RecoveryContext) -> list[StoredFile]:
    # Before the objects: what is encrypted meanwhile is so with a younger key.
    if not (wrapped := recovery.repository.listed(recovery.layout.keys)):
        return []
    objects = recovery.repository.keys(f"{recovery.layout.application_id}/")
    return retention.unneeded_keys(wrapped, objects, now=recovery.clock(), grace_ms=grace_ms(recovery))


def _placed_by_drills(recovery: RecoveryContext) -> Iterable[StoredFile]:
    """Segments in the part of drills: records that were placed anew there. None while a drill runs."""
    try:
        if recovery.layout.application_id == recovery.application_id or recovery.lock.holder() is not None:
            return ()
    except Damaged:
        # Whether a drill runs is not known. What removes its work says so.
        return ()
    return recovery.repository.listed(recovery.layout.segments)


def _needed(recovery: RecoveryContext, work: RunWork, restores: Collection[str]) -> str | None:
    if work.run in restores:
        return keeps_work(recovery, work.run)
    plan = recovery.layout.work(work.run, PLAN)
    return "it is a restore, and its journal is gone" if plan in work.keys else None


def grace_ms(recovery: RecoveryContext) -> int:
    """The time for which files of an expired savepoint stay."""
    return recovery.config.retention.grace_days * retention.DAY_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsChecked:
    """The number of records that were read, and what is wrong."""

    read: int
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Family:
    """Logs of one kind: the entries below ``prefix``, each directory a log. ``shortened`` ones may have lost their oldest entries. An entry has at most
    ``most_bytes``.
    """

    prefix: str
    kind: type[Any]
    shortened: bool = False
    within: str = ""
    most_bytes: int = MOST_BYTES_OF_ENTRY


def check_logs(recovery: RecoveryContext, *, every_entry: bool) -> RecordsChecked:
    """Find holes in the application's logs and entries that cannot be read: of all entries, or of the newest of each kind of log."""
    read, found = 0, []
    for family in _families(recovery.layout):
        keys = [key for key in recovery.repository.keys(family.prefix) if family.within in key]
        problems: dict[str, str] = {}
        for prefix, entries in groupby(keys, key=lambda key: f"{key.rsplit('/', 1)[0]}/"):
            begins = partial(_begins, recovery, family)
            problems |= findings.log_problems(prefix, list(entries), shortened=family.shortened, begins=begins)
        found += [_about(key, problem) for key, problem in problems.items()]
        whole = [key for key in keys if key not in problems]
        for key in whole if every_entry else whole[-_NEWEST:]:
            read += 1
            found += _entry(recovery, key, family)
    return RecordsChecked(read=read, findings=tuple(found))


def _families(layout: Layout) -> list[_Family]:
    return [
        _Family(prefix=layout.locks, kind=LockRecord, shortened=True),
        _Family(prefix=layout.quiesce_records, kind=QuiesceRecord, shortened=True),
        _Family(prefix=layout.holds, kind=HoldEntry),
        _Family(prefix=layout.pins, kind=Pin),
        _Family(prefix=layout.adopted, kind=Adoption, most_bytes=MOST_BYTES),
        _Family(prefix=layout.announcements, kind=Announcement),
        _Family(prefix=layout.restores, kind=JournalEntry, within="/journal/"),
        _Family(prefix=layout.drills, kind=DrillEntry),
        _Family(prefix=layout.quarantines, kind=QuarantineEntry, most_bytes=MOST_BYTES),
        _Family(prefix=layout.slots, kind=SlotEntry),
        _Family(prefix=layout.reprocessed, kind=ReprocessEntry),
        _Family(prefix=layout.scheduled_runs, kind=RunEntry, shortened=True),
        _Family(prefix=layout.ownership, kind=OwnershipEntry),
        _Family(prefix=layout.read_up_to, kind=ReadUpTo),
        _Family(prefix=layout.loaded, kind=LoadedEntry),
        _Family(prefix=layout.sites, kind=SiteEntry),
        _Family(prefix=layout.offset_snapshots, kind=OffsetSnapshot, most_bytes=MOST_BYTES),
        _Family(prefix=layout.archive, kind=ArchiveEntry, shortened=True, most_bytes=MOST_BYTES_OF_ARCHIVE_ENTRY),
        _Family(prefix=layout.archive_cuts, kind=KeptCut, shortened=True, most_bytes=MOST_BYTES_OF_ARCHIVE_ENTRY),
        _Family(prefix=layout.archiving.locks, kind=LockRecord, shortened=True),
    ]


def _begins(recovery: RecoveryContext, family: _Family, key: str) -> bool:
    """True if an entry needs none before it. Whatever else is wrong with it is found when it is read."""
    with suppress(RecoveryError):
        entry = read_value(recovery.repository, family.kind, key, most_bytes=family.most_bytes)
        return isinstance(entry, (ArchiveEntry, KeptCut)) and entry.begins
    return False


def _entry(recovery: RecoveryContext, key: str, family: _Family) -> list[Finding]:
    try:
        read_value(recovery.repository, family.kind, key, most_bytes=family.most_bytes)
    except Damaged as error:
        return [_about(key, error.reason, cause_of(error, Cause.DAMAGED_RECORD))]
    except NotFound:
        # Expiry shortens the log of the lock meanwhile.
        return []
    except UNREADABLE as error:
        return [_about(key, only_this_one(recovery.repository, recovery.layout, error), Cause.NOT_READ)]
    return []


def _about(key: str, problem: str, cause: Cause = Cause.DAMAGED_RECORD) -> Finding:
    return Finding(cause=cause, key=key, problem=problem, savepoints=())
