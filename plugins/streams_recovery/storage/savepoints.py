"""The savepoints of one application: a savepoint exists when its manifest does.

The record of a publication tells of a savepoint in short: a page of many opens no manifest that has one.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from streams_recovery.core.codec import MOST_BYTES_OF_ENTRY
from streams_recovery.core.errors import Damaged, Forged, NotFound, RecoveryError
from streams_recovery.core.escaping import logger
from streams_recovery.core.kafka_types import Consistency, Profile, TopicRole
from streams_recovery.core.repository import stored_manifest
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.repository.publication import Publication, check_publication, publication
from streams_recovery.core.repository.retention import StoredFile
from streams_recovery.core.status.savepoint_detail import SavepointDetail, require_about, savepoint_detail
from streams_recovery.core.words import LATEST, in_order, is_ahead, is_id, run_suffix, time_of
from streams_recovery.storage.json_object import create_value, packed_value, read_value
from streams_recovery.storage.objects import MOST_PACKED, packed, unpacked
from streams_recovery.storage.range_tables import PartitionRanges, RangeTables
from streams_recovery.storage.repository import AlreadyExists, Repository

_READERS: Final = 16
# A record is written right behind its manifest. One that came much later is not from the run that published.
_BEHIND_MS: Final = 900_000
_NAMED_IN_ERRORS: Final = 5
_MOST_OF_DETAIL = MOST_BYTES_OF_ENTRY

LOGGER = logger("streams_recovery.storage.savepoints")


class SavepointStore:
    """Reads and publishes manifests. Keeps nothing in memory between calls, and never changes or removes one."""

    def __init__(self, repository: Repository, layout: Layout, clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._repository = repository
        self._layout = layout
        self._clock = clock

    def key(self, savepoint_id: str) -> str:
        """The key of the manifest when the savepoint exists."""
        return self._layout.manifest(savepoint_id)

    def publish(self, published: Manifest, *, confirm: Callable[[], object] = lambda: None) -> str:
        """Make the savepoint exist and return its manifest's key. Publishing the same manifest again is harmless. ``confirm`` is called when nothing but the
        manifest is missing, and may raise. Raises ``Damaged`` when another one has this id, ``Refused`` for one that is too large to be read again.
        """
        key = self._layout.manifest(published.savepoint_id)
        placed, tables = self._tables().placed(published.with_key_named(), where=key)
        plain = packed_value(key, placed)
        stored = packed(plain)
        # Read once before anything is stored: a savepoint that no reader would accept must not exist.
        stored_manifest.read(unpacked(stored, key), where=key)
        # Tables before the manifest: a savepoint that exists has all that its manifest names.
        for table in tables:
            self._tables().create(table)
        confirm()
        try:
            self._repository.create(key, stored)
        except AlreadyExists:
            # Compared unpacked: another version of zstd may pack the same manifest into other bytes. The record is of those that are there.
            if unpacked(self._stored(key), key) != plain:
                raise Damaged(
                    f"a different savepoint {published.savepoint_id} exists already",
                    next_step="take a new savepoint; the one that exists was not changed",
                    key=key,
                ) from None
            stored = self._stored(key)
        self._record(publication(placed, key, stored))
        self._keep_detail(placed)
        return key

    def _tables(self, opened: dict[str, PartitionRanges] | None = None) -> RangeTables:
        return RangeTables(self._repository, self._layout, opened)

    def _record(self, record: Publication) -> None:
        # After the manifest: a record without one has to mean that it was lost.
        key = self._layout.published(record.savepoint_id)
        try:
            create_value(self._repository, key, record, most_bytes=MOST_BYTES_OF_ENTRY)
        except AlreadyExists:
            # Retention goes by this record: a stranger's record could give files away.
            try:
                kept = self.publication(record.savepoint_id)
            except Forged as error:
                # A forged record is not believed. Without a record the savepoint is known by its manifest.
                LOGGER.warning("savepoint %s has no record: %s", record.savepoint_id, error.reason)
                return
            if kept != record:
                raise Damaged(
                    f"{key} was there before savepoint {record.savepoint_id} was published, and is about something else",
                    next_step="remove it, find out who wrote it, and repeat this step",
                    key=key,
                ) from None

    def _keep_detail(self, published: Manifest) -> None:
        # The savepoint exists by now, and is whole without what people look at.
        key = self._layout.detail(published.savepoint_id)
        try:
            create_value(self._repository, key, savepoint_detail(published), most_bytes=_MOST_OF_DETAIL)
        except AlreadyExists:
            return
        except RecoveryError as error:
            LOGGER.warning("%s was not written: %s", key, error.reason)

    def detail(self, savepoint_id: str) -> SavepointDetail:
        """The detail of a savepoint, for people to look at. Raises ``NotFound``, also for one that has none, and ``Damaged``."""
        key = self._layout.detail(savepoint_id)
        found = read_value(self._repository, SavepointDetail, key, most_bytes=_MOST_OF_DETAIL)
        require_about(found, self._layout.application_id, savepoint_id, where=key)
        return found

    def summaries(self, *, by_manifest: bool = False) -> dict[str, Publication | Damaged]:
        """All savepoints in short, the newest last, by the records of their publication, or by their manifests if a record is missing, unreadable or about
        something else. A damaged savepoint has its error. A savepoint that expires meanwhile is left out.

        With ``by_manifest`` no record is read, for the removal of files: a stranger may have written a record.
        """
        ids = self.ids()
        manifests = {file.key: file for file in self._repository.listed(self._layout.savepoints)}
        records = {} if by_manifest else {file.key: file.modified for file in self._repository.listed(self._layout.published_prefix)}

        def read(savepoint_id: str) -> Publication | Damaged | None:
            stored = manifests.get(self._layout.manifest(savepoint_id))
            written = records.get(self._layout.published(savepoint_id))
            try:
                return None if stored is None else self._summary(savepoint_id, stored, written)
            except NotFound:
                return None
            except Damaged as error:
                # Without what it was reading when it was raised.
                return error.with_traceback(None)

        with ThreadPoolExecutor(_READERS) as readers:
            found = zip(ids, readers.map(read, ids), strict=True)
            return {savepoint_id: one for savepoint_id, one in found if one is not None}

    def _summary(self, savepoint_id: str, stored: StoredFile, written: int | None) -> Publication:
        if written is not None and written <= stored.modified + _BEHIND_MS:
            with contextlib.suppress(NotFound, Damaged):
                record = self.publication(savepoint_id)
                if record.is_of(stored.key, stored.bytes):
                    return record
        return self.summary_of_manifest(savepoint_id)

    def summary_of_manifest(self, savepoint_id: str) -> Publication:
        """A savepoint in short by its manifest. Raises ``NotFound`` and ``Damaged``."""
        key = self._layout.manifest(savepoint_id)
        return publication(self.outline(savepoint_id), key, self._stored(key))

    def published(self) -> list[str]:
        """Ids of all savepoints, safety ones as well, with a record that they were published; whether they still exist is another question."""
        keys = self._repository.keys(self._layout.published_prefix)
        stems = (key.removeprefix(self._layout.published_prefix).removesuffix(".json") for key in keys)
        return [stem for stem in stems if is_id(stem)]

    def altered(self, savepoint_id: str) -> bool:
        """True when the manifest is not, byte for byte, what was published. Raises ``NotFound`` without a record of that, and ``Damaged``."""
        return self.publication(savepoint_id).sha256 != self.sha256(savepoint_id)

    def sha256(self, savepoint_id: str) -> str:
        """The hash of the manifest as it is stored. Raises ``NotFound``."""
        return hashlib.sha256(self._stored(self._layout.manifest(savepoint_id))).hexdigest()

    def publication(self, savepoint_id: str) -> Publication:
        """The record that a savepoint was published. Raises ``NotFound`` and ``Damaged``."""
        key = self._layout.published(savepoint_id)
        found = read_value(self._repository, Publication, key, most_bytes=MOST_BYTES_OF_ENTRY)
        check_publication(found, where=key)
        if (found.savepoint_id, found.application_id) != (savepoint_id, self._layout.application_id):
            raise Damaged(
                f"{key} is about savepoint {found.savepoint_id} of {found.application_id}", next_step="find out who wrote it", key=key
            )
        return found

    def read(
        self, savepoint_id: str, opened: dict[str, PartitionRanges] | None = None, *, roles: Collection[TopicRole] = tuple(TopicRole)
    ) -> Manifest:
        """The savepoint of this id, with the ranges of its topics of these roles, and only these topics. ``opened`` keeps the tables for reads of several
        savepoints. Raises as ``outline`` does.
        """
        found = self.outline(savepoint_id)
        found = replace(found, topics=tuple(topic for topic in found.topics if topic.role in roles))
        return self._tables(opened).with_ranges(found, where=self._layout.manifest(savepoint_id))

    def outline(self, savepoint_id: str) -> Manifest:
        """The savepoint of this id without its ranges: one object is read. Raises ``NotFound`` naming the newest ones there are, and ``Damaged``."""
        key = self._layout.manifest(savepoint_id)
        try:
            stored = self._stored(key)
        except NotFound:
            known = ", ".join(self.ids()[-_NAMED_IN_ERRORS:]) or "none"
            raise NotFound(
                f"there is no savepoint {savepoint_id} of {self._layout.application_id} in {self._repository.location}; newest: {known}",
                next_step="choose one of those; one without a manifest was never finished and cannot be used",
                savepoint=savepoint_id,
            ) from None
        found = stored_manifest.read(unpacked(stored, key), where=key)
        if (found.savepoint_id, found.application_id) != (savepoint_id, self._layout.application_id):
            raise Damaged(
                f"{key} holds savepoint {found.savepoint_id} of {found.application_id}",
                next_step="manifests were moved or exchanged; choose another savepoint and find out who did it",
                key=key,
            )
        return found

    def retire(self, savepoint_id: str, *, at: int) -> str:
        """Copy the manifest to where expired ones are and return the copy's key. The savepoint exists until its own manifest is removed."""
        key = self._layout.retired(savepoint_id, at)
        with contextlib.suppress(AlreadyExists):
            self._repository.create(key, self._stored(self._layout.manifest(savepoint_id)))
        return key

    def _stored(self, key: str) -> bytes:
        return self._repository.get(key, most_bytes=MOST_PACKED)

    def retired_outline(self, savepoint_id: str, key: str) -> Manifest:
        """An expired savepoint by one of its copies, without its ranges. Raises ``NotFound`` and ``Damaged``."""
        found = stored_manifest.read(unpacked(self._stored(key), key), where=key)
        if found.savepoint_id != savepoint_id:
            raise Damaged(f"{key} holds savepoint {found.savepoint_id}", next_step="find out who wrote there", key=key)
        return found

    def copies(self) -> dict[str, tuple[StoredFile, ...]]:
        """The copies of manifests that expiry has made, by savepoint. One whose own manifest is there as well has not expired."""
        prefix, found = self._layout.retired_prefix, dict[str, tuple[StoredFile, ...]]()
        for file in self._repository.listed(prefix):
            if self._layout.retired_at(file.key) is not None and not self.forged_object(file.key):
                savepoint_id = file.key.removeprefix(prefix).split("/")[0]
                found[savepoint_id] = (*found.get(savepoint_id, ()), file)
        return found

    def expired_as(self, savepoint_id: str, copies: Iterable[StoredFile]) -> tuple[Publication, int] | None:
        """A savepoint without a manifest in short, by the copies of it, and when (ms) the last of them was stored: each is what was published, byte for
        byte, or a manifest of this savepoint where no record of that can be read. None when none is: then nothing shows that it has expired.
        """
        try:
            record: Publication | None = self.publication(savepoint_id)
        except (NotFound, Damaged):
            record = None
        found = None
        for copy in copies:
            with contextlib.suppress(NotFound, Damaged):
                stored = self._stored(copy.key)
                if record is None or record.sha256 == hashlib.sha256(stored).hexdigest():
                    manifest = self.retired_outline(savepoint_id, copy.key)
                    found = publication(manifest, copy.key, stored), max(copy.modified, found[1] if found else copy.modified)
        return found

    def forged_object(self, key: str) -> bool:
        """True for an object of a sealed repository that has no valid seal, or that is gone. It is logged."""
        if self._repository.seals is None:
            return False
        try:
            self._stored(key)
        except (Forged, NotFound) as error:
            LOGGER.warning("%s is passed over: %s", key, error.reason)
            return True
        return False

    def forget(self, savepoint_id: str, copies: Iterable[str]) -> None:
        """Remove what is left of an expired savepoint. Its record goes first: without the copies it would say that the manifest was lost."""
        self._repository.delete([self._layout.published(savepoint_id), self._layout.detail(savepoint_id), *copies])

    def ids(self) -> list[str]:
        """Ids of all savepoints, newest last. Those of a time that has not come are first, as if they were the oldest: see ``ahead``. By their keys
        alone: one of them may be damaged, or forged.
        """
        parts = (key.removeprefix(self._layout.savepoints).split("/") for key in self._repository.keys(self._layout.savepoints))
        found = (part[0] for part in parts if len(part) > 1 and part[1] == "manifest.json.zst" and is_id(part[0]))
        return in_order(found, self._clock())

    def ahead(self) -> list[str]:
        """Ids of savepoints with a time that no clock can have shown: a clock was wrong, or they are forged."""
        return [one for one in self.ids() if is_ahead(one, self._clock())]

    def latest(
        self, consistency: Consistency | None = None, profile: Profile | None = None, *, read: Callable[[str], Manifest] | None = None
    ) -> Manifest | None:
        """The newest savepoint, or the newest with this label and profile; None when there is none. Of a savepoint and those that were compacted or merged from
        it, the last of the chain: it holds the same state in fewer records or files. Never an edited savepoint, or one whose state is damaged: such a savepoint
        has to be named. ``read`` is ``outline`` where no ranges are needed.
        """
        for _, ids in itertools.groupby(reversed(self.ids()), key=time_of):
            readable = self._sound(list(ids), read or self.read)
            moment = [found for found in readable if consistency in (None, found.consistency) and profile in (None, found.profile)]
            if moment:
                made = [found for found in moment if found.replaces is not None]
                last = [found for found in made if found.savepoint_id not in {one.replaces for one in made}]
                return (last or moment)[0]
        return None

    def id_of(self, savepoint: str) -> str:
        """The id that a person means: it, or for ``latest`` that of the newest savepoint, which is never an edited or a damaged one. Raises ``NotFound`` where
        there is none.
        """
        if savepoint != LATEST:
            return savepoint
        newest = self.latest(read=self.outline)
        if newest is None:
            raise NotFound(
                f"{self._layout.application_id} has no savepoint in {self._repository.location} that `{LATEST}` could mean",
                next_step="take one first, name one that was edited or damaged by its id, or check the storage section of the configuration",
                application_id=self._layout.application_id,
            )
        return newest.savepoint_id

    def newest_first(self) -> Iterator[Manifest]:
        """The savepoints from the newest one on, whatever their labels. Each is read when it is its turn. Raises ``Damaged``."""
        return (self.read(one) for one in reversed(self.ids()) if not self.forged_object(self.key(one)))

    def _sound(self, ids: list[str], read: Callable[[str], Manifest]) -> list[Manifest]:
        """Savepoints of one moment that nobody edited, whose state is not damaged, and that can be read. Raises ``Damaged`` when none can: which of them
        hold the same state only they tell. Forged ones are none.
        """
        found, damage = [], None
        for savepoint_id in ids:
            try:
                found.append(read(savepoint_id))
            except Forged as error:
                LOGGER.warning("savepoint %s is passed over: %s", savepoint_id, error.reason)
            except Damaged as error:
                # One is enough, without what it was reading when it was raised.
                damage = damage or error.with_traceback(None)
        sound = [one for one in found if not one.taken_by_name]
        if damage and not sound:
            raise damage
        return sound

    def published_by_run(self, run_id: str) -> str | None:
        """The savepoint this run has published, if it has."""
        suffix = f"-{run_suffix(run_id)}"
        return next((one for one in reversed(self.ids()) if one.endswith(suffix) and not self.forged_object(self.key(one))), None)
