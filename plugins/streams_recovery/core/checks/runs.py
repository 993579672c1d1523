"""Checks of what a run meets: members that belong to no instance, another writer of the outputs, disks without room, topics with other partitions, an
application that cannot be paused, and a plan that is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from streams_recovery.core.checks.check import CatalogueCheck, CheckPlace, Found, Occasion, Severity
from streams_recovery.core.group_members import Roll
from streams_recovery.core.remedies.groups import know_members, see_members
from streams_recovery.core.remedies.remedy import KafkaTools, Remedy
from streams_recovery.core.remedies.restores import (
    deploy_its_version,
    find_writer_of_log,
    leave_one_writer,
    make_room_there,
    match_partitions,
    roll_clone_back,
)
from streams_recovery.core.remedies.savepoints import choose_hold, make_room_for_copy, make_room_for_spark, save_after_partitions
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.ownership import OwnershipEntry, Role
from streams_recovery.core.words import first_names, size

_EITHER: Final = (Severity.CRITICAL, Severity.WARNING)
# What is left of a disk that is nearly full.
_TIGHT: Final = 2
_SPARK_ROOM: Final = 1 << 30
# Files of the repository are compressed, logs often are not: what compression hardly ever reaches.
_SQUEEZED: Final = 10
# Reasons in a text.
_NAMED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberFacts:
    """The ``roll`` of a group. ``name`` is that of the configuration. ``refused``: nothing is stopped while strangers are there. ``state`` is that of a group
    that is not empty, where no instance runs; else empty.
    """

    name: str
    group_id: str
    roll: Roll
    refused: bool
    state: str = ""

    @property
    def problem(self) -> str:
        """The fault in words. A group may be in use while the cluster names no member of it."""
        nameless = f"the group {self.group_id} is {self.state}, the cluster names no member of it, and no instance is known to run"
        return self.roll.problem(self.group_id) or (nameless if self.state else "")


def _strangers(facts: MemberFacts, place: CheckPlace) -> Iterator[Found]:
    if problem := facts.problem:
        look = see_members(facts.name, facts.group_id).commands
        yield Found(
            severity=Severity.CRITICAL if facts.refused else Severity.WARNING,
            text=f"{problem}: what is not known is not held or stopped, and its local state is not wiped, which Kafka Streams takes up without an error",
            remedy=know_members(*look) if place.asked is not Occasion.LOOK else know_members(),
            commands=look if place.asked is Occasion.LOOK else (),
            numbers={"members": float(sum(len(process.members) for process in facts.roll.strangers))},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterFacts:
    """The ``last`` entry of an application's log of ownership, and the application ``source`` of the state that it is to get. ``against`` are facts that
    contradict the entry.
    """

    last: OwnershipEntry
    application_id: str
    source: str
    against: tuple[str, ...]


def _other_writer(facts: WriterFacts, _place: CheckPlace) -> Iterator[Found]:
    """An entry that is contradicted blocks a restore only if both applications might write."""
    last, me = facts.last, facts.application_id
    if facts.against:
        retired = last.role is Role.RETIRED
        yield Found(
            severity=Severity.WARNING if retired else Severity.CRITICAL,
            text=f"{me} is on record as {last.role} towards {last.other} (run {last.run}), which is not so: {'; '.join(facts.against)}",
            remedy=find_writer_of_log(Layout(me).ownership) if retired else leave_one_writer(me),
        )
    elif last.role is Role.RETIRED:
        yield _handed_over(f"{me} transferred its outputs to {last.other} and cannot be started")
    elif last.role is Role.LIVE and facts.source == last.other:
        yield _handed_over(f"{me} writes the outputs of {last.other}: a state of that one would take back what it has done since")


def _handed_over(text: str) -> Found:
    return Found(severity=Severity.CRITICAL, text=text, remedy=roll_clone_back())


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The ``free`` bytes of disks, and how many are ``enough``. ``refused``: it cannot do with so few. ``text`` says whose they are and what needs them,
    ``disk`` is the name of the one disk that it is about.
    """

    text: str
    free: int
    enough: float
    refused: bool = False
    remedy: Remedy | None = None
    disk: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def for_copy(cls, needed: int, free: int, *, first: bool) -> Room:
        """Of the repository's disk, for a copy of everything. ``needed`` are the bytes that one replica has of what is archived. A savepoint that is not the
        ``first`` copies what is new, and everything from time to time.
        """
        return cls(
            text=f"all that is archived has about {size(needed)} in its logs, and less when it is compressed; the disk of the repository has "
            f"{size(free)} free",
            free=free,
            enough=needed * _TIGHT,
            refused=first and needed > free * _SQUEEZED,
            remedy=make_room_for_copy(),
        )

    @classmethod
    def for_spark(cls, directory: str, free: int, *, setting: str) -> Room:
        """Of the disk on which Spark keeps what does not fit into memory. ``setting`` names that disk, or may."""
        text = f"{directory}, where Spark keeps what does not fit into memory, has {size(free)} free"
        return cls(text=text, free=free, enough=_SPARK_ROOM, remedy=make_room_for_spark(setting))

    @classmethod
    def for_topics(cls, needed: int, free: int) -> Room:
        """Of all brokers, for what a restore makes there."""
        text = f"a restore writes about {size(needed)} there, replicas included, and the disks of the brokers have {size(free)} free"
        return cls(text=text, free=free, enough=needed * _TIGHT, refused=needed > free, remedy=make_room_there())

    @classmethod
    def of_disk(cls, name: str, free: int, total: int, share: float) -> Room:
        """Of any disk that the application fills: a ``share`` of it is to be free."""
        numbers = {"free_bytes": float(free), "total_bytes": float(total), "limit": share}
        text = f"the disk of {name} has {size(free)} free of {size(total)}"
        return cls(text=text, free=free, enough=share * total, disk=name, numbers=numbers)


