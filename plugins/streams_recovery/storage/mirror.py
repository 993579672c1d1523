"""Copies single objects from one repository to another one, as they are stored, with their seals, and proves each by what is read there afterwards."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, BinaryIO, Final

from streams_recovery.core.codec import MOST_BYTES_OF_ENTRY
from streams_recovery.core.errors import ConfigInvalid, Damaged, NotFound, Refused, RepositoryUnavailable
from streams_recovery.core.repository.layout import Layout, overlap
from streams_recovery.core.repository.mirror import MirroredObject
from streams_recovery.core.scratch import scratch
from streams_recovery.storage.repository import AlreadyExists, Repository

_PIECE: Final = 8 << 20


def copy_object(first: Repository, other: Repository, one: MirroredObject) -> None:
    """Create an object in ``other`` with the bytes of ``first``, and read it there. One that is there by now has to be the same. Raises ``NotFound`` where the
    first place has it no more, and ``Damaged`` where its bytes are not what was recorded, in either place. Neither repository may have keys of seals: bytes
    are taken as they are.
    """
    if one.bytes <= _PIECE:
        with first.open(one.key, size=one.bytes) as source:
            data = source.read()
        digest = hashlib.sha256(data).hexdigest()
        _require(digest, one, first)
        _created(lambda: other.create(one.key, data))
    else:
        with scratch() as directory, (directory / "object").open("w+b") as copied:
            with first.open(one.key, size=one.bytes) as source:
                digest = _digest(source, copied)
            copied.flush()
            _require(digest, one, first)
            _created(lambda: other.put_file(one.key, Path(copied.name)))
    _prove(other, one, digest)


def prove_object(first: Repository, other: Repository, one: MirroredObject) -> None:
    """Read an object of ``other``, and compare it with what was recorded of it, or with the first place where nothing was. Raises as ``copy_object`` does."""
    expected = one.sha256
    if expected is None:
        with first.open(one.key, size=one.bytes) as source:
            expected = _digest(source)
    _prove(other, one, expected)


def require_apart(first: Repository, other: Repository, application_id: str, *, asks: bool) -> None:
    """Raise ``ConfigInvalid`` where both are one place under two names: a link to a directory, or another address of one bucket. A bucket shows by its probe,
    which no two places share, and which is written where ``asks`` is set. It also has to do then what a repository needs: see ``require_suitable``.
    """
    same = overlap(first.location, other.location) is not None
    if not same and first.location.backend == other.location.backend == "filesystem":
        roots = [Path(str(one.location.path)).resolve() for one in (first, other)]
        same = roots[0] in (roots[1], *roots[1].parents) or roots[1] in roots[0].parents
    if not same and asks:
        other.require_suitable(application_id, whole=False)
    if not same and "filesystem" not in (first.location.backend, other.location.backend):
        probes = [_mark(one, Layout(application_id).probe) for one in (first, other)]
        same = probes[0] is not None and probes[0] == probes[1]
    if same:
        raise ConfigInvalid(
            f"storage.mirror: {other.location} is the place of the repository, {first.location}, by another name",
            next_step="name a second place: another bucket, best in another region or cloud, or a directory on another machine",
            place=str(other.location),
        )


def require_paired(first: Repository, other: Repository, layout: Layout, *, back: bool, marks: bool) -> None:
    """Raise ``Refused`` where ``other`` holds another repository of this application id, or was filled from here and is empty now: that is a directory that is
    not mounted, or a place that somebody has emptied. On the way ``back`` a target without any mark is a new one. With ``marks`` both places are marked.
    """
    here, there = (_mark(one, layout.repository_id) for one in (first, other))
    note = _note(layout, other)
    if there is not None and there != here and not (back and here is None):
        raise Refused(
            f"{other.location} holds another repository of {layout.application_id}"
            + (" than" if here is not None else ", or a copy of one that was lost here: no mark says that it is one of")
            + f" {first.location}",
            next_step="give each repository a second place of its own, by another bucket, prefix or path; where this one was lost and is new, fill it from "
            "its second place before anything else, by `mirror --from mirror`",
            place=str(other.location),
        )
    if there is None and not back and _mark(first, note) is not None:
        raise Refused(
            f"{other.location} was filled from {first.location}, and is empty now: it is not mounted, or somebody has emptied it",
            next_step="mount it; in place of one that was emptied write another prefix or path into storage.mirror, which is filled anew",
            place=str(other.location),
        )
    if not marks:
        return
    mark = here or there or json.dumps({"repository": uuid.uuid4().hex}).encode()
    for place, known in ((first, here), (other, there)):
        if known is None:
            _created(partial(place.create, layout.repository_id, mark))
    if _mark(first, layout.repository_id) != _mark(other, layout.repository_id):
        raise RepositoryUnavailable(f"{first.location} and {other.location} are being marked by another run", next_step="run again")
    if not back:
        _created(lambda: first.create(note, json.dumps({"place": str(other.location)}).encode()))


def require_filled(first: Repository, other: Repository, layout: Layout) -> None:
    """Raise ``Refused`` unless the marks in both say that ``other`` was filled from ``first``: nothing is removed in a place that may be another one's."""
    mark = _mark(first, layout.repository_id)
    if mark is None or mark != _mark(other, layout.repository_id) or _mark(first, _note(layout, other)) is None:
        raise Refused(
            f"no mark in {first.location} says that {other.location} was filled from there: nothing is removed",
            next_step="see whether both are mounted, and name the places that belong together; `mirror` marks them",
            place=str(other.location),
        )


def _note(layout: Layout, other: Repository) -> str:
    return layout.filled(hashlib.sha256(str(other.location).encode()).hexdigest()[:16])


def _mark(repository: Repository, key: str) -> bytes | None:
    try:
        return repository.get(key, most_bytes=MOST_BYTES_OF_ENTRY)
    except NotFound:
        return None


def note_proven(other: Repository, layout: Layout, savepoint_id: str) -> None:
    """Write down, in a second place, that a savepoint was proven there with all that it names."""
    _created(lambda: other.create(layout.proven(savepoint_id), json.dumps({"savepoint_id": savepoint_id}).encode()))


def _created(create: Callable[[], None]) -> None:
    try:
        create()
    except AlreadyExists:
        # Another run has copied it meanwhile. What is read there tells.
        return


def _require(digest: str, one: MirroredObject, place: Repository) -> None:
    if one.sha256 not in (None, digest):
        raise Damaged(
            f"{one.key} in {place.location} is not what was written: its SHA-256 is {digest}, not {one.sha256}",
            next_step="run `streams-recovery verify --level full`; nothing of it was copied",
            key=one.key,
        )


def _prove(other: Repository, one: MirroredObject, expected: str) -> None:
    size = other.size(one.key)
    if size is not None and size == one.bytes:
        with other.open(one.key, size=size) as stored:
            if _digest(stored) == expected:
                return
    raise Damaged(
        f"{one.key} is in the second place {other.location} with other bytes than in the first one"
        if size is not None
        else f"{one.key} was copied to the second place {other.location}, and is not there",
        next_step="find out who writes there, and remove this object there; the next run copies it again. Nothing is overwritten",
        key=one.key,
    )


def _digest(source: BinaryIO, copied: IO[bytes] | None = None) -> str:
    seen = hashlib.sha256()
    while piece := source.read(_PIECE):
        seen.update(piece)
        if copied is not None:
            copied.write(piece)
    return seen.hexdigest()
