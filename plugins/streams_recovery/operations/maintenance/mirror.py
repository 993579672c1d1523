"""The second place of a repository: everything that a restore needs is copied there. It holds nothing, and takes no lock but on the way back. Run again, it
goes on where it ended.

Objects never change, so what is listed can be copied whatever runs meanwhile. What expires meanwhile is not found any more, and does not come.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from streams_recovery.core.archive.cuts import KeptCut
from streams_recovery.core.archive.log import ENTRY_READERS, MOST_BYTES_OF_ARCHIVE_ENTRY, ArchiveEntry
from streams_recovery.core.errors import ConfigInvalid, Damaged, NotFound, RecoveryError, Refused
from streams_recovery.core.repository.encryption import KEY_ID, KeyAccess, named_key
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.manifest import Manifest, SegmentFile
from streams_recovery.core.repository.mirror import (
    MirroredObject,
    MirrorPlan,
    MirrorStep,
    Moved,
    PassedOver,
    at_once,
    before_manifests,
    behind_manifests,
    expired_there,
    goes_on_by_itself,
    is_entry,
    mirror_plan,
    of_archive,
    only_moved,
    records_in_order,
    savepoint_of,
    written_there,
)
from streams_recovery.core.repository.publication import Publication
from streams_recovery.core.words import command, first_names
from streams_recovery.operations import quiesce_record
from streams_recovery.operations.archive import archive_lock
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.lock_holder import is_dead, this_process
from streams_recovery.operations.renewed_lock import HeldLock, held_lock
from streams_recovery.operations.unfinished import refuse_if_unfinished
from streams_recovery.storage.archive_logs import archive_entries
from streams_recovery.storage.json_object import create_value, read_value
from streams_recovery.storage.lock import ApplicationLock
from streams_recovery.storage.mirror import copy_object, note_proven, prove_object, require_apart, require_paired
from streams_recovery.storage.range_tables import RangeTables
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.savepoints import SavepointStore

if TYPE_CHECKING:
    from streams_recovery.storage.keys.keyring import Keyring

# Objects that are on their way at once.
_COPIERS: Final = 8
_MESSAGE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorReport:
    """The result of a run. ``savepoints`` are in two places since then. ``damaged`` are objects that could not be copied or are not what they should be, with
    the reason; what needs them is not there either.
    """

    application_id: str
    place: str
    copied: int
    bytes: int
    proven: int
    savepoints: tuple[str, ...]
    damaged: tuple[PassedOver, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Both places as bytes: no seal is looked at, and none is added."""

    first: Repository
    other: Repository


def places(recovery: RecoveryContext) -> Places:
    """Both places of the repository. Raises ``ConfigInvalid`` without a second one."""
    mirror = recovery.config.storage.second_place
    if mirror is None:
        raise ConfigInvalid(
            f"{recovery.config.name} has no second place",
            next_step="write storage.mirror in the configuration, with the keys of a place as in storage",
        )
    keys = recovery.connections.storage(mirror.connection, mirror.backend) if mirror.backend != "filesystem" else None
    return Places(first=recovery.repository.without_seals(), other=Repository(mirror.location, keys))


def plan_mirror(recovery: RecoveryContext, *, full: bool = False, back: bool = False, moves: bool = False) -> MirrorPlan:
    """What the second place lacks. Writes nothing. With ``full`` everything that is there is read as well, not only what is new to it. ``back`` is set for a
    context that has the two places the other way round: then the target may have gone on. Raises ``ConfigInvalid``, also for a second place that is the first
    one.
    """
    found = places(recovery)
    _require_two(recovery, found, back=back, writes=False)
    return _planned(recovery, found, full=full, back=back, moves=moves)


