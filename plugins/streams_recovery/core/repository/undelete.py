"""Which older versions of a bucket's objects have to come back, so that nothing is missing from a repository and nothing was written over."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from streams_recovery.core.repository.layout import Layout


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


class Harm(StrEnum):
    """What became of an object since it was written."""

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
    """Prefixes of what does not come back. Who is at work is what locks, holds, held applications and run artifacts say now: an old lock is nobody's. Of
    the status, of what people were told and of inspections this software itself deletes all but the newest.
    """
    at_work = (layout.locks, layout.archiving.locks, layout.holds, layout.quiesce_records, layout.artifacts)
    return (*at_work, layout.status, layout.alerts, layout.inspections, layout.outputs_compared)


def in_order(layout: Layout, found: Iterable[Undelete]) -> tuple[Undelete, ...]:
    """Those that come back, by key; last what makes a savepoint exist, so that everything that it names is there before."""
    last = (layout.published_prefix, layout.savepoints, layout.safety.savepoints)
    left = left_alone(layout)

    def rank(one: Undelete) -> int:
        return next((number for number, prefix in enumerate(last, 1) if one.key.startswith(prefix)), 0)

    return tuple(sorted((one for one in found if not one.key.startswith(left)), key=lambda one: (rank(one), one.key)))


def to_undelete(versions: Iterable[ObjectVersion]) -> tuple[Undelete, ...]:
    """The first version of every object whose latest one is something else, by key. Versions of one key come newest first, as S3 lists them.

    Every object of a repository is created once and never changed, so the version that was written first is the true one. No time is looked
    at: servers differ in which one they give to an older version.
    """
    first: dict[str, ObjectVersion] = {}
    now: dict[str, ObjectVersion] = {}
    for version in versions:
        if version.latest:
            now[version.key] = version
        if not version.deleted:
            first[version.key] = version
    found = []
    for key, was in sorted(first.items()):
        is_now = now.get(key)
        if is_now is None or is_now.deleted:
            found.append(Undelete(key=key, version_id=was.version_id, bytes=was.bytes, harm=Harm.DELETED))
        elif (is_now.etag, is_now.bytes) != (was.etag, was.bytes):
            found.append(Undelete(key=key, version_id=was.version_id, bytes=was.bytes, harm=Harm.REPLACED))
    return tuple(found)
