"""Published savepoints: manifests in a repository."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import zstandard

from streams_recovery.core import codec, manifest, savepoint_id
from streams_recovery.core.errors import Damaged, NotFound
from streams_recovery.core.layout import Layout
from streams_recovery.core.manifest import Manifest
from streams_recovery.core.model import Consistency
from streams_recovery.storage.failures import AlreadyExists
from streams_recovery.storage.repository import Repository

# A manifest of a million segments is smaller. Without a limit a few bytes from an untrusted bucket could fill the memory.
MAX_MANIFEST_BYTES = 1024 * 1024 * 1024
MAX_STORED_BYTES = 128 * 1024 * 1024
_LEVEL = 10
_NEWEST_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointSummary:
    """A line of a list. ``damaged`` says why the manifest cannot be read; then the other values are None."""

    savepoint_id: str
    captured_at: int | None
    consistency: Consistency | None
    parent_id: str | None
    records: int | None
    bytes: int | None
    reason: str | None
    damaged: str | None


class SavepointStore:
    """The savepoints of one application. What has no manifest does not exist; what has one is never changed."""

    def __init__(self, repository: Repository, layout: Layout) -> None:
        self._repository, self._layout = repository, layout

    def publish(self, image: Manifest) -> None:
        """Make a savepoint exist. The identical manifest may be published again; another one under its id is ``Damaged``.

        The caller has made sure that all files are there (``missing_files``). A manifest that could not be read back is not written.
        """
        key = self._layout.manifest(image.savepoint_id)
        data = codec.dumps(image)
        manifest.read(data, where=key)
        if image.application_id != self._layout.application_id:
            raise _foreign(key, image)
        try:
            self._repository.create(key, zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(data))
        except AlreadyExists:
            if codec.dumps(self.read(image.savepoint_id)) != data:
                raise Damaged(
                    f"{key} already exists and describes something else",
                    next_step="compare both runs; take a new savepoint, the published one stays as it is",
                    key=key,
                ) from None

    def read(self, identifier: str) -> Manifest:
        """The manifest of a savepoint. Raises ``NotFound`` with the newest ids, ``Damaged``."""
        key = self._layout.manifest(identifier)
        try:
            size = self._repository.size(key)
            stored = self._repository.get(key) if size is not None and size <= MAX_STORED_BYTES else None
        except NotFound:
            size, stored = None, None
        if size is None:
            raise self._unknown(identifier)
        image = manifest.read(_decompressed(stored, key), where=key)
        if (image.application_id, image.savepoint_id) != (self._layout.application_id, identifier):
            raise _foreign(key, image)
        return image

    def ids(self) -> tuple[str, ...]:
        """Every savepoint, newest last."""
        keys = self._repository.list(self._layout.savepoints)
        names = (
            key.removeprefix(self._layout.savepoints).removesuffix("/manifest.json.zst")
            for key in keys
            if key.endswith("/manifest.json.zst")
        )
        return tuple(sorted(name for name in names if "/" not in name))

    def latest(self, consistency: Consistency | None = None) -> Manifest | None:
        """The newest savepoint, or the newest with this label; None when there is none.

        Raises ``Damaged`` when a newer one cannot be read: going back further without a word would lose data without a word.
        """
        images = (self.read(identifier) for identifier in reversed(self.ids()))
        return next((image for image in images if consistency in (None, image.consistency)), None)

    def published_by_run(self, run_id: str) -> tuple[str, ...]:
        """Savepoints that this run has published, in this or an earlier attempt."""
        return tuple(identifier for identifier in self.ids() if savepoint_id.made_by(identifier, run_id))

    def summaries(self) -> Iterator[SavepointSummary]:
        """All savepoints, newest first, the damaged ones included."""
        return (self._summary(identifier) for identifier in reversed(self.ids()))

    def missing_files(self, image: Manifest) -> tuple[str, ...]:
        """Keys of segments that the manifest names and that are absent, or present with another size."""
        prefixes = {file.key.rpartition("/")[0] + "/" for _, file in image.files()}
        sizes = {key: size for prefix in sorted(prefixes) for key, size in self._repository.sizes(prefix).items()}
        return tuple(sorted({file.key for _, file in image.files() if sizes.get(file.key) != file.bytes}))

    def _summary(self, identifier: str) -> SavepointSummary:
        try:
            image = self.read(identifier)
        except Damaged as error:
            return SavepointSummary(
                savepoint_id=identifier,
                captured_at=None,
                consistency=None,
                parent_id=None,
                records=None,
                bytes=None,
                reason=None,
                damaged=error.reason,
            )
        return SavepointSummary(
            savepoint_id=identifier,
            captured_at=image.captured_at,
            consistency=image.consistency,
            parent_id=image.parent_id,
            records=image.records,
            bytes=sum(file.bytes for _, file in image.files()),
            reason=image.provenance.reason,
            damaged=None,
        )

    def _unknown(self, identifier: str) -> NotFound:
        newest = self.ids()[-_NEWEST_SHOWN:]
        begun = any(True for _ in self._repository.list(f"{self._layout.savepoints}{identifier}/"))
        what = "has no manifest, so it was never completed" if begun else "does not exist"
        known = f"the newest are {', '.join(newest)}" if newest else "there is none yet"
        return NotFound(
            f"savepoint {identifier} of {self._layout.application_id} {what}; {known}",
            next_step="choose one that exists" if newest else "take a savepoint first",
            savepoint_id=identifier,
            newest=list(newest),
        )


def _decompressed(stored: bytes | None, key: str) -> bytes:
    try:
        size = -1 if stored is None else zstandard.frame_content_size(stored)
        if stored is None or not 0 <= size <= MAX_MANIFEST_BYTES:
            raise Damaged(f"{key} is too big or does not say its size", next_step="do not use this savepoint; choose another one", key=key)
        return zstandard.ZstdDecompressor().decompress(stored, max_output_size=max(size, 1))
    except zstandard.ZstdError as error:
        raise Damaged(
            f"{key} cannot be decompressed: {error}", next_step="restore this object from a copy, or choose another savepoint", key=key
        ) from error


def _foreign(key: str, image: Manifest) -> Damaged:
    return Damaged(
        f"{key} describes savepoint {image.savepoint_id} of {image.application_id}",
        next_step="do not use it: it was moved or copied here under another name",
        key=key,
    )