def fill_mirror(
    recovery: RecoveryContext,
    say: Callable[[str], None] = lambda _: None,
    *,
    full: bool = False,
    back: bool = False,
    moves: bool = False,
) -> MirrorReport:
    """Copy what the second place lacks, and prove it there. What is damaged takes nothing from the rest: see ``raise_unless_mirrored``. Raises
    ``ConfigInvalid`` as ``plan_mirror`` does, and ``RepositoryUnavailable``: what was copied stays, and the next run goes on behind it. On the way ``back``
    the target is where expiry works, so its lock is held. Raises ``LockHeld`` then. With ``moves`` what the other place needs as the first one
    comes too.
    """
    found = places(recovery)
    _require_two(recovery, found, back=back, writes=True)
    if back:
        with _lock_of_target(recovery, found):
            return _Copying(found, _planned(recovery, found, full=full, back=back, moves=moves), say, notes=False).report()
    own = _with_own_key(recovery)
    plan = _planned(recovery, found, full=full, back=back, moves=moves)
    report = _Copying(found, plan, say, notes=True).report()
    return replace(report, damaged=(*report.damaged, *own, *_not_opened(recovery, found, plan)))


def _with_own_key(recovery: RecoveryContext) -> tuple[PassedOver, ...]:
    """Make up for what the key of the second place has not wrapped. Returns what keeps it from that: what is encrypted is copied all the same."""
    keyring, prefix = recovery.repository.keyring, recovery.layout.keys
    try:
        if keyring is not None:
            keyring.complete(recovery.application_id)
    except RecoveryError as error:
        return (PassedOver(key=prefix, why=f"{prefix} needs the keys of the first place to be read there: {error.reason}"),)
    return ()


def _not_opened(recovery: RecoveryContext, found: Places, plan: MirrorPlan) -> tuple[PassedOver, ...]:
    """Data keys of this run that the second place's own key does not open there, where it has one."""
    access, prefix = recovery.repository.encryption, recovery.layout.keys
    own = tuple(one for one in access.places if one.mirror) if isinstance(access, KeyAccess) else ()
    copied = {step.what.key.removeprefix(prefix).partition("/")[0] for step in plan.steps if step.what.key.startswith(prefix)}
    ids = {one for one in copied if KEY_ID.fullmatch(one)}
    if not own or not ids:
        return ()
    # Slow to import, and not needed where records are in clear.
    from streams_recovery.storage.keys.keyring import Keyring  # noqa: PLC0415

    seals = recovery.repository.seals
    there = Keyring(found.other if seals is None else found.other.with_seals(seals.keys), KeyAccess(places=own))
    try:
        stored = there.stored(recovery.application_id, ids)
        problems = {one.key_id: one.problem for one in stored if one.problem} | _contradicted(recovery, there, ids)
    except RecoveryError as error:
        return (PassedOver(key=prefix, why=f"{prefix} could not be opened there with the second place's own key: {error.reason}"),)
    return tuple(
        PassedOver(key=f"{prefix}{one}/", why=f"{prefix}{one}/ is not opened there by the second place's own key: {why}")
        for one, why in problems.items()
    )


def _contradicted(recovery: RecoveryContext, there: Keyring, ids: Collection[str]) -> dict[str, str]:
    """Data keys of which somebody has written another one there, by a key-encryption key that anybody can wrap with."""
    if not there.believes_anybody or recovery.repository.keyring is None:
        return {}
    known = recovery.repository.keyring.unwrapped((recovery.application_id, one) for one in ids).keys
    why = "one of its forms gives another key, which somebody else has wrapped: remove that form in both places"
    return {key.key_id: why for (name, _), key in known.items() if there.contradicts(key, name)}


def _require_two(recovery: RecoveryContext, found: Places, *, back: bool, writes: bool) -> None:
    """Raise unless these are two places of one repository, and it has not moved away; nothing is written before that is known."""
    recovery.repository.require_not_moved(recovery.application_id)
    require_apart(found.first, found.other, recovery.application_id, asks=False)
    require_paired(found.first, found.other, recovery.layout, back=back, marks=False)
    if writes:
        require_apart(found.first, found.other, recovery.application_id, asks=True)
        require_paired(found.first, found.other, recovery.layout, back=back, marks=True)


