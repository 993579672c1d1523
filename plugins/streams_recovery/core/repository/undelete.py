"""Undelete: older versions of a bucket's objects come back, so that nothing is missing from a repository and nothing was written over. Decisions only."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from streams_recovery.core.repository.layout import Layout

_ENTRY_OF_LOG: Final = re.compile(r"/[0-9]{12}\.json\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectVersion:
    """A version of an object as a bucket lists it. ``deleted`` is true for a delete marker, which has no ``bytes`` and no ``etag``. ``latest``
    is what a reader gets who asks for no version.
    """

    key: str
    version_id: str
    latest: bool
    deleted: bool
    bytes: int
    etag: str


class Harm(enum.StrEnum):
    """The harm to an object since it was written."""

    DELETED = "deleted"
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True, kw_only=True)
class Undelete:
    """One version that has to become the latest again."""

    key: str
    version_id: str
    bytes: int
    harm: Harm


def left_alone(layout: Layout) -> tuple[str, ...]:
    """Prefixes of objects that do not come back. Locks, holds, held applications and run artifacts say which runs work now: an old lock has no owner. This
    software itself deletes all but the newest of statuses, alerts and inspections.
    """
    at_work = (layout.locks, layout.archiving.locks, layout.holds, layout.quiesce_records, layout.artifacts)
    return (*at_work, layout.status, layout.alerts, layout.inspections, layout.outputs_compared)


def in_order(layout: Layout, found: Iterable[Undelete]) -> tuple[Undelete, ...]:
    """Versions that come back, by key. Records of publication and manifests come last, so that all files of a savepoint are there before it exists."""
    last = (layout.published_prefix, layout.savepoints, layout.safety.savepoints)
    left = left_alone(layout)

    def rank(one: Undelete) -> int:
        return next((number for number, prefix in enumerate(last, 1) if one.key.startswith(prefix)), 0)

    return tuple(sorted((one for one in found if not one.key.startswith(left)), key=lambda one: (rank(one), one.key)))


def same_by_tag(one: ObjectVersion, other: ObjectVersion) -> bool:
    """True if two versions of one object have the same content, as far as a listing tells. False may only mean that the store encrypts each with a key of KMS:
    then no two versions have the same tag.
    """
    return (one.etag, one.bytes) == (other.etag, other.bytes)


def began_anew(versions: Iterable[ObjectVersion], same: Callable[[ObjectVersion, ObjectVersion], bool] = same_by_tag) -> frozenset[str]:
    """Logs with an entry that was deleted, and whose number another entry has since: where they are, without the number. An entry that was brought back is the
    ``same`` one.
    """
    entries = [one for one in versions if _ENTRY_OF_LOG.search(one.key)]
    removed = {one.key for one in entries if one.deleted}
    # The newest comes first, so the version that was written first stays.
    first = {one.key: one for one in entries if not one.deleted}
    again = (one for one in entries if one.latest and not one.deleted and one.key in removed)
    return frozenset(one.key.rpartition("/")[0] for one in again if not same(one, first[one.key]))


def to_undelete(
    versions: Iterable[ObjectVersion], same: Callable[[ObjectVersion, ObjectVersion], bool] = same_by_tag
) -> tuple[Undelete, ...]:
    """The first version of every object whose latest one is something else, by key. Versions of one key come newest first, as S3 lists them.

    Every object of a repository is created once and never changed, so the version that was written first is the true one. No time is looked
    at: servers differ in which one they give to an older version.

    Only of a log that was deleted and has begun anew nothing comes back: an older entry before or behind a newer one would say what is no more so.
    """
    versions = list(versions)
    anew = began_anew(versions, same)
    first: dict[str, ObjectVersion] = {}
    now: dict[str, ObjectVersion] = {}
    for version in versions:
        if version.latest:
            now[version.key] = version
        if not version.deleted:
            first[version.key] = version
    found = []
    for key, was in sorted(first.items()):
        if key.rpartition("/")[0] in anew:
            continue
        is_now = now.get(key)
        if is_now is None or is_now.deleted:
            found.append(Undelete(key=key, version_id=was.version_id, bytes=was.bytes, harm=Harm.DELETED))
        elif (is_now.etag, is_now.bytes) != (was.etag, was.bytes):
            found.append(Undelete(key=key, version_id=was.version_id, bytes=was.bytes, harm=Harm.REPLACED))
    return tuple(found)
