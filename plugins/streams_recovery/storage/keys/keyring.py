"""The data keys of one repository: read, unwrapped, made and wrapped again."""

from __future__ import annotations

import base64
import os
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from streams_recovery.core.errors import ConfigInvalid, Damaged, KeyServiceUnavailable, KeyUnavailable, RecoveryError
from streams_recovery.core.escaping import logger
from streams_recovery.core.masking import remember_secrets
from streams_recovery.core.repository.encryption import (
    DATA_KEY_BYTES,
    DAY_SECONDS,
    KEY_ID,
    DataKey,
    DataKeys,
    EncryptionState,
    KeyAccess,
    KeyPlace,
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

LOGGER = logger("streams_recovery.storage.keys")
_MOST_BYTES: Final = 1 << 16
_AT_ONCE: Final = 8
_DIGITS: Final = 12
_ENTRY: Final = re.compile(rf"/[0-9]{{{_DIGITS}}}\.json$")
Named = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKey:
    """A data key of an application: by what it is wrapped now, in ``second`` for the second place too, and why it cannot be unwrapped, empty when it can."""

    key_id: str
    wrapped_by: str
    version: str
    second: str = ""
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
                    own, _ = self._by_place(self._wraps(application_id, key_id))
                    if own and own[0].wrapped_by == self._first.name:
                        # By this one only: others may be public.
                        return self._unwrapped(application_id, key_id, [one for one in own if one.wrapped_by == self._first.name])
                except (Damaged, KeyUnavailable):
                    # It may be anybody's. A new one costs nothing.
                    continue
        return None

    def ids(self, application_id: str) -> list[str]:
        """The ids of all data keys, the oldest first. An empty directory is what expiry has left of one when it was killed."""
        prefix = Layout(application_id).keys
        found = {key.removeprefix(prefix).partition("/")[0] for key in self._repository.keys(prefix)}
        return sorted(filter(KEY_ID.fullmatch, found))

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
        return self._first.name, self._wrapped(self._first, os.urandom(DATA_KEY_BYTES)).version

    def second_problem(self) -> RecoveryError | None:
        """Why the key of the second place cannot be used now. None when it can, or there is none."""
        try:
            if self.second is not None:
                self._wrapped(self.second, os.urandom(DATA_KEY_BYTES))
        except RecoveryError as error:
            return error
        return None

    def stored(self, application_id: str, ids: Collection[str] | None = None, *, each: bool = True) -> list[StoredKey]:
        """Every data key there is, or those with these ``ids``, unwrapped to see that it can be; without ``each`` only the newest one of those that the same
        versions have wrapped, whose problem is that of all of them.
        """

        def look(key_id: str) -> tuple[StoredKey, object]:
            try:
                wraps = self._wraps(application_id, key_id)
            except Damaged as error:
                return StoredKey(key_id=key_id, wrapped_by="", version="", problem=error.reason), None
            own, others = self._by_place(wraps)
            newest, second = (own or others)[0], others[0].wrapped_by if others else ""
            kind = key_id if each else frozenset((one.wrapped_by, one.version) for one in wraps)
            return StoredKey(key_id=key_id, wrapped_by=newest.wrapped_by, version=newest.version, second=second), kind

        with ThreadPoolExecutor(_AT_ONCE, "keys") as pool:
            found = list(pool.map(look, self.ids(application_id) if ids is None else sorted(ids)))
        asked = {kind: (application_id, one.key_id) for one, kind in found if not one.problem}
        problems = {named: unavailable(named[1], why).reason for named, why in self.unwrapped(asked.values()).missing.items()}
        return [one if one.problem else replace(one, problem=problems.get(asked[kind], "")) for one, kind in found]

    def state(self, application_id: str) -> EncryptionState:
        """What can be read and written at this moment, as far as it is quickly told."""
        found, problems, second, lacking = list[StoredKey](), list[str](), "", 0
        # One that cannot be opened takes nothing from the first place: ``second_problem`` tells.
        with suppress(ConfigInvalid):
            second = "" if self.second is None else self.second.name
        try:
            found = self.stored(application_id, each=False)
            problems += (one.problem for one in found if one.problem)
            lacking = sum(one.second != second for one in found) if second else 0
            self.probe()
        except RecoveryError as error:
            problems.append(error.reason)
        names = {one.wrapped_by for one in found if one.wrapped_by}
        unusable = self.second_problem()
        return EncryptionState(
            keys=len(found),
            wrapped_by=tuple(sorted(names)),
            problems=tuple(dict.fromkeys(problems)),
            second=second,
            second_problem=unusable.reason if unusable is not None else f"it has not wrapped {lacking:,} of them" if lacking else "",
        )

    def rotate(self, application_id: str) -> list[str]:
        """Wrap every data key again that is not wrapped by the newest version of the first key-encryption key, and of the one of the second place. Records stay
        as they are. Returns their ids. Raises ``KeyUnavailable`` before anything is written when one of them cannot be unwrapped, and ``Damaged`` when its
        forms give two keys: nobody could tell which one would be lost with a key-encryption key.
        """
        ids = self.ids(application_id)
        self.require((application_id, key_id) for key_id in ids)
        for where, stored in ((f"{Layout(application_id).keys}{one}/", self._key((application_id, one))) for one in ids):
            if self.contradicts(stored, application_id):
                raise Damaged(
                    f"{where} has forms of a data key that give different ones: somebody else has written one of them",
                    next_step="compare them with a copy of this repository, remove the one that is not there, and find out who wrote it",
                    key=where,
                )
        done = set[str]()
        for key in (self._first, *([] if self.second is None else [self.second])):
            done.update(self._wrapped_again(application_id, key, self._wrapped(key, os.urandom(DATA_KEY_BYTES)).version))
        return sorted(done)

    def contradicts(self, key: DataKey, application_id: str) -> bool:
        """True where a form of a data key gives another one. Only a public key-encryption key can have wrapped it for a stranger, and only without seals."""
        public = {one.name for _, one in self._opened if one.public}
        wraps = [one for one in self._wraps(application_id, key.key_id) if one.wrapped_by in public] if self.believes_anybody else []
        return any(not self._gives(key, application_id, [one], others=True) for one in wraps)

    @property
    def believes_anybody(self) -> bool:
        """True where a stranger can wrap a data key that is believed: by a public key-encryption key, without seals."""
        return self._repository.seals is None and any(one.public for _, one in self._opened)

    def _gives(self, key: DataKey, application_id: str, wraps: Collection[WrappedKey], *, others: bool = False) -> bool:
        """Whether these forms give this data key. Where they give none, whatever ``others`` says."""
        try:
            return self._unwrapped(application_id, key.key_id, wraps) == key
        except (Damaged, KeyUnavailable):
            return others

    def complete(self, application_id: str) -> list[str]:
        """Wrap with the key of the second place what it has not wrapped, as its service did not answer then. Returns the ids. Raises ``KeyUnavailable`` behind
        all that can be had.
        """
        return [] if self.second is None else self._wrapped_again(application_id, self.second, None)

    def _wrapped_again(self, application_id: str, key: KeyEncryption, version: str | None) -> list[str]:
        """Wrap what this key was not the last one of its place to wrap; with a ``version`` also what that has not wrapped, or what says so and does not open:
        anybody can write that.
        """
        done, lost = list[str](), dict[str, str]()
        for key_id in self.ids(application_id):
            try:
                newest = self._by_place(self._wraps(application_id, key_id))[key.name in self._others][:1]
                done_before = bool(newest) and newest[0].wrapped_by == key.name and version in (None, newest[0].version)
                if done_before and version is None:
                    continue
                secret = self._key((application_id, key_id))
                if done_before and self._gives(secret, application_id, newest):
                    continue
            except (Damaged, KeyUnavailable) as error:
                # It takes nothing from the others.
                lost[key_id] = str(error.facts.get("why", error.reason))
                continue
            self._store(application_id, secret, key)
            done.append(key_id)
        if lost:
            raise unavailable(*next(iter(lost.items())))
        return done

    def _key(self, named: Named) -> DataKey:
        if named not in self._found:
            own, others = self._by_place(self._wraps(*named))
            self._found[named] = self._unwrapped(*named, [*own, *others])
        return self._found[named]

    def _by_place(self, wraps: Collection[WrappedKey]) -> tuple[list[WrappedKey], list[WrappedKey]]:
        """What keys of this place have wrapped, and what those of the other one have."""
        return [one for one in wraps if one.wrapped_by not in self._others], [one for one in wraps if one.wrapped_by in self._others]

    def _unwrapped(self, application_id: str, key_id: str, wraps: Collection[WrappedKey]) -> DataKey:
        """By the first of these that one of the key-encryption keys has wrapped: others may be gone by now."""
        usable = {one.name: one for _, one in self._opened}
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
        raise unavailable(
            key_id, failed.reason if failed is not None else f"it is wrapped by {next(iter(wraps)).wrapped_by[:300]}, {problems}"
        )

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
        self._store(application_id, key, self._first)
        self._found[application_id, key_id] = key
        try:
            if self.second is not None:
                self._store(application_id, key, self.second)
        except RecoveryError as error:
            # A savepoint in one place is better than none. What fills the second place makes up for it.
            LOGGER.warning("the key of the second place has not wrapped the data key %s: %s", key_id, error.reason)
        return key

    def _store(self, application_id: str, key: DataKey, by: KeyEncryption) -> None:
        """Store a data key as the next of its forms."""
        wrapped = self._wrapped(by, bound(key.secret, application_id, key.key_id))
        number = max((int(one[-_DIGITS - 5 : -5]) for one in self._entries(application_id, key.key_id)), default=0) + 1
        if number >= 10**_DIGITS:
            where = Layout(application_id).wrapped_key(key.key_id, number - 1)
            raise Damaged(f"no form of a data key can come behind {where}", next_step="remove it, and find out who wrote it", key=where)
        stored = WrappedKey(
            format_version=1,
            application_id=application_id,
            key_id=key.key_id,
            wrapped_by=by.name,
            version=wrapped.version,
            wrapped=base64.b64encode(wrapped.data).decode(),
            at=int(self._clock() * 1000),
        )
        create_value(self._repository, Layout(application_id).wrapped_key(key.key_id, number), stored, most_bytes=_MOST_BYTES)

    def _wrapped(self, by: KeyEncryption, plain: bytes) -> Wrapped:
        wrapped = by.wrap(plain)
        # Before anything is encrypted with it: a right to encrypt alone would lock the records away.
        if by.unwrap(wrapped) != plain:
            raise unavailable("of today", f"{by.name} does not give back what it has wrapped")
        return wrapped

    @cached_property
    def _first(self) -> KeyEncryption:
        if not self._access.places:
            raise unavailable("of today", "this process was given no key-encryption key")
        return opened(self._access.places[0])

    @cached_property
    def second(self) -> KeyEncryption | None:
        """The key of the other place, None where that has none of its own. Raises what opening it raises."""
        place = next((one for one in self._access.places if one.mirror != self._access.places[0].mirror), None)
        return None if place is None else opened(place)

    @property
    def has_second(self) -> bool:
        """True where the other place has a key of its own, whether it can be opened or not."""
        return any(one.mirror != self._access.places[0].mirror for one in self._access.places)

    @cached_property
    def _others(self) -> frozenset[str]:
        """Names of the keys of the other place. One that is named for both is this one's."""
        own, others = (
            frozenset(one.name for place, one in self._opened if (place.mirror == self._access.places[0].mirror) is this)
            for this in (True, False)
        )
        return others - own

    @cached_property
    def _opened(self) -> list[tuple[KeyPlace, KeyEncryption]]:
        found = []
        for place in self._access.places:
            try:
                found.append((place, opened(place)))
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
