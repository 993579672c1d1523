"""What the second place of a repository should have. Nothing is written here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from streams_recovery.core.archive.cuts import KeptCut
from streams_recovery.core.archive.log import ENTRY_READERS, MOST_BYTES_OF_ARCHIVE_ENTRY, ArchiveEntry
from streams_recovery.core.errors import ConfigInvalid, Damaged, NotFound
from streams_recovery.core.repository.encryption import named_key
from streams_recovery.core.repository.manifest import Manifest, SegmentFile
from streams_recovery.core.repository.mirror import (
    MirroredObject,
    MirrorPlan,
    PassedOver,
    before_manifests,
    behind_manifests,
    expired_there,
    goes_on_by_itself,
    is_entry,
    mirror_plan,
    of_archive,
    only_moved,
    records_in_order,
    written_there,
)
from streams_recovery.core.repository.publication import Publication
from streams_recovery.core.words import command, first_names
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.storage.archive_logs import archive_entries
from streams_recovery.storage.json_object import read_value
from streams_recovery.storage.range_tables import RangeTables
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.savepoints import SavepointStore


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


class WantedThere:
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
