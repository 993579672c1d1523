"""The object store as this project uses it: create if absent, read, list. Nothing is ever overwritten."""

from __future__ import annotations

import hashlib
import io
import uuid
from collections.abc import Callable, Collection, Iterator
from copy import copy
from mmap import mmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast

import obstore
from obstore import exceptions

from streams_recovery.core import codec
from streams_recovery.core.codec import MOST_BYTES, MOST_BYTES_OF_ENTRY
from streams_recovery.core.errors import ConfigInvalid, Damaged, Forged, NotFound, Refused
from streams_recovery.core.escaping import logger
from streams_recovery.core.repository.encryption import NO_KEYS, DataKeys, KeyAccess, SegmentKeys, named_key, unavailable
from streams_recovery.core.repository.layout import Layout, StorageLocation, is_probe
from streams_recovery.core.repository.mirror import Moved
from streams_recovery.core.repository.retention import StoredFile
from streams_recovery.core.repository.seal import ADOPTED, MOST_SEAL_BYTES, Adoption, SealKeys, StoredObject, carries_seal, split_seal
from streams_recovery.core.words import moment
from streams_recovery.storage.backends import BUCKETS
from streams_recovery.storage.conditional_put import Retries, about_names, create_once, explained, missing, overwritten, unreadable
from streams_recovery.storage.credentials import StorageCredentials
from streams_recovery.storage.objects import ObjectFile, mapped
from streams_recovery.storage.open_store import create_file, creates_once, files_in, open_bucket, open_directory, removal, staged_in

if TYPE_CHECKING:
    from streams_recovery.storage.keys.keyring import Keyring
    from streams_recovery.storage.seals import Seals

T = TypeVar("T")

LOGGER = logger("streams_recovery.storage.repository")

_CHUNK = 8 << 20
# As many keys as a bucket lists in one request.
_PAGE = 1000
# An upload gets a minute while it is smaller than this, and twice as long each time it is twice as big.
_BYTES_A_MINUTE_LOG2 = 26
# User metadata of an object; its value is known to the one who created it.
_CREATION = "creation"
_PARQUET = ".parquet"
# What an encrypted Parquet file begins with.
_ENCRYPTED = b"PARE"
# Places that were asked by this process whether they create an object only where there is none, and do. With the application it was asked for.
_asked: set[tuple[StorageLocation, str]] = set()


class AlreadyExists(Refused):
    """Raised when an object of this key is there already, and another call created it. It was not touched."""


