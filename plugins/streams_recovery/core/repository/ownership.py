"""Ownership of the outputs: an application writes them, or its clone. Entries of a numbered log, of which the newest one counts; pure."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.remedies.restores import leave_one_writer

_NAMED = 5


class Role(enum.StrEnum):
    """``live``: it writes the outputs that others read. ``standby``: a clone that writes outputs of its own. ``retired``: its clone writes the outputs, so
    it must not run.
    """

    LIVE = "live"
    STANDBY = "standby"
    RETIRED = "retired"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnershipEntry:
    """One entry of an application's log: what it has been since ``at``, and towards which ``other`` application id. ``offsets`` are its committed offsets on
    its inputs then, ``again`` counts the input whose output comes twice by this step, and ``tail`` the unread records of its repartition topics.
    """

    role: Role
    other: str
    run: str
    at: int
    offsets: dict[TopicPartition, int]
    again: dict[TopicPartition, int]
    tail: dict[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadUpTo:
    """One entry of a clone's log: the old application has processed everything that input below these offsets of the clone had caused."""

    offsets: dict[TopicPartition, int]


def role_of(last: OwnershipEntry | None, *, is_clone: bool) -> Role:
    """The role of an application, by its newest entry. Without one a clone is a standby, and any other application is live."""
    if last is not None:
        return last.role
    return Role.STANDBY if is_clone else Role.LIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterpart:
    """The other application as it is seen beside the log. ``related``: the configuration makes one of the two a clone of the other, or both write the same
    outputs; or there is no configuration to ask. ``moved`` names partitions whose committed offset is another one than when the retired one was retired.
    ``in_use`` names instances of the other that are not gone, members of its group, and a savepoint that has stopped it to start it again. ``last`` is the
    newest entry of its own log. ``child``: the other is configured as a clone of this one.
    """

    other: str
    related: bool
    moved: tuple[str, ...]
    in_use: tuple[str, ...]
    last: OwnershipEntry | None
    child: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """The role of a clone by both logs, ``live`` or ``standby``. ``theirs`` is the entry with which the original application transferred its outputs or took
    them back, None if the outputs never changed hands.
    """

    role: Role
    theirs: OwnershipEntry | None


_ANSWERS = {Role.LIVE: Role.RETIRED, Role.STANDBY: Role.LIVE}


def agreed(own: Iterable[OwnershipEntry], theirs: Iterable[OwnershipEntry], *, application_id: str, of: str) -> Agreed:
    """The role of a clone by its log and that of the application ``of``, oldest entry first. One run writes both when outputs change hands, so an entry counts
    only when the other log has the answer of the same run, and of one run only the first in each log. An entry that is added to one of the two logs changes
    nothing.
    """
    mine, answers = _by_run(own, of), _by_run(theirs, application_id)
    for run, entry in reversed(mine.items()):
        answer = answers.get(run)
        if answer is not None and answer.role is _ANSWERS.get(entry.role):
            return Agreed(role=entry.role, theirs=answer)
    return Agreed(role=Role.STANDBY, theirs=None)


def unanswered(own: Iterable[OwnershipEntry], theirs: Iterable[OwnershipEntry], *, application_id: str, of: str) -> tuple[str, ...]:
    """Runs that retired the application ``of`` in favour of this clone and have no entry in the clone's own log: that entry would make the clone live."""
    mine = _by_run(own, of)
    return tuple(run for run, entry in _by_run(theirs, application_id).items() if entry.role is Role.RETIRED and run not in mine)


def would_count(
    run: str, role: Role, own: Iterable[OwnershipEntry], theirs: Iterable[OwnershipEntry], *, application_id: str, of: str
) -> bool:
    """True when both entries of this run would make the clone ``role``. Not once the run has transferred outputs that another one has transferred since, or was
    taken back.
    """
    entry = OwnershipEntry(role=role, other=of, run=run, at=0, offsets={}, again={}, tail={})
    answer = replace(entry, role=_ANSWERS[role], other=application_id)
    found = agreed([*own, entry], [*theirs, answer], application_id=application_id, of=of)
    return found.role is role and found.theirs is not None and found.theirs.run == run


def _by_run(entries: Iterable[OwnershipEntry], other: str) -> dict[str, OwnershipEntry]:
    found: dict[str, OwnershipEntry] = {}
    for entry in entries:
        if entry.other == other:
            found.setdefault(entry.run, entry)
    return found


def moved_since(entry: OwnershipEntry, committed: Mapping[TopicPartition, int]) -> tuple[str, ...]:
    """Partitions with another offset than in the entry. A partition without an offset by now has not moved: Kafka deletes offsets of an unused group."""
    return tuple(str(tp) for tp, offset in sorted(entry.offsets.items()) if committed.get(tp, offset) != offset)