def move(recovery: RecoveryContext, say: Callable[[str], None] = lambda _: None) -> MirrorReport:
    """Make the second place the place of the repository: what is missing there is copied, all that is there is read and compared, and the first place is
    marked, so that nobody writes to it any more. Under the locks of the application and of its archiver, so nothing comes meanwhile. A move that failed has
    marked nothing; another call goes on. Raises ``LockHeld`` while a run or an archiver works, ``Refused`` while a restore is half way or an application is
    held, and ``Damaged`` where anything could not be copied or is not what it should be.
    """
    archiver = replace(recovery, lock=archive_lock(recovery))
    with _held(recovery, "moving the repository"), _held(archiver, "moving the repository"):
        refuse_if_unfinished(recovery)
        if (held := quiesce_record.left(recovery)) is not None:
            raise Refused(
                f"{', '.join(held.instances)} may still be held by run {held.run}",
                next_step="take a savepoint, which brings them back, and move the repository then",
                run=held.run,
            )
        report = fill_mirror(recovery, say, full=True, moves=True)
        raise_unless_mirrored(report)
        create_value(recovery.repository, recovery.layout.moved, Moved(to=report.place, at=recovery.clock()))
    return report


def _held(recovery: RecoveryContext, purpose: str) -> AbstractContextManager[HeldLock]:
    process = this_process()
    return held_lock(recovery, f"mirror {process.host}-{process.pid}-{secrets.token_hex(4)}", purpose=purpose)


@contextmanager
def _lock_of_target(recovery: RecoveryContext, found: Places) -> Iterator[None]:
    """Hold the lock of the application in the target. Its records are sealed as any others there are."""
    seals = recovery.repository.seals
    target = found.other if seals is None else found.other.with_seals(seals.keys)
    lock = ApplicationLock(target, recovery.layout, recovery.clock, name=recovery.config.name, process=this_process(), is_dead=is_dead)
    with _held(replace(recovery, lock=lock), "copying back from the second place"):
        yield


def raise_unless_mirrored(report: MirrorReport) -> None:
    """Raise ``Damaged`` for a run that could not copy everything."""
    if report.damaged:
        raise Damaged(
            f"{len(report.damaged)} objects of {report.application_id} are not in the second place {report.place} as they have to be: "
            + "; ".join(one.why for one in report.damaged[:3]),
            next_step="run `streams-recovery verify --level full`, and find out who writes in either place; where a key does not answer, run it again when "
            "it does. Everything else was copied",
            keys=[one.key for one in report.damaged[:20]],
        )


def _planned(recovery: RecoveryContext, found: Places, *, full: bool, back: bool, moves: bool) -> MirrorPlan:
    # The second place before the first one: what is copied by another run meanwhile is only read once more.
    there = found.other.sizes(f"{recovery.application_id}/")
    here = found.first.sizes(f"{recovery.application_id}/")
    # A data key is there before what it encrypts. A listing of all may take minutes, and passes the keys first.
    here |= found.first.sizes(recovery.layout.keys)
    gathering = _Gathering(recovery, found, here, {} if full else there, back=back, moves=moves)
    if not back:
        gathering.pass_over_what_was_written(there)
    return gathering.plan(there, str(found.other.location))