class Repository:
    """One repository. Keys are relative, with forward slashes; keys that would leave the prefix are refused. With ``seal`` everything that is created gets a
    seal, and whatever is read by ``get`` must have one: ``Forged`` is raised for what has none. Without ``seal``, seals are cut off unchecked.

    Raises ``RepositoryUnavailable`` when the store does not answer after ``retries``, ``ConfigInvalid`` when it does not let us in. May be used by
    several threads.
    """

    def __init__(
        self,
        location: StorageLocation,
        credentials: StorageCredentials | None = None,
        retries: Retries | None = None,
        *,
        seal: SealKeys | None = None,
        encryption: KeyAccess | DataKeys | None = None,
    ) -> None:
        self.location = location
        self.encryption = encryption
        self._ring: Keyring | None = None
        self.seals = None if seal is None else self._seals(seal)
        self._adoptions: dict[str, dict[str, str]] = {}
        # Records that were asked for here and are forged, with the reason.
        self.forged: dict[str, str] = {}
        self._credentials = credentials
        self._retries = retries or Retries()
        self._opened: Any = None
        self._creators: dict[int, Any] = {}
        # The first two names of the keys that were created or deleted here.
        self.changed: set[str] = set()

    def _seals(self, keys: SealKeys) -> Seals:
        # Slow to import, and not in every place where a repository without seals is read.
        from streams_recovery.storage.seals import Seals  # noqa: PLC0415

        return Seals(keys, self._adopted)

    def without_seals(self) -> Repository:
        """The same repository as a process without keys reads it. Files that are found this way may be kept, and nothing else may follow from them."""
        # Opened here, so that both have one store.
        _ = self._store
        view = copy(self)
        view.seals, view.forged, view.encryption, view._ring = None, {}, None, None  # noqa: SLF001  # its own copy
        return view

    def with_seals(self, keys: SealKeys) -> Repository:
        """The same repository for a process that has these keys."""
        return Repository(self.location, self._credentials, self._retries, seal=keys, encryption=self.encryption)

    @property
    def keyring(self) -> Keyring | None:
        """The data keys, for who has the key-encryption keys. None where ``storage.encryption`` is not set, and in a task."""
        if self._ring is None and isinstance(self.encryption, KeyAccess):
            # Slow to import, and not in every place where a repository in clear is read.
            from streams_recovery.storage.keys.keyring import Keyring  # noqa: PLC0415

            self._ring = Keyring(self, self.encryption)
        return self._ring

    @property
    def data_keys(self) -> SegmentKeys:
        """The keys of records, for those who read and write them."""
        return self.encryption if isinstance(self.encryption, DataKeys) else self.keyring or NO_KEYS

    def require_keys(self, needed: Collection[tuple[str, str]]) -> None:
        """Raise ``KeyUnavailable`` unless all of these data keys, by application and id, can be unwrapped, also where no key-encryption key is configured."""
        if self.keyring is not None:
            self.keyring.require(needed)
        elif needed:
            raise unavailable(min(needed)[1], "storage.encryption has no keys, or is switched off")

    def get(self, key: str, *, most_bytes: int = MOST_BYTES) -> bytes:
        """The whole object, without its seal. For small ones: manifests, notes, locks. Raises ``NotFound``, ``Forged``, and ``Damaged`` for one of more than
        ``most_bytes`` before more than that is read.
        """
        return self.stored(key, most_bytes=most_bytes).content

    def stored(self, key: str, *, most_bytes: int = MOST_BYTES) -> StoredObject:
        """``get``, with the seal."""
        found, forged = self.judged(key, most_bytes=most_bytes)
        if forged is not None:
            raise forged
        return found

    def judged(self, key: str, *, most_bytes: int = MOST_BYTES) -> tuple[StoredObject, Forged | None]:
        """``stored``, and the error for a record that is not believed: for those who keep what it keeps."""
        found = self.unchecked(key, most_bytes=most_bytes)
        if self.seals is not None and carries_seal(key):
            try:
                self.seals.check(key, found)
            except Forged as error:
                self.forged[key] = str(error.facts["why"])
                return found, error.with_traceback(None)
        return found, None

    def adopted(self, key: str) -> bool:
        """True when a person vouched for the record at ``key``, which has no seal, and was read here."""
        return self.seals is not None and key in self._adopted(key)

    def unchecked(self, key: str, *, most_bytes: int = MOST_BYTES) -> StoredObject:
        """``stored`` without a check of the seal, for callers that decide whether to believe it."""
        if not carries_seal(key):
            return StoredObject(content=self._do("reading", key, lambda: self._whole(_checked(key), most_bytes)), seal=None)
        found = split_seal(self._do("reading", key, lambda: self._whole(_checked(key), most_bytes, on_top=MOST_SEAL_BYTES)))
        if len(found.content) > most_bytes:
            raise self._too_large(key, len(found.content), most_bytes)
        return found

    def _adopted(self, key: str) -> dict[str, str]:
        """The records of the application of ``key`` that were adopted. Read once: a process that reads on meanwhile believes no more than it did."""
        application_id, _, below = key.partition("/")
        if below.startswith(ADOPTED):
            return {}
        if application_id not in self._adoptions:
            found: dict[str, str] = {}
            for entry in self.keys(f"{application_id}/{ADOPTED}"):
                try:
                    found |= codec.loads(Adoption, self.get(entry), where=entry).records
                except Damaged as error:
                    LOGGER.warning("%s is passed over: %s", entry, error.reason)
            self._adoptions[application_id] = found
        return self._adoptions[application_id]

    def _whole(self, key: str, most_bytes: int, *, on_top: int = 0) -> bytes:
        found = obstore.get(self._store, key)
        size, parts, read = int(found.meta["size"]), [], 0
        if size <= most_bytes + on_top:
            for part in found.stream():
                read += len(part)
                if read > most_bytes + on_top:
                    break
                parts.append(bytes(part))
        if max(size, read) > most_bytes + on_top:
            raise self._too_large(key, max(size, read), most_bytes)
        return b"".join(parts)

    def _too_large(self, key: str, size: int, limit: int) -> Damaged:
        return Damaged(
            f"{key} in {self.location} has {size} bytes, more than the {limit} that this software writes there",
            next_step="remove this object, or put it back from a copy, and find out who wrote it",
            key=key,
            bytes=size,
            limit=limit,
        )

    def open(self, key: str, *, size: int | None = None) -> BinaryIO:
        """The object as a buffered, seekable file that reads ranges as they are asked for. Who knows its ``size`` spares a request. Raises ``NotFound``."""
        known = self.size(key) if size is None else size
        if known is None:
            raise missing(key, self.location)
        return cast("BinaryIO", io.BufferedReader(ObjectFile(self._range, key, known), buffer_size=_CHUNK))

    def _range(self, key: str, start: int, end: int) -> bytes:
        found = self._do("reading", key, lambda: bytes(obstore.get_range(self._store, _checked(key), start=start, end=end)))
        if len(found) != end - start:
            raise Damaged(f"{key} in {self.location} changed while it was read", next_step="find out who writes there", key=key)
        return found

    def size(self, key: str) -> int | None:
        """Bytes of the object, None when it does not exist."""
        try:
            return self._do("looking at", key, lambda: int(obstore.head(self._store, _checked(key))["size"]))
        except NotFound:
            return None

    def modified(self, key: str) -> int | None:
        """The moment when the object was written, in milliseconds by the store's clock; None when it does not exist."""
        try:
            return self._do("looking at", key, lambda: _stored(obstore.head(self._store, _checked(key))).modified)
        except NotFound:
            return None

    def create(self, key: str, data: bytes, *, previous: str | None = None) -> None:
        """Write an object that does not exist yet. Raises ``AlreadyExists``; an existing object stays as it is. A lost reply makes no difference: an object
        that this very call created is not taken for another writer's. ``previous`` is the signature of the entry before, in a log.
        """
        if self.seals is not None and carries_seal(key):
            data = self.seals.sealed(key, data, previous)
        self._create("creating", key, data)

    def put_file(self, key: str, path: Path) -> None:
        """Upload a local file as a new object, in one request and without holding it in memory; S3 takes up to 5 GiB that way. Raises
        ``AlreadyExists`` as ``create`` does.
        """
        # Not in parts: completing an upload in parts replaces an object that appeared meanwhile.
        with mapped(path) as content:
            named = named_key(key) is not None
            if key.endswith(_PARQUET) and ((self.encryption is not None and not named) or named != (content[:4] == _ENCRYPTED)):
                raise Refused(f"{key} is not encrypted as it has to be", next_step="nothing was stored; report this", key=key)
            self._create("uploading", key, content)

    def require_suitable(self, application_id: str, *, whole: bool = True) -> None:
        """Ask the store for what locks, logs and savepoints are built on, with the application's probe: it creates an object only where there is none; what was
        written is read, whole and in part; and a listing shows it. Without ``whole`` a probe that is there is the answer of an earlier time to all but
        the first question. Raises ``StoreUnsuitable``.
        """
        probe = Layout(application_id).probe
        if self.location.backend == "filesystem":
            root = self._root
            once = self._do("creating", probe, lambda: creates_once(root, application_id))
        elif self.location.backend in BUCKETS:
            # The first one may be there from an earlier time. No two have the same content, so none is taken for another.
            written = uuid.uuid4().hex.encode()
            new = self._create_in_bucket("creating", probe, written)
            once = not (new and self._create_in_bucket("creating", probe, uuid.uuid4().hex.encode()))
            if once and (whole or new):
                self._require_readable(probe, written if new else None)
        else:
            once = True
        if not once:
            raise overwritten(probe, self.location)
        _asked.add((self.location, application_id))

    def _require_readable(self, probe: str, written: bytes | None) -> None:
        """What the store answers about a probe that is there; ``written`` is its content, None where that was written at an earlier time."""
        directory = probe.rpartition("/")[0] + "/"
        listed = self._do(
            "listing", directory, lambda: [_stored(item) for page in obstore.list(self._store, prefix=directory) for item in page]
        )
        try:
            found = self._do("reading", probe, lambda: self._whole(probe, MOST_BYTES))
            start, end = len(found) // 4, len(found) // 2
            part = self._do("reading", probe, lambda: bytes(obstore.get_range(self._store, probe, start=start, end=end)))
        except NotFound:
            raise unreadable(probe, self.location, "it cannot be read") from None
        sizes = {file.key: file.bytes for file in listed}
        if written is not None and found != written:
            raise unreadable(probe, self.location, "what was read is not what was written")
        if sizes.get(probe) != len(found):
            raise unreadable(probe, self.location, f"a listing of {directory} does not show it as it is")
        if part != found[start:end]:
            raise unreadable(probe, self.location, "a part of it that was read is not that part")

    def _ask_once(self, key: str) -> None:
        """Ask the store before the first object of an application that this process creates."""
        application_id, _, below = key.partition("/")
        if not below or (self.location, application_id) in _asked:
            return
        self.require_not_moved(application_id)
        try:
            self.require_suitable(application_id, whole=False)
        except ConfigInvalid:
            # A user that may not write the probe learns from the object that is to be created whether that is allowed.
            _asked.add((self.location, application_id))

    def require_not_moved(self, application_id: str) -> None:
        """Raise ``Refused`` in a place that the repository of this application was moved from. A mark that nobody has sealed who may write is passed over."""
        key = Layout(application_id).moved
        try:
            moved = codec.loads(Moved, self.get(key, most_bytes=MOST_BYTES_OF_ENTRY), where=key)
        except (NotFound, ConfigInvalid):
            return
        except Forged as error:
            LOGGER.warning("%s is passed over: %s", key, error.reason)
            return
        raise Refused(
            f"the repository in {self.location} has moved to {moved.to}, at {moment(moved.at)}: nothing is written here any more",
            next_step=f"write that place into storage of the configuration; to go on here, where nothing was written there yet, remove {key}",
            place=moved.to,
        )

    def _create(self, doing: str, key: str, data: bytes | mmap) -> None:
        self._ask_once(_checked(key))
        self._note(key)
        if self.location.backend == "filesystem":
            root = self._root
            done = self._do(doing, key, lambda: create_file(root, key, data))
        elif self.location.backend not in BUCKETS:
            done = self._do(
                doing, key, lambda: create_once(lambda _: self._put(self._store, key, data), lambda _: None, Retries(attempts=1))
            )
        else:
            done = self._create_in_bucket(doing, key, data)
        if not done:
            raise AlreadyExists(f"{key} exists already in {self.location}", next_step="nothing was overwritten", key=key)

    def _create_in_bucket(self, doing: str, key: str, data: bytes | mmap) -> bool:
        # The library must not send it again by itself: then it is unknown whether a refusal is the first answer.
        store = self._creator(len(data))
        return self._do(
            doing,
            key,
            lambda: create_once(
                lambda token: self._put(store, key, data, attributes={_CREATION: token}),
                lambda token: self._carries(key, token, data),
                self._retries,
            ),
            attempts=self._retries.attempts,
        )

    def _put(self, store: Any, key: str, data: bytes | mmap, **more: Any) -> None:
        obstore.put(store, _checked(key), data, mode="create", use_multipart=False, **more)

    def _carries(self, key: str, token: str, data: bytes | mmap) -> bool | None:
        try:
            found = obstore.get(self._store, key)
        except FileNotFoundError:
            return None
        if _CREATION in found.attributes:
            return bool(found.attributes[_CREATION] == token)
        # Not every server keeps metadata. Then the content has to tell.
        stored = hashlib.sha256()
        for chunk in found.stream():
            stored.update(chunk)
        return stored.digest() == hashlib.sha256(data).digest()

    def keys(self, prefix: str) -> Iterator[str]:
        """Keys below ``prefix`` in order. Every page is read before the first key is given, so the order is over all of them."""
        return iter([file.key for file in self.listed(prefix)])

    def listed(self, prefix: str) -> list[StoredFile]:
        """Objects below ``prefix`` with size and time of their last change, in the order of their keys, without the probes. Objects with names that this
        software never uses may be left out.
        """

        def read() -> list[StoredFile]:
            try:
                # As each page comes: a million of the library's own entries would not fit beside each other.
                return [_stored(item) for page in obstore.list(self._store, prefix=prefix, chunk_size=1000) for item in page]
            except (exceptions.BaseError, OSError) as error:
                if not about_names(error):
                    raise
                return self._listed_without_strange_names(prefix)

        return sorted((file for file in self._do("listing", prefix, read) if not is_probe(file.key)), key=lambda file: file.key)

    def page(self, prefix: str, *, after: str = "") -> tuple[list[str], bool]:
        """Some keys right behind ``after`` below ``prefix``, in order, and whether these are all. One request to a bucket; in a directory all files right in
        it, of which none is looked at.
        """

        def read() -> tuple[list[str], bool]:
            if self.location.backend == "filesystem":
                return [key for key in files_in(self._root, prefix) if key > after], True
            try:
                found = next(iter(obstore.list(self._store, prefix=prefix, offset=after or None, chunk_size=_PAGE)), [])
            except (exceptions.BaseError, OSError) as error:
                if not about_names(error):
                    raise
                return [file.key for file in self.listed(prefix) if file.key > after], True
            keys = [str(item["path"]) for item in found]
            if keys != sorted(keys) or min(keys, default=after + "x") <= after:
                # A server that lists in no order, or from the beginning.
                return [file.key for file in self.listed(prefix) if file.key > after], True
            return keys, len(keys) < _PAGE

        return self._do("listing", prefix, read)

    def directories(self, prefix: str) -> list[str]:
        """The names of the directories right below ``prefix``, in order: what is in them is not listed."""

        def read() -> list[str]:
            found = obstore.list_with_delimiter(self._store, prefix=prefix)["common_prefixes"]
            return sorted(str(name).rstrip("/").rpartition("/")[2] for name in found)

        return self._do("listing", prefix, read)

    def sizes(self, prefix: str) -> dict[str, int]:
        """Bytes of the objects below ``prefix``, by key: one listing tells what as many requests would as there are objects."""
        return {file.key: file.bytes for file in self.listed(prefix)}

    def _listed_without_strange_names(self, prefix: str) -> list[StoredFile]:
        # Slow to import, and not needed while no other program writes there.
        from streams_recovery.storage.s3 import listed_without_them  # noqa: PLC0415

        return listed_without_them(self.location, self._credentials, prefix)

    def staged(self, prefix: str) -> list[StoredFile]:
        """Files below ``prefix`` that are being written, and those whose writer was killed: objects of a name that no listing shows. A bucket has none."""
        if self.location.backend != "filesystem":
            return []
        root = self._root
        found = self._do("listing", prefix, lambda: list(staged_in(root, prefix)))
        files = (StoredFile(key=key, bytes=one.st_size, modified=one.st_mtime_ns // 1_000_000) for key, one in found)
        return sorted(files, key=lambda file: file.key)

    def delete(self, keys: list[str], *, emptied: bool = False) -> None:
        """Delete objects; those that do not exist are passed over. Expiry and the monitor call this: nothing else needs the right to. With ``emptied``
        directories that are empty then go too, if nothing is written there any more.
        """
        if self.location.backend == "filesystem":
            self._do("deleting", next(iter(keys), ""), lambda: self._remove(keys, emptied=emptied))
            return
        for key in keys:
            self._note(key)
            try:
                self._do("deleting", key, lambda key=key: obstore.delete(self._store, _checked(key)))  # type: ignore[misc]
            except NotFound:
                continue

    def _note(self, key: str) -> None:
        self.changed.add("".join(f"{name}/" for name in key.split("/")[:2]))

    def _remove(self, keys: list[str], *, emptied: bool) -> None:
        with removal(Path(str(self.location.path)), emptied=emptied) as remove:
            for key in keys:
                self._note(key)
                self._do("deleting", key, lambda key=key: remove(_checked(key)))  # type: ignore[misc]

    @property
    def _root(self) -> Path:
        """The directory of a repository in files, which is there then."""
        _ = self._store
        return Path(str(self.location.path))

    @property
    def _store(self) -> Any:
        if self._opened is None:
            if self.location.backend in BUCKETS:
                self._opened = self._open_bucket(retries=self._retries.attempts - 1, timeout_seconds=self._retries.request_seconds)
            else:
                self._opened = open_directory(self.location)
        return self._opened

    def _creator(self, size: int) -> Any:
        minutes = 1 << (size >> _BYTES_A_MINUTE_LOG2).bit_length()
        if minutes not in self._creators:
            self._creators[minutes] = self._open_bucket(retries=0, timeout_seconds=self._retries.request_seconds * minutes)
        return self._creators[minutes]

    def _open_bucket(self, *, retries: int, timeout_seconds: float) -> Any:
        return open_bucket(self.location, self._credentials, retries=retries, timeout_seconds=timeout_seconds)

    def _do(self, doing: str, key: str, call: Callable[[], T], *, attempts: int | None = None) -> T:
        try:
            return call()
        except (exceptions.BaseError, OSError) as error:
            raise explained(error, doing=doing, key=key, location=self.location, attempts=attempts) from error


def _stored(item: Any) -> StoredFile:
    return StoredFile(key=str(item["path"]), bytes=int(item["size"]), modified=int(item["last_modified"].timestamp() * 1000))


def _checked(key: str) -> str:
    if not key or key.startswith("/") or "\\" in key or any(part in ("", ".", "..") for part in key.split("/")):
        raise ConfigInvalid(f"{key!r:.200} is no valid key", next_step="keys are relative and stay below the repository", key=key)
    return key