def start_as(last: OwnershipEntry | None, seen: Counterpart, *, application_id: str, is_clone: bool) -> Role:
    """The role that an application may be started in. A log is data: an entry counts only as far as the configuration, the log of the other application,
    committed offsets and what runs agree with it. Raises ``Refused``: for an application whose clone writes the outputs, because two would write them, each
    once for every record; and wherever two might.
    """
    is_clone = is_clone and not seen.child
    now = role_of(last, is_clone=is_clone)
    if now is Role.RETIRED and last is not None:
        _refuse_retired(last, seen, application_id)
        return Role.STANDBY if is_clone else Role.LIVE
    if now is Role.LIVE and is_clone and last is not None:
        _refuse_live_clone(last, seen, application_id)
    elif now is Role.STANDBY and seen.last is not None and _retired_for(seen.last, application_id) and not seen.moved:
        raise Refused(
            f"{seen.other} transferred its outputs (run {seen.last.run}), and {application_id} is on record as {now}: neither of the two may be started",
            next_step=f"finish the cut-over of {application_id}, or roll it back",
            other=seen.other,
        )
    elif now is Role.LIVE and not is_clone and seen.last is not None and seen.last.role is Role.LIVE and seen.in_use:
        raise _both(application_id, seen, "is on record as live as well, and is in use")
    return now


def contradictions(last: OwnershipEntry, seen: Counterpart, *, application_id: str, is_clone: bool) -> tuple[str, ...]:
    """Facts that contradict the newest entry of an application, empty without one. An entry that is contradicted holds nothing up and opens nothing."""
    if last.role is Role.RETIRED:
        moved = f"it has committed other offsets since ({', '.join(seen.moved[:_NAMED])})"
        return (
            *(() if seen.related else (f"the configuration knows no clone of it with the id {last.other}",)),
            *((moved,) if seen.moved else ()),
        )
    if last.role is Role.LIVE and is_clone and not seen.child:
        return _against_live_clone(last, seen, application_id)
    return ()


def _refuse_retired(last: OwnershipEntry, seen: Counterpart, application_id: str) -> None:
    if not contradictions(last, seen, application_id=application_id, is_clone=False):
        raise Refused(
            f"{application_id} transferred its outputs to {last.other} (run {last.run}), so it must not be started",
            next_step=f"to go back to it, run streams_clone of {last.other} with the step roll_back, or `streams-recovery roll-back` with its configuration",
            other=last.other,
        )
    if seen.in_use and (not seen.related or (seen.last is not None and seen.last.role is Role.LIVE)):
        what = "which is no clone of it in the configuration" if not seen.related else f"and has processed input since ({seen.moved[0]})"
        raise _both(application_id, seen, f"has its outputs by the log, {what}, and is in use")


def _against_live_clone(last: OwnershipEntry, seen: Counterpart, application_id: str) -> tuple[str, ...]:
    against = []
    if last.other != seen.other:
        against.append(f"its log names {last.other}")
    if seen.last is None or not _retired_for(seen.last, application_id):
        against.append(f"the log of {seen.other} does not say that it transferred its outputs to {application_id}")
    return (*against, *against_live(seen.other, seen.moved, seen.in_use))


def against_live(other: str, moved: Sequence[str], in_use: Sequence[str]) -> tuple[str, ...]:
    """Facts about the ``other`` application that contradict that it has left its outputs to its clone."""
    since = f"{other} has committed other offsets since it is said to be retired ({', '.join(moved[:_NAMED])})"
    return (*((since,) if moved else ()), *((f"{other} is in use: {', '.join(in_use[:_NAMED])}",) if in_use else ()))


def _refuse_live_clone(last: OwnershipEntry, seen: Counterpart, application_id: str) -> None:
    against = _against_live_clone(last, seen, application_id)
    if against:
        raise not_live(application_id, seen.other, against)


def not_live(application_id: str, other: str, against: tuple[str, ...]) -> Refused:
    """The error for a clone that the logs call live while facts contradict them: it is unknown in which role it is to be started."""
    return Refused(
        f"{application_id} is on record as the one that writes the outputs of {other}, and cannot be started with them: {'; '.join(against)}",
        next_step=f"find out who wrote the log, and {leave_one_writer(application_id)}",
        other=other,
        against=against,
    )


def _retired_for(entry: OwnershipEntry, application_id: str) -> bool:
    return entry.role is Role.RETIRED and entry.other == application_id


def two_writers(application_id: str, other: str, in_use: tuple[str, ...]) -> Refused:
    """The error for an application that would write the real outputs beside another one of its family that has them by both logs, and is in use."""
    return Refused(
        f"{application_id} was not started: {other} writes the same outputs and is in use ({', '.join(in_use[:_NAMED])})",
        next_step=f"find out which of the two is to write the outputs, stop the other one, and start {application_id} again",
        other=other,
        in_use=in_use,
    )


def _both(application_id: str, seen: Counterpart, why: str) -> Refused:
    return Refused(
        f"{application_id} was not started: {seen.other} {why} ({', '.join(seen.in_use[:_NAMED])}), so both might write the same outputs",
        next_step=f"find out which of the two is to write the outputs, stop the other one, and start {application_id} again",
        other=seen.other,
        in_use=seen.in_use,
    )