class _Gathering:
    """What the second place should have, each object behind those that it names. A savepoint that ``known`` has was proven by an earlier run if that says so:
    the tools of a cloud may have copied a manifest without its files. On the way ``back`` the record of its publication says that.
    """

    def __init__(
        self, recovery: RecoveryContext, found: Places, here: Mapping[str, int], known: Mapping[str, int], *, back: bool, moves: bool
    ) -> None:
        self._back, self._moves = back, moves
        self._recovery, self._places, self._here, self._known = recovery, found, here, known
        self._layout = recovery.layout
        self._tables = RangeTables(recovery.repository, recovery.layout)
        self._passed_over: list[PassedOver] = []
        # Files that entries name which are there.
        self._archived: set[str] = set()
        # Of each data key the newest form in which it is wrapped, behind which the older ones come.
        self._wrapped = {key.rpartition("/")[0]: key for key in sorted(here) if key.startswith(self._layout.keys) and is_entry(key)}

    def pass_over_what_was_written(self, there: Mapping[str, int]) -> None:
        """Name the logs that went on in the second place, by a restore from there: the first place would go on as if that had never been."""
        why = (
            "only the second place has it, which was written to since the first one was: run "
            f"`{command('mirror', self._recovery.config.name, '--from', 'mirror')}` first, so that both have it, or begin a new second place"
        )
        self._passed_over += [PassedOver(key=key, why=why) for key in written_there(self._layout, self._here, there)]

    def plan(self, there: Mapping[str, int], place: str) -> MirrorPlan:
        before = before_manifests(self._layout)
        behind = (*behind_manifests(self._layout), *(only_moved(self._layout) if self._moves else ()))
        wanted = [
            *self._records(before, there),
            *self._archive(there),
            *self._savepoints(self._recovery.savepoints, there),
            *self._savepoints(self._recovery.safety, there),
            *self._about_savepoints(there),
            *self._records(behind, there),
        ]
        return mirror_plan(self._layout.application_id, wanted, there, self._passed_over, place=place)

    def _records(self, prefixes: tuple[str, ...], there: Mapping[str, int]) -> list[MirroredObject]:
        keys = sorted(key for key in self._here if key.startswith(prefixes))
        # Where both places were written to, their logs differ from some entry on: the newest that both have tells.
        # A snapshot of offsets has a name that no other place gives.
        logs = [key for key in keys if is_entry(key) and not key.startswith(self._layout.offset_snapshots)]
        newest = {key.rpartition("/")[0]: key for key in logs if key in there}
        return records_in_order(self._object(key, vouched=newest.get(key.rpartition("/")[0]) != key) for key in keys)

    def _archive(self, there: Mapping[str, int]) -> list[MirroredObject]:
        """Entries from the newest on that needs none before it, and cuts, each behind the files that it names; and an entry behind the one before it. What
        is older may name files that were joined since, and nobody reads it.
        """
        logs = [log for log in of_archive(self._layout) if not goes_on_by_itself(log, self._here, there)]
        found, before = list[MirroredObject](), tuple[str, ...]()
        for key, entry in self._entries() if self._layout.archive in logs else ():
            files = self._files(key, () if entry is None else entry.files)
            if files is None:
                break
            newest = max((one for one in there if one.startswith(self._layout.archive)), default="")
            found += [*files, replace(self._object(key, vouched=key != newest), needs=(*before, *self._needs(files)))]
            before = (key,)
        cuts = [key for key in sorted(self._here) if key.startswith(self._layout.archive_cuts) and is_entry(key) and key not in self._known]
        for key in cuts if self._layout.archive_cuts in logs else ():
            with suppress(NotFound):
                try:
                    cut = read_value(self._recovery.repository, KeptCut, key, most_bytes=MOST_BYTES_OF_ARCHIVE_ENTRY)
                    files = self._files(key, cut.checked(self._layout.application_id, key).files)
                except Damaged as error:
                    self._passed_over.append(PassedOver(key=key, why=error.reason))
                    continue
                if files is not None:
                    found += [*files, replace(self._object(key), needs=(*before, *self._needs(files)))]
        return found

    def _entries(self) -> list[tuple[str, ArchiveEntry | None]]:
        """The entries that the second place needs, by their keys, the oldest first; None for one that only takes a number. What those name that are there is
        vouched for.
        """
        log, prefix = archive_entries(self._recovery.repository, self._layout), self._layout.archive
        here = {log.number(key): key for key in sorted(self._here) if key.startswith(prefix) and is_entry(key)}
        read, first = dict[int, ArchiveEntry](), 0
        try:
            for number, entry in log.numbered_back(readers=ENTRY_READERS):
                if number not in here:
                    continue
                if here[number] in self._known:
                    self._archived.update(file.key for file in entry.files)
                if not first:
                    read[number] = entry.checked(self._layout.application_id, here[number])
                    first = number if entry.begins else 0
                elif entry.begins:
                    break
        except (Damaged, NotFound) as error:
            # Entries that nobody needs any more may go meanwhile.
            if not first:
                self._passed_over.append(PassedOver(key=prefix, why=error.reason))
                return []
        return [(key, read.get(number)) for number, key in here.items() if number >= first]

    def _files(self, key: str, files: Collection[SegmentFile]) -> list[MirroredObject] | None:
        """The files that an entry of the archive names. None where one of them is missing or is not what was written."""
        found = [
            MirroredObject(
                key=one.key,
                bytes=one.bytes,
                sha256=one.sha256,
                vouched=one.key in self._archived and self._known.get(one.key) == one.bytes,
            )
            for one in files
        ]
        if gone := self._gone(found, (one for one in found if not one.vouched)):
            self._passed_over.append(PassedOver(key=key, why=gone))
        return None if gone else found

    def _needs(self, files: Collection[MirroredObject]) -> tuple[str, ...]:
        """What has to be there before what names these files: they, and the wrapped keys that open them."""
        return (*(one.key for one in files), *self._opening(files))

    def _opening(self, files: Collection[MirroredObject]) -> list[str]:
        ids = {named[1] for one in files if (named := named_key(one.key)) is not None}
        return sorted(self._wrapped.get(self._layout.keys + one, self._layout.keys + one) for one in ids)

    def _gone(self, files: Collection[MirroredObject], lacking: Iterable[MirroredObject]) -> str:
        """What keeps away what names these files, of which the second place is ``lacking`` some. Empty when nothing does."""
        gone = [one.key for one in lacking if self._here.get(one.key) != one.bytes]
        lost = [key for key in self._opening(files) if key not in self._here]
        missing = f"segments are missing or have another size: {first_names(gone)}" if gone else ""
        return missing or (f"data keys are missing: {first_names(lost)}" if lost else "")

    def _about_savepoints(self, there: Mapping[str, int]) -> Iterator[MirroredObject]:
        for key in sorted(self._here):
            for prefix in (self._layout.published_prefix, self._layout.detail("x").removesuffix("x.json")):
                if key.startswith(prefix):
                    savepoint_id = key.removeprefix(prefix).removesuffix(".json")
                    manifests = (self._layout.manifest(savepoint_id), self._layout.safety.manifest(savepoint_id))
                    needed = next((one for one in manifests if one in self._here or one in there), None)
                    if needed is not None:
                        yield replace(self._object(key, vouched=True), needs=(needed,))

    def _savepoints(self, store: SavepointStore, there: Mapping[str, int]) -> Iterator[MirroredObject]:
        copies = expired_there(self._layout, there)
        ids = [one for one in reversed(store.ids()) if store.key(one) in self._here]
        # On the way back: what has expired in the first place stays expired.
        ids = [one for one in ids if (key := store.key(one)) in there or not self._has_expired(key, copies.get(one, ()))]
        missing = [one for one in ids if not self._is_proven(store, one)]
        vouched = self._vouched(store) if missing else frozenset()
        for savepoint_id in missing:
            key = store.key(savepoint_id)
            try:
                outline = store.outline(savepoint_id)
                yield from self._pieces_of(outline, vouched)
            except NotFound:
                # It has expired since it was listed.
                continue
            except Damaged as error:
                self._passed_over.append(PassedOver(key=key, why=error.reason))
                continue
            tables = tuple(self._layout.range_table(topic.name, ref.sha256) for topic in outline.topics for ref in topic.tables)
            yield replace(self._object(key), needs=tables)
        for one in ids:
            if self._is_proven(store, one):
                yield self._object(store.key(one), vouched=True)

    def _is_proven(self, store: SavepointStore, savepoint_id: str) -> bool:
        record = self._layout.published(savepoint_id) if self._back else self._layout.proven(savepoint_id)
        return store.key(savepoint_id) in self._known and record in self._known

    def _has_expired(self, key: str, copies: Collection[str]) -> bool:
        """True where a copy in the other place is this manifest, byte for byte: whoever lays something else there hides no savepoint."""
        with suppress(NotFound, Damaged):
            return bool(copies) and self._places.first.get(key) in [self._places.other.get(one) for one in copies]
        return False

    def _vouched(self, store: SavepointStore) -> frozenset[str]:
        """Tables of savepoints that both places have: all that they name was proven before such a savepoint existed there."""
        return frozenset(
            ref.sha256
            for savepoint_id, one in store.summaries().items()
            if isinstance(one, Publication) and self._is_proven(store, savepoint_id)
            for refs in one.tables.values()
            for ref in refs
        )

    def _pieces_of(self, outline: Manifest, vouched: Collection[str]) -> list[MirroredObject]:
        """The tables of a savepoint, with the segments that they name. Raises ``Damaged`` where one of them is missing or is not what was written."""
        segments, tables = [], []
        for topic in outline.topics:
            for ref in topic.tables:
                key = self._layout.range_table(topic.name, ref.sha256)
                # What was proven is not read again, but somebody may have removed it there.
                proven = ref.sha256 in vouched and key in self._known
                pieces = (piece for columns in self._tables.read(topic.name, ref).values() for piece in columns)
                stored = (piece.file for piece in pieces if piece.file is not None)
                files = [MirroredObject(key=one.key, bytes=one.bytes, sha256=one.sha256, vouched=proven) for one in stored]
                lacking = [one for one in files if not (proven and self._known.get(one.key) == one.bytes)]
                if gone := self._gone(files, lacking):
                    raise Damaged(gone, next_step="verify the repository")
                needs = self._needs(files)
                segments += files
                tables.append(MirroredObject(key=key, bytes=ref.bytes, sha256=ref.sha256, needs=needs))
        return [*segments, *tables]

    def _object(self, key: str, *, vouched: bool = False) -> MirroredObject:
        return MirroredObject(key=key, bytes=self._here[key], vouched=vouched and key in self._known)


