"""What a repository holds, as retention has to know it."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from streams_recovery.core.errors import Damaged, Forged
from streams_recovery.core.repository import retention
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.publication import Publication
from streams_recovery.core.repository.ranges import TableRef
from streams_recovery.core.repository.retention import HeldSavepoint, KeptWork, Pins, RunWork, StoredFile
from streams_recovery.operations import pins
from streams_recovery.operations.archive import read_archive
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.maintenance.records import lost
from streams_recovery.operations.unfinished import PLAN, keeps_work, needed_savepoints, restores_of
from streams_recovery.storage.lock import ApplicationLock
from streams_recovery.storage.range_tables import RangeTables
from streams_recovery.storage.run_artifacts import RunArtifacts
from streams_recovery.storage.savepoints import SavepointStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """A savepoint that exists no more. ``at`` is when its last copy was stored; ``copies`` are the keys of its manifest's copies. ``summary`` is None
    when its files may go: then nobody asks any more which they are.
    """

    at: int
    summary: Publication | None
    copies: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """Savepoints that can be read, safety savepoints, expired ones of both, segments, range tables, and what cannot be read or is lost: ids of manifests,
    keys of tables. ``needed`` has the keys of tables that a savepoint names, ``named`` a byte for each segment: 1 when one of these tables or the
    archive does.
    ``broken`` are hashes of tables that are not whole. ``in_use`` has those that an unfinished restore needs: the one it brings back, and the one that
    leads back from it.
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

    def held(self) -> list[HeldSavepoint]:
        """The savepoints as retention sees them: one is whole when every table that it names is, and every file that these name is there with its size."""
        return [
            HeldSavepoint(
                savepoint_id=one.savepoint_id,
                captured_at=one.captured_at,
                consistency=one.consistency,
                whole=not any(ref.sha256 in self.broken for refs in one.tables.values() for ref in refs),
                in_use=one.savepoint_id in self.in_use,
                replaces=one.replaces,
                profile=one.profile,
                survives=one.survives_cluster_loss,
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
    """Everything at this moment. Damage is noted, not raised. Each table is opened once, whatever names it, and each manifest: a record
    of its publication may be anybody's, and files go by what is found here.
    """
    savepoints, unreadable = _readable(recovery.savepoints)
    safety, unreadable_safety = _readable(recovery.safety)
    unreadable += unreadable_safety
    expired, torn = _expired(recovery, {*(one.savepoint_id for one in (*savepoints, *safety)), *unreadable})
    # What a lost manifest named looks as if nobody needed it.
    gone = [f"{savepoint_id} (lost)" for savepoint_id in lost(recovery)]
    # Before the segments: a table is there after those that it names.
    tables = tuple(recovery.repository.listed(recovery.layout.range_tables))
    segments = tuple(recovery.repository.listed(recovery.layout.segments))
    needed = (*savepoints, *safety, *(one.summary for one in expired.values() if one.summary is not None))
    opened = _opened(recovery, {(topic, ref) for one in needed for topic, refs in one.tables.items() for ref in refs}, segments)
    archived, torn_archive = _archived(recovery)
    return Holdings(
        savepoints=tuple(savepoints),
        safety=tuple(safety),
        expired=expired,
        segments=segments,
        tables=tables,
        needed=opened.keys,
        named=bytes(named or file.key in archived for file, named in zip(segments, opened.named, strict=True)),
        broken=opened.broken,
        unreadable=(*unreadable, *torn, *gone, *opened.unreadable, *torn_archive),
        pins=pins.pins_of(recovery),
        in_use=needed_savepoints(recovery),
    )


def _archived(recovery: RecoveryContext) -> tuple[frozenset[str], tuple[str, ...]]:
    """Files of the continuous archive, which no savepoint may have yet; and its name where that cannot be told."""
    try:
        archive = read_archive(recovery)
    except Damaged:
        return frozenset(), ("the continuous archive",)
    return frozenset(one.file.key for logs in archive.logs.values() for log in logs for one in log.ranges if one.file is not None), ()


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


def _readable(store: SavepointStore) -> tuple[list[Publication], list[str]]:
    found = store.summaries_of_manifests()
    readable = [one for one in found.values() if isinstance(one, Publication)]
    # What is forged needs no file.
    return readable, [savepoint_id for savepoint_id, one in found.items() if isinstance(one, Damaged) and not isinstance(one, Forged)]


def _expired(recovery: RecoveryContext, alive: set[str]) -> tuple[dict[str, Expired], list[str]]:
    found, unreadable = {}, []
    for savepoint_id, copies in recovery.savepoints.copies().items():
        if savepoint_id in alive:
            continue
        expired = recovery.savepoints.expired_as(savepoint_id, copies)
        if expired is None:
            unreadable.append(f"{savepoint_id} (expired)")
            continue
        # Whoever makes a copy chooses its name: the grace period counts from when it was stored.
        summary, at = expired
        over = bool(retention.past_grace({savepoint_id: at}, now=recovery.clock(), grace_ms=grace_ms(recovery)))
        found[savepoint_id] = Expired(at=at, summary=None if over else summary, copies=tuple(file.key for file in copies))
    return found, unreadable


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """What nobody needs any more besides segments: the ``work`` of runs that are over, and ``staged`` files of writers that were killed. The work of runs
    in ``kept`` is as old, and stays.
    """

    work: tuple[RunWork, ...]
    kept: tuple[KeptWork, ...]
    staged: tuple[StoredFile, ...]


def leftovers(recovery: RecoveryContext) -> Leftovers:
    """What there is of it at this moment, that of drills too. Only who holds the application's lock knows that no run needs it: whoever had the lock before
    has lost it, and its steps refuse to go on. Runs without a lock, such as checks, are over by their age alone.
    """
    found = [_left_of(one) for one in (recovery, drills_of(recovery)) if one is not None]
    return Leftovers(
        work=tuple(work for one in found for work in one.work),
        kept=tuple(work for one in found for work in one.kept),
        staged=tuple(file for one in found for file in one.staged),
    )


def drills_of(recovery: RecoveryContext) -> RecoveryContext | None:
    """The part of the repository that the drills of this application write to, with its lock; None without drills. Nobody else looks after it."""
    drill = recovery.config.drill
    if drill is None or not drill.enabled or drill.application_id == recovery.application_id:
        return None
    layout = Layout(drill.application_id)
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
    staged = retention.removable(recovery.repository.staged(f"{recovery.layout.application_id}/"), now=now, grace_ms=grace_ms(recovery))
    return Leftovers(
        work=tuple(work for work in old if work.run not in kept),
        kept=tuple(KeptWork(run=run, why=why) for run, why in kept.items()),
        staged=tuple(staged),
    )


def _needed(recovery: RecoveryContext, work: RunWork, restores: Collection[str]) -> str | None:
    if work.run in restores:
        return keeps_work(recovery, work.run)
    plan = recovery.layout.work(work.run, PLAN)
    return "it is a restore, and its journal is gone" if plan in work.keys else None


def grace_ms(recovery: RecoveryContext) -> int:
    """How long files of an expired savepoint stay."""
    return recovery.config.retention.grace_days * retention.DAY_MS
