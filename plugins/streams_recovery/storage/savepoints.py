"""The savepoints of one application: a savepoint exists when its manifest does."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from streams_recovery.core import manifest
from streams_recovery.core.errors import Damaged, NotFound
from streams_recovery.core.layout import Layout
from streams_recovery.core.manifest import Manifest
from streams_recovery.core.model import Consistency, Profile
from streams_recovery.core.savepoint_id import is_id, run_suffix, time_of
from streams_recovery.storage.packed import MOST_PACKED, packed, unpacked
from streams_recovery.storage.repository import AlreadyExists, Repository
from streams_recovery.storage.values import create_value, packed_value, read_value

_NAMED_IN_ERRORS = 5
_MOST_OF_RECORD = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """The record of a publication: whose, the key of the manifest, and its SHA-256 as it was stored."""

    savepoint_id: str
    manifest: str
    sha256: str


class SavepointStore:
    """Reads and publishes manifests. Keeps nothing in memory between calls, and never changes or removes one."""

    def __init__(self, repository: Repository, layout: Layout) -> None:
        self._repository = repository
        self._layout = layout

    def key(self, savepoint_id: str) -> str:
        """Where the manifest is when the savepoint exists."""
        return self._layout.manifest(savepoint_id)

    def publish(self, published: Manifest) -> str:
        """Make the savepoint exist and return its manifest's key. Publishing the same manifest again is harmless. Raises ``Damaged`` when
        another one has this id, ``Refused`` for one that is too large to be read again.
        """
        key = self._layout.manifest(published.savepoint_id)
        stored = packed(packed_value(key, published))
        manifest.read(unpacked(stored, key), where=key)
        try:
            self._repository.create(key, stored)
        except AlreadyExists:
            if self.read(published.savepoint_id) != published:
                raise Damaged(
                    f"a different savepoint {published.savepoint_id} exists already",
                    next_step="take a new savepoint; the one that exists was not touched",
                    key=key,
                ) from None
            stored = self._stored(key)
        self._record(published.savepoint_id, stored)
        return key

    def _record(self, savepoint_id: str, stored: bytes) -> None:
        # After the manifest: a record without one has to mean that it was lost.
        with contextlib.suppress(AlreadyExists):
            where, digest = self._layout.manifest(savepoint_id), hashlib.sha256(stored).hexdigest()
            record = Publication(savepoint_id=savepoint_id, manifest=where, sha256=digest)
            create_value(self._repository, self._layout.published(savepoint_id), record, most_bytes=_MOST_OF_RECORD)

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
        return read_value(self._repository, Publication, self._layout.published(savepoint_id), most_bytes=_MOST_OF_RECORD)

    def read(self, savepoint_id: str) -> Manifest:
        """The savepoint of this id. Raises ``NotFound`` naming the newest ones there are, and ``Damaged``."""
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
        found = manifest.read(unpacked(stored, key), where=key)
        if (found.savepoint_id, found.application_id) != (savepoint_id, self._layout.application_id):
            raise Damaged(
                f"{key} holds savepoint {found.savepoint_id:.100} of {found.application_id}",
                next_step="somebody moved or exchanged manifests; choose another savepoint and find out who",
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

    def read_retired(self, savepoint_id: str, key: str) -> Manifest:
        """An expired savepoint by one of its copies. Raises ``NotFound`` and ``Damaged``."""
        found = manifest.read(unpacked(self._stored(key), key), where=key)
        if found.savepoint_id != savepoint_id:
            raise Damaged(f"{key} holds savepoint {found.savepoint_id:.100}", next_step="find out who wrote there", key=key)
        return found

    def expired(self) -> set[str]:
        """Ids with a copy that expiry made. One whose own manifest is there as well has not expired."""
        prefix = self._layout.retired_prefix
        return {key.removeprefix(prefix).split("/")[0] for key in self._repository.keys(prefix) if self._layout.retired_at(key) is not None}

    def forget(self, savepoint_id: str, copies: Iterable[str]) -> None:
        """Remove what is left of an expired savepoint. Its record goes first: without the copies it would say that the manifest was lost."""
        self._repository.delete([self._layout.published(savepoint_id), *copies])

    def ids(self) -> list[str]:
        """Ids of all savepoints, newest last."""
        parts = (key.removeprefix(self._layout.savepoints).split("/") for key in self._repository.keys(self._layout.savepoints))
        return [part[0] for part in parts if len(part) > 1 and part[1] == "manifest.json.zst" and is_id(part[0])]

    def latest(self, consistency: Consistency | None = None, profile: Profile | None = None) -> Manifest | None:
        """The newest savepoint, or the newest with this label and profile; None when there is none. Of a savepoint and one that was reduced from
        it, the reduced one: it holds the same state in fewer records. Never one that was edited, or whose state is damaged: such a one has to be named.
        """
        for _, ids in itertools.groupby(reversed(self.ids()), key=time_of):
            readable = self._sound(list(ids))
            moment = [found for found in readable if consistency in (None, found.consistency) and profile in (None, found.profile)]
            if moment:
                reduced = [found for found in moment if found.replaces is not None]
                return (reduced or moment)[0]
        return None

    def newest(self) -> Manifest | None:
        """The newest savepoint, whatever its label; None when there is none. Raises ``Damaged``."""
        known = self.ids()
        return self.read(known[-1]) if known else None

    def _sound(self, ids: list[str]) -> list[Manifest]:
        """Those of one moment's savepoints that nobody edited, whose state is not damaged, and that can be read. Raises ``Damaged`` when none can: which
        of them hold the same state only they tell.
        """
        found, damage = [], None
        for savepoint_id in ids:
            try:
                found.append(self.read(savepoint_id))
            except Damaged as error:
                # One is enough, without what it was reading when it was raised.
                damage = damage or error.with_traceback(None)
        sound = [one for one in found if one.consistency not in (Consistency.EDITED, Consistency.DAMAGED)]
        if damage and not sound:
            raise damage
        return sound

    def published_by_run(self, run_id: str) -> str | None:
        """The savepoint this run has published, if it has."""
        suffix = f"-{run_suffix(run_id)}"
        return next((savepoint_id for savepoint_id in reversed(self.ids()) if savepoint_id.endswith(suffix)), None)