def _too_little_room(room: Room, _place: CheckPlace) -> Iterator[Found]:
    if room.free < room.enough:
        severity = Severity.CRITICAL if room.refused else Severity.WARNING
        yield Found(severity=severity, text=room.text, subject=room.disk, remedy=room.remedy, numbers=room.numbers)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """How many partitions topics have ``there`` and in a savepoint. Before a restore these are internal topics, which may be replaced when ``replacing``; or
    inputs of another site, with the ``tools`` of its cluster. Those that are ``unwritten`` never had a record there.
    """

    there: Mapping[str, int]
    saved: Mapping[str, int]
    savepoint_id: str = ""
    replacing: bool = False
    tools: KafkaTools | None = None
    unwritten: frozenset[str] = frozenset()

    @property
    def other(self) -> dict[str, tuple[int, int]]:
        """Topics that have another number there, with that and the savepoint's."""
        return {name: (self.there[name], saved) for name, saved in self.saved.items() if self.there.get(name, saved) != saved}


def _partitions(facts: PartitionFacts, place: CheckPlace) -> Iterator[Found]:
    if place.asked is Occasion.SAVEPOINT:
        yield from _repartitioned(facts)
        return
    for name, (there, saved) in facts.other.items():
        if facts.tools is None:
            yield Found(
                severity=Severity.WARNING if facts.replacing else Severity.CRITICAL,
                text=f"internal topic {name} has {there} partitions, {saved} in savepoint {facts.savepoint_id}; "
                "the application that made it would stop at the restored one with `Existing internal topic has invalid partitions`",
                remedy=deploy_its_version(),
            )
        else:
            yield Found(
                severity=Severity.CRITICAL,
                text=f"{name} has {there} partitions there and {saved} in the savepoint, so keys would go to other tasks than those that have their state",
                remedy=match_partitions(facts.tools, name, there=there, saved=saved, written=name not in facts.unwritten),
            )