class _Copying:
    """A plan that is carried out. Objects that failed are remembered: what needs them does not come. It ``notes`` in the second place what was proven there."""

    def __init__(self, found: Places, plan: MirrorPlan, say: Callable[[str], None], *, notes: bool) -> None:
        self._notes = notes
        self._places, self._plan, self._say = found, plan, say
        self._failed: dict[str, str] = dict.fromkeys(plan.different, "is in the second place with other bytes")
        self._gone: set[str] = set()
        self._done: list[MirrorStep] = []
        self._bytes, self._message_at = 0, time.monotonic()

    def report(self) -> MirrorReport:
        """Carry it out."""
        application_id = self._plan.application_id
        with ThreadPoolExecutor(_COPIERS) as copiers:
            for group in at_once(self._plan.steps):
                ready = [step for step in group if not self._is_blocked(step)]
                for step, problem in zip(ready, copiers.map(self._taken, ready), strict=True):
                    self._note(step, problem)
        copied = [step for step in self._done if step.copies]
        problems = [PassedOver(key=key, why=f"{key}: {why}") for key, why in self._failed.items()]
        passed_over = [PassedOver(key=one.key, why=f"{one.key}: {one.why}") for one in self._plan.passed_over]
        return MirrorReport(
            application_id=application_id,
            place=self._plan.place,
            copied=len(copied),
            bytes=sum(step.what.bytes for step in copied),
            proven=len(self._done) - len(copied),
            savepoints=tuple(found for step in copied if (found := savepoint_of(application_id, step.what.key)) is not None),
            damaged=(*problems, *passed_over),
        )

    def _is_blocked(self, step: MirrorStep) -> bool:
        blocked = any(key in self._failed or key in self._gone for key in step.what.needs)
        if blocked:
            self._gone.add(step.what.key)
        return blocked

    def _taken(self, step: MirrorStep) -> Damaged | NotFound | None:
        take = copy_object if step.copies else prove_object
        try:
            take(self._places.first, self._places.other, step.what)
        except (Damaged, NotFound) as error:
            return error.with_traceback(None)
        return None

    def _note(self, step: MirrorStep, problem: Damaged | NotFound | None) -> None:
        if isinstance(problem, NotFound):
            # It was removed since it was listed: then no savepoint that there still is needs it.
            self._gone.add(step.what.key)
        elif problem is not None:
            self._failed[step.what.key] = problem.reason
        else:
            self._done.append(step)
            self._bytes += step.what.bytes if step.copies else 0
            self._tell(step)

    def _tell(self, step: MirrorStep) -> None:
        savepoint_id = savepoint_of(self._plan.application_id, step.what.key)
        if savepoint_id is not None and self._notes:
            note_proven(self._places.other, Layout(self._plan.application_id), savepoint_id)
        if savepoint_id is not None:
            self._say(f"savepoint {savepoint_id} is in two places")
        elif time.monotonic() - self._message_at > _MESSAGE_SECONDS:
            self._message_at = time.monotonic()
            self._say(f"{len(self._done):,} of {len(self._plan.steps):,} objects, {self._bytes:,} of {self._plan.bytes:,} bytes copied")
