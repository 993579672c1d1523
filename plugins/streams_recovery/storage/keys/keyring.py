"""The data keys of one repository: read, unwrapped, made and wrapped again."""

from __future__ import annotations

import base64
import os
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from streams_recovery.core.errors import ConfigInvalid, Damaged, KeyServiceUnavailable, KeyUnavailable, RecoveryError
from streams_recovery.core.masking import remember_secrets
from streams_recovery.core.repository.encryption import (
    DATA_KEY_BYTES,
    DAY_SECONDS,
    KEY_ID,
    DataKey,
    DataKeys,
    EncryptionState,
    KeyAccess,
    WrappedKey,
    bound,
    made_at,
    named_key,
    new_key_id,
    unavailable,
    unbound,
)
from streams_recovery.core.repository.layout import Layout
from streams_recovery.storage.json_object import create_value, read_value
from streams_recovery.storage.keys import opened
from streams_recovery.storage.keys.port import KeyEncryption, Wrapped

if TYPE_CHECKING:
    from streams_recovery.storage.repository import Repository

_MOST_BYTES: Final = 1 << 16
_AT_ONCE: Final = 8
_DIGITS: Final = 12
_ENTRY: Final = re.compile(rf"/[0-9]{{{_DIGITS}}}\.json$")
Named = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKey:
    """A data key of an application: by what it is wrapped now, and why it cannot be unwrapped, empty when it can."""

    key_id: str
    wrapped_by: str
    version: str
    problem: str = ""