def _repartitioned(facts: PartitionFacts) -> Iterator[Found]:
    if facts.other:
        named = first_names([f"{name} ({saved} partitions, now {there})" for name, (there, saved) in facts.other.items()])
        yield Found(
            severity=Severity.WARNING,
            text=f"inputs have other partitions than in {facts.savepoint_id}: {named}. No savepoint up to {facts.savepoint_id} can be restored beside them any "
            "more: their keys are in other partitions than their state",
            remedy=save_after_partitions(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseFacts:
    """The reason why an application cannot be paused, None if it can be."""

    application_id: str
    no_pause_because: str | None


def _stopped(facts: PauseFacts, _place: CheckPlace) -> Iterator[Found]:
    if facts.no_pause_because is not None:
        yield Found(
            severity=Severity.WARNING,
            text=f"{facts.application_id} is closed and started again for every savepoint, because it cannot be paused: {facts.no_pause_because}",
            remedy=choose_hold(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusals:
    """Reasons of the planner to refuse a restore. ``what`` begins the sentence that has them, and ``commands`` show more."""

    why: tuple[str, ...]
    what: str = ""
    remedy: Remedy | None = None
    commands: tuple[str, ...] = ()


def _refused(facts: Refusals, _place: CheckPlace) -> Iterator[Found]:
    if facts.why:
        more = f"; and {len(facts.why) - _NAMED} more" if len(facts.why) > _NAMED else ""
        yield Found(
            severity=Severity.CRITICAL,
            text=f"{facts.what}{'; '.join(facts.why[:_NAMED])}{more}",
            remedy=facts.remedy,
            commands=facts.commands,
            numbers={"problems": float(len(facts.why))},
        )


def _places(kind: str, *asked: Occasion) -> tuple[CheckPlace, ...]:
    return tuple(CheckPlace(asked=one, kind=kind) for one in asked)


_RUNS: Final = (Occasion.SAVEPOINT, Occasion.RESTORE)
STRANGERS: Final = "instances"
MEMBERS: Final = CatalogueCheck(
    "Does each member of the group belong to a known instance?",
    _strangers,
    (*_places(STRANGERS, *_RUNS), CheckPlace(asked=Occasion.LOOK, kind="group-members-unknown", severity=Severity.WARNING)),
    severities=_EITHER,
    apart="A look asks only while no instance runs: it does not ask instances for the names of their clients, and a member that died stays until its session "
    "ends.",
)
WRITER: Final = CatalogueCheck(
    "May the application write its outputs?",
    _other_writer,
    _places("outputs-transferred", Occasion.RESTORE),
    severities=_EITHER,
    apart="A look compares the logs of both applications (outputs-unowned, outputs-owned-twice, retired-runs). It does not ask the other one's cluster, so it "
    "refuses nothing by what a log says alone.",
)
ROOM: Final = CatalogueCheck(
    "Is there room on the disks?",
    _too_little_room,
    (*_places("space", *_RUNS), CheckPlace(asked=Occasion.LOOK, kind="disk-space-low", severity=Severity.WARNING)),
    severities=_EITHER,
    apart="Before a run enough is what that run writes. A look knows no run: enough is a share of the disk there, and how fast it fills is another question "
    "(disk-full-soon).",
)
PARTITIONS: Final = CatalogueCheck(
    "Have topics as many partitions as in the savepoint?",
    _partitions,
    (CheckPlace(asked=Occasion.SAVEPOINT, kind="partitions", severity=Severity.WARNING), *_places("partitions", Occasion.RESTORE)),
    severities=_EITHER,
    apart="In a look it is among the reasons of restore-refused.",
)
HOLD: Final = CatalogueCheck(
    "Is the application stopped for each savepoint although the configuration does not say so?",
    _stopped,
    _places("hold", Occasion.SAVEPOINT),
    apart="It cannot be paused with standby replicas (KAFKA-20731), and the configuration tells these. Tasks are warmed up only after a restart: of that "
    "recovery-lag advises.",
)
REFUSED: Final = CatalogueCheck(
    "Would the plan of a restore be refused?",
    _refused,
    (*_places("plan", Occasion.RESTORE), CheckPlace(asked=Occasion.LOOK, kind="restore-refused")),
    severities=(Severity.CRITICAL,),
    apart="The planner decides in both places. Before a restore the whole plan is made. A look asks for what topics on the cluster decide: it reads no list of "
    "files.",
)
CHECKS: Final = (MEMBERS, WRITER, ROOM, PARTITIONS, HOLD, REFUSED)
