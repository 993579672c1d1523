"""The savepoints of one application: a savepoint exists when its manifest does."""

from __future__ import annotations

import contextlib
from typing import NoReturn

import zstandard

from streams_recovery.core import codec, manifest
from streams_recovery.core.errors import Damaged, NotFound
from streams_recovery.core.layout import Layout
from streams_recovery.core.manifest import Manifest
from streams_recovery.core.model import Consistency
from streams_recovery.core.savepoint_id import is_id, run_suffix
from streams_recovery.storage.repository import AlreadyExists, Repository

# A manifest of a thousand partitions with a thousand files each; anything bigger is not one of ours.
_MAX_BYTES = 1 << 30
_NAMED_IN_ERRORS = 5


class SavepointStore:
    """Reads and publishes manifests. Keeps nothing in memory between calls, and never changes or removes one."""

    def __init__(self, repository: Repository, layout: Layout) -> None:
        self._repository = repository
        self._layout = layout

    def publish(self, published: Manifest) -> str:
        """Make the savepoint exist and return its manifest's key. Publishing the same manifest again is harmless. Raises ``Damaged`` when
        another one has this id.
        """
        key = self._layout.manifest(published.savepoint_id)
        plain = codec.dumps(published)
        manifest.read(plain, where=key)
        try:
            self._repository.create(key, zstandard.ZstdCompressor(level=9, write_checksum=True).compress(plain))
        except AlreadyExists:
            if self.read(published.savepoint_id) != published:
                raise Damaged(
                    f"a different savepoint {published.savepoint_id} exists already",
                    next_step="take a new savepoint; the one that exists was not touched",
                    key=key,
                ) from None
        return key

    def read(self, savepoint_id: str) -> Manifest:
        """The savepoint of this id. Raises ``NotFound`` naming the newest ones there are, and ``Damaged``."""
        key = self._layout.manifest(savepoint_id)
        try:
            packed = self._repository.get(key)
        except NotFound:
            known = ", ".join(self.ids()[-_NAMED_IN_ERRORS:]) or "none"
            raise NotFound(
                f"there is no savepoint {savepoint_id} of {self._layout.application_id} in {self._repository.location}; newest: {known}",
                next_step="choose one of those; one without a manifest was never finished and cannot be used",
                savepoint=savepoint_id,
            ) from None
        found = manifest.read(_unpacked(packed, key), where=key)
        if (found.savepoint_id, found.application_id) != (savepoint_id, self._layout.application_id):
            raise Damaged(
                f"{key} holds savepoint {found.savepoint_id} of {found.application_id}",
                next_step="somebody moved or exchanged manifests; choose another savepoint and find out who",
                key=key,
            )
        return found

    def retire(self, savepoint_id: str, *, at: int) -> str:
        """Copy the manifest to where expired ones are and return the copy's key. The savepoint exists until its own manifest is removed."""
        key = self._layout.retired(savepoint_id, at)
        with contextlib.suppress(AlreadyExists):
            self._repository.create(key, self._repository.get(self._layout.manifest(savepoint_id)))
        return key

    def read_retired(self, savepoint_id: str, key: str) -> Manifest:
        """An expired savepoint by one of its copies. Raises ``NotFound`` and ``Damaged``."""
        found = manifest.read(_unpacked(self._repository.get(key), key), where=key)
        if found.savepoint_id != savepoint_id:
            raise Damaged(f"{key} holds savepoint {found.savepoint_id}", next_step="find out who wrote there", key=key)
        return found

    def ids(self) -> list[str]:
        """Ids of all savepoints, newest last."""
        parts = (key.removeprefix(self._layout.savepoints).split("/") for key in self._repository.keys(self._layout.savepoints))
        return [part[0] for part in parts if len(part) > 1 and part[1] == "manifest.json.zst" and is_id(part[0])]

    def latest(self, consistency: Consistency | None = None) -> Manifest | None:
        """The newest savepoint, or the newest with this label; None when there is none."""
        for savepoint_id in reversed(self.ids()):
            found = self.read(savepoint_id)
            if consistency is None or found.consistency is consistency:
                return found
        return None

    def published_by_run(self, run_id: str) -> str | None:
        """The savepoint this run has published, if it has."""
        suffix = f"-{run_suffix(run_id)}"
        return next((savepoint_id for savepoint_id in reversed(self.ids()) if savepoint_id.endswith(suffix)), None)


def _unpacked(packed: bytes, key: str) -> bytes:
    try:
        # A declared size is believed by the library, so it is checked first; without one the limit below holds.
        declared = zstandard.frame_content_size(packed)
        if declared > _MAX_BYTES:
            return _refuse(key, f"it would unpack to {declared} bytes")
        return zstandard.ZstdDecompressor().decompress(packed, max_output_size=_MAX_BYTES, allow_extra_data=False)
    except zstandard.ZstdError as error:
        return _refuse(key, str(error))


def _refuse(key: str, why: str) -> NoReturn:
    raise Damaged(f"{key} is not a compressed manifest: {why}", next_step="choose another savepoint", key=key)