class Keyring:
    """See ``SegmentKeys``. Keys are unwrapped once. May be used by several threads. ``clock`` gives seconds since the epoch."""

    def __init__(self, repository: Repository, access: KeyAccess, clock: Callable[[], float] = time.time) -> None:
        self._repository, self._access, self._clock = repository, access, clock
        self._found: dict[Named, DataKey] = {}
        self._today: dict[str, DataKey] = {}
        self._lock = threading.Lock()

    def of(self, key: str) -> DataKey | None:
        named = named_key(key)
        return None if named is None else self._key(named)

    def writing(self, application_id: str) -> DataKey:
        """The key of today, made when there is none. Its key-encryption key is the first of ``storage.encryption.keys``."""
        with self._lock:
            now, known = int(self._clock()), self._today.get(application_id)
            if known is None or not 0 <= now - made_at(known.key_id) < DAY_SECONDS:
                self._today[application_id] = known = self._stored_today(application_id, now) or self._made(application_id, new_key_id(now))
            return known

    def _stored_today(self, application_id: str, now: int) -> DataKey | None:
        if self._first.public and self._repository.seals is None:
            # Whoever can create objects may have made it, and knows it.
            return None
        for key_id in reversed(self.ids(application_id)):
            if 0 <= now - made_at(key_id) < DAY_SECONDS:
                try:
                    if self._wraps(application_id, key_id)[0].wrapped_by == self._first.name:
                        return self._key((application_id, key_id))
                except (Damaged, KeyUnavailable):
                    # It may be anybody's. A new one costs nothing.
                    continue
        return None

    def ids(self, application_id: str) -> list[str]:
        """The ids of all data keys, the oldest first."""
        return [one for one in self._repository.directories(Layout(application_id).keys) if KEY_ID.fullmatch(one)]

    def unwrapped(self, needed: Iterable[Named], writes: str | None = None) -> DataKeys:
        """These keys, and the one for what is written to the application ``writes``. Those that cannot be had are told by the first who needs them."""
        found, missing = dict[Named, DataKey](), dict[Named, str]()

        def look(named: Named) -> None:
            try:
                found[named] = self._key(named)
            except (Damaged, ConfigInvalid) as error:
                missing[named] = str(error.facts.get("why", error.reason))

        with ThreadPoolExecutor(_AT_ONCE, "keys") as pool:
            list(pool.map(look, sorted(needed)))
        key = None if writes is None else self.writing(writes)
        # What is written is read back.
        return DataKeys(keys=found if key is None else {**found, (str(writes), key.key_id): key}, missing=missing, writes=key)

    def require(self, needed: Iterable[Named]) -> None:
        """Raise ``KeyUnavailable`` unless all of these can be unwrapped."""
        if missing := self.unwrapped(needed).missing:
            (_, key_id), why = min(missing.items())
            raise unavailable(key_id, why if len(missing) == 1 else f"{why}; {len(missing) - 1} more cannot be either")

    def probe(self) -> tuple[str, str]:
        """The key-encryption key that writes, and its newest version, after it has wrapped something and unwrapped it again."""
        return self._first.name, self._wrapped(os.urandom(DATA_KEY_BYTES)).version

    def stored(self, application_id: str, ids: Collection[str] | None = None, *, each: bool = True) -> list[StoredKey]:
        """Every data key there is, or those with these ``ids``, unwrapped to see that it can be; without ``each`` only the newest one of those that one version
        has wrapped, whose problem is that of all of them.
        """

        def look(key_id: str) -> StoredKey:
            try:
                newest = self._wraps(application_id, key_id)[0]
            except Damaged as error:
                return StoredKey(key_id=key_id, wrapped_by="", version="", problem=error.reason)
            return StoredKey(key_id=key_id, wrapped_by=newest.wrapped_by, version=newest.version)

        with ThreadPoolExecutor(_AT_ONCE, "keys") as pool:
            found = list(pool.map(look, self.ids(application_id) if ids is None else sorted(ids)))

        def kind(one: StoredKey) -> object:
            return one.key_id if each else (one.wrapped_by, one.version)

        asked = {kind(one): (application_id, one.key_id) for one in found if not one.problem}
        problems = {named: unavailable(named[1], why).reason for named, why in self.unwrapped(asked.values()).missing.items()}
        return [one if one.problem else replace(one, problem=problems.get(asked[kind(one)], "")) for one in found]

    def state(self, application_id: str) -> EncryptionState:
        """What can be read and written at this moment, as far as it is quickly told."""
        found, problems = list[StoredKey](), list[str]()
        try:
            found = self.stored(application_id, each=False)
            problems += (one.problem for one in found if one.problem)
            self.probe()
        except RecoveryError as error:
            problems.append(error.reason)
        names = {one.wrapped_by for one in found if one.wrapped_by}
        return EncryptionState(keys=len(found), wrapped_by=tuple(sorted(names)), problems=tuple(dict.fromkeys(problems)))

    def rotate(self, application_id: str) -> list[str]:
        """Wrap every data key again that is not wrapped by the newest version of the first key-encryption key. Records stay as they are. Returns their ids.
        Raises ``KeyUnavailable`` before anything is written when one of them cannot be unwrapped.
        """
        named = [(application_id, key_id) for key_id in self.ids(application_id)]
        self.require(named)
        today, done = self.probe(), []
        for one in named:
            newest = self._wraps(*one)[0]
            if (newest.wrapped_by, newest.version) != today:
                self._store(application_id, self._key(one), int(self._entries(*one)[-1][-_DIGITS - 5 : -5]) + 1)
                done.append(one[1])
        return done

    def _key(self, named: Named) -> DataKey:
        if named not in self._found:
            self._found[named] = self._unwrapped(*named)
        return self._found[named]

    def _unwrapped(self, application_id: str, key_id: str) -> DataKey:
        """By the newest wrap that one of the key-encryption keys has made: others may be gone by now."""
        wraps = self._wraps(application_id, key_id)
        usable = {one.name: one for one in self._opened}
        failed: RecoveryError | None = None
        for stored in wraps:
            where = f"{Layout(application_id).keys}{key_id}/"
            if stored.wrapped_by in usable:
                try:
                    data = base64.b64decode(stored.wrapped, validate=True)
                except ValueError:
                    failed = failed or Damaged(
                        f"{where} has a wrapped key that is not base64", next_step="put it back from a copy", key=where
                    )
                    continue
                try:
                    plain = usable[stored.wrapped_by].unwrap(Wrapped(stored.version, data))
                    return _remembered(unbound(plain, application_id, key_id, where))
                except (KeyUnavailable, KeyServiceUnavailable, Damaged) as error:
                    # A service that does not answer may do so later.
                    failed = failed if isinstance(failed, KeyServiceUnavailable) else error
        if isinstance(failed, (Damaged, KeyServiceUnavailable)):
            raise failed
        problems = "; ".join(self._closed) or "none of storage.encryption.keys is that"
        raise unavailable(key_id, failed.reason if failed is not None else f"it is wrapped by {wraps[0].wrapped_by[:300]}, {problems}")

    def _wraps(self, application_id: str, key_id: str) -> list[WrappedKey]:
        """What is stored of a key, the newest first, without what cannot be read. Raises ``Damaged`` when nothing can."""
        failed: RecoveryError | None = None
        found = []
        for key in reversed(self._entries(application_id, key_id)):
            try:
                stored = read_value(self._repository, WrappedKey, key, most_bytes=_MOST_BYTES)
                found.append(stored.checked(application_id, key_id, key))
            except Damaged as error:
                failed = error
        if found:
            return found
        raise failed or Damaged(
            f"{Layout(application_id).keys}{key_id}/ has no key, and records are encrypted with it",
            next_step="put it back from a copy of the repository; without it these records cannot be read",
            key_id=key_id,
        )

    def _entries(self, application_id: str, key_id: str) -> list[str]:
        found = self._repository.keys(f"{Layout(application_id).keys}{key_id}/")
        return [key for key in found if _ENTRY.search(key)]

    def _made(self, application_id: str, key_id: str) -> DataKey:
        key = _remembered(DataKey(key_id=key_id, secret=os.urandom(DATA_KEY_BYTES)))
        self._store(application_id, key, 1)
        self._found[application_id, key_id] = key
        return key

    def _store(self, application_id: str, key: DataKey, number: int) -> None:
        wrapped = self._wrapped(bound(key.secret, application_id, key.key_id))
        stored = WrappedKey(
            format_version=1,
            application_id=application_id,
            key_id=key.key_id,
            wrapped_by=self._first.name,
            version=wrapped.version,
            wrapped=base64.b64encode(wrapped.data).decode(),
            at=int(self._clock() * 1000),
        )
        create_value(self._repository, Layout(application_id).wrapped_key(key.key_id, number), stored, most_bytes=_MOST_BYTES)

    def _wrapped(self, plain: bytes) -> Wrapped:
        wrapped = self._first.wrap(plain)
        # Before anything is encrypted with it: a right to encrypt alone would lock the records away.
        if self._first.unwrap(wrapped) != plain:
            raise unavailable("of today", f"{self._first.name} does not give back what it has wrapped")
        return wrapped

    @cached_property
    def _first(self) -> KeyEncryption:
        if not self._access.places:
            raise unavailable("of today", "this process was given no key-encryption key")
        return opened(self._access.places[0])

    @cached_property
    def _opened(self) -> list[KeyEncryption]:
        found = []
        for place in self._access.places:
            try:
                found.append(opened(place))
            except ConfigInvalid as error:
                self._closed.append(error.reason)
        return found

    @cached_property
    def _closed(self) -> list[str]:
        """Why key-encryption keys could not be opened."""
        return []


def _remembered(key: DataKey) -> DataKey:
    remember_secrets([base64.b64encode(key.secret).decode()], renewed=True)
    return key
