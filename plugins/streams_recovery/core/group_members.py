"""Members of an application's group, and the instances that account for them.

Kafka Streams names the consumer of each thread ``<client.id>-StreamThread-<number>-consumer``; unless one is configured, the client id is
``<application.id>-<process uuid>``. So the client ids of members tell processes apart. A process belongs to an instance

1. if the instance says that this is its client id;
2. else if its host is that of the instance, as far as there are not more processes than instances at that host;
3. else if there are not more of such processes than of such instances.

A static member (``group.instance.id``) that joins again before its session has ended keeps, at the broker, the client id and the host of the process that
joined first by that id. So static members are also accounted for by an instance that tells its names while no member has one of them, and by the instance
that other static members of the same process belong to: Kafka Streams calls them ``<group.instance.id>-<number>``.

All other processes are strangers: they run elsewhere, or they have died and their sessions have not ended. A member may be removed from the group only if an
instance accounted for its process while that ran, and the process is proven gone since. A removed member that still lives joins again after a heartbeat, and
goes on.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from streams_recovery.core.errors import ApplicationRunning
from streams_recovery.core.kafka_types import GroupMember
from streams_recovery.core.words import first_names

# Kafka's own default of heartbeat.interval.ms, and the names under which a Kafka Streams application may set it for these consumers.
_HEARTBEAT_MS: Final = 3_000
_HEARTBEATS: Final = ("main.consumer.heartbeat.interval.ms", "consumer.heartbeat.interval.ms", "heartbeat.interval.ms")
# For the answer to a heartbeat to come, and the request to join to go out.
_JOIN_SECONDS: Final = 2.0
_THREAD: Final = "-StreamThread-"
# Words of KafkaStreams.State in which an instance has no member in the group, or none that lives.
NOT_IN_GROUP: Final = ("CREATED", "NOT_RUNNING", "ERROR")


class UnknownMembers(ApplicationRunning):
    """Raised when a group has members of processes that no known instance accounts for. ``facts`` have the ``group`` and the ``members``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownInstance:
    """An instance that runs, or may run. ``client_ids`` are what it says its consumers or its Kafka Streams are called, ``host`` is the address that the
    brokers see it at; each is empty when unknown. ``joins`` is False for an instance that cannot have a member in the group now; it accounts only for members
    that its earlier run has left at its ``host``.
    """

    name: str
    client_ids: tuple[str, ...] = ()
    host: str = ""
    joins: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberProcess:
    """Members with one client id before the number of the thread. ``count`` is how many processes these are at least: in one process no two threads have the
    same number.
    """

    name: str
    members: tuple[GroupMember, ...]
    count: int

    @property
    def hosts(self) -> frozenset[str]:
        """The hosts of its members."""
        return frozenset(_host(member.host) for member in self.members)

    @property
    def static_names(self) -> frozenset[str]:
        """What ``group.instance.id`` is in the processes of its members; empty unless all of them are static threads of Kafka Streams."""
        if not all(member.group_instance_id and _THREAD in member.client_id for member in self.members):
            return frozenset()
        ids = [str(member.group_instance_id) for member in self.members]
        return frozenset(one.rpartition("-")[0] or one for one in ids)

    def __str__(self) -> str:
        return f"{self.name} at {', '.join(sorted(self.hosts))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Roll:
    """The members of a group by what accounts for them. ``accounted`` has, by the name of each process that belongs to the known instances, how many processes
    have it. ``strangers`` are the processes among which one at least belongs to none; ``excess`` is how many more processes than instances there are.
    """

    accounted: Mapping[str, int]
    strangers: tuple[MemberProcess, ...] = ()
    excess: int = 0
    instances: tuple[str, ...] = ()

    def evictable(self, members: Iterable[GroupMember]) -> tuple[GroupMember, ...]:
        """Those of ``members`` that may be removed now that every known instance is proven gone. None of a process that is there more often than it was."""
        return tuple(
            member for process in processes(members) if process.count <= self.accounted.get(process.name, 0) for member in process.members
        )

    def problem(self, group_id: str) -> str:
        """The fault of the group in words, empty when every member is accounted for."""
        if not self.strangers:
            return ""
        known = (
            f"{len(self.instances)} of its instances are known to run: {first_names(self.instances)}"
            if self.instances
            else "no instance is known to run"
        )
        one = sum(process.count for process in self.strangers) == self.excess
        which = "" if one else f" {self.excess} of"
        return (
            f"the group {group_id} has members that no known instance accounts for,{which} {'; '.join(map(str, self.strangers))}; {known}"
        )

    def refusal(self, group_id: str, *, before: str) -> UnknownMembers:
        """The error for a group with strangers. ``before`` says what was not done."""
        return UnknownMembers(
            f"{self.problem(group_id)}; {before}",
            next_step=WHAT_TO_DO,
            group=group_id,
            members=", ".join(f"{member.client_id} at {_host(member.host)}" for process in self.strangers for member in process.members),
        )


WHAT_TO_DO: Final = (
    "stop what runs there, or add it to the instances of this configuration; where several Kafka Streams clients run in one instance, let it report their "
    "names (client_ids); if it died, try again once its session has timed out"
)


def state_by_group(state: str, members: Iterable[GroupMember], instances: int) -> str:
    """What so many running instances do that say nothing themselves, in the words of KafkaStreams.State. They are ``RUNNING`` when all of them have joined and
    the group has come to rest. A member joins before its stores are read from their changelogs: that these are read shows only when input is processed.
    """
    joined = sum(process.count for process in processes(members))
    if not joined:
        return "CREATED"
    return "RUNNING" if state == "Stable" and joined >= instances else "REBALANCING"


def roll(members: Iterable[GroupMember], instances: Sequence[KnownInstance], *, threads: re.Pattern[str] | None) -> Roll:
    """Attribute members to instances. ``threads`` is in the client ids of the application's own members, None if client ids do not tell own members from
    others.
    """
    by_name = Counter(name for one in instances for name in {process_name(client_id) for client_id in one.client_ids})
    accounted: dict[str, int] = {}
    strangers: list[MemberProcess] = []
    left: list[MemberProcess] = []
    excess = 0
    found_processes = processes(members)
    for process in found_processes:
        foreign = threads is not None and not all(threads.search(member.client_id) for member in process.members)
        if foreign:
            strangers.append(process)
            excess += process.count
        elif by_name[process.name] >= process.count:
            accounted[process.name] = process.count
        else:
            left.append(process)
    left, unseen = _static_again(left, found_processes, accounted, instances)
    silent = [one for one in instances if not one.client_ids and (one.joins or one.host)]
    at: dict[str, list[KnownInstance]] = defaultdict(list)
    for one in silent:
        if one.host:
            at[one.host].append(one)
    groups: list[tuple[list[MemberProcess], int]] = []
    for host, there in at.items():
        here = [process for process in left if process.hosts == {host}]
        if here:
            # What is at the host of an instance is its own or a stranger, and an instance whose host shows does not account for one elsewhere.
            groups.append((here, len(there)))
            left = [process for process in left if process not in here]
            silent = [one for one in silent if one not in there]
    # A stranger elsewhere is not the member of an instance whose program does not run.
    again = sum(process.count for process in left if process.static_names)
    groups.append((left, sum(one.joins for one in silent) + min(unseen, again)))
    for found, room in groups:
        # Instances that share a client.id, of which some tell it: the others are among those that tell nothing.
        count = sum(process.count - by_name[process.name] for process in found)
        if count <= room:
            accounted |= {process.name: process.count for process in found}
        else:
            strangers.extend(found)
            excess += count - room
    return Roll(accounted=accounted, strangers=tuple(strangers), excess=excess, instances=tuple(one.name for one in instances))


def _static_again(
    left: list[MemberProcess], found: Iterable[MemberProcess], accounted: dict[str, int], instances: Iterable[KnownInstance]
) -> tuple[list[MemberProcess], int]:
    """The processes of ``left`` without those that belong to a static process that is ``accounted`` for: these are added there. And the number of instances
    that tell names that no member has.
    """
    known: frozenset[str] = frozenset().union(*(process.static_names for process in found if process.name in accounted))
    same = {process.name: process.count for process in left if process.static_names and process.static_names <= known}
    accounted |= same
    shown = {process.name for process in found}
    unseen = sum(1 for one in instances if one.joins and one.client_ids and shown.isdisjoint(process_name(name) for name in one.client_ids))
    return [process for process in left if process.name not in same], unseen


def processes(members: Iterable[GroupMember]) -> tuple[MemberProcess, ...]:
    """The processes that these members show."""
    found: dict[str, list[GroupMember]] = defaultdict(list)
    for member in members:
        found[process_name(member.client_id)].append(member)
    return tuple(
        MemberProcess(name=name, members=tuple(some), count=max(Counter(member.client_id for member in some).values()))
        for name, some in sorted(found.items())
    )


def process_name(client_id: str) -> str:
    """The part of a client id that all threads of one process have. A client id of anything else is whole."""
    return client_id.rsplit(_THREAD, 1)[0]


def rejoin_seconds(streams_config: Mapping[str, str], session_timeout_ms: int) -> float:
    """How long a group must stay empty after members were removed: one that lives joins again after its next heartbeat."""
    configured = next((streams_config[name] for name in _HEARTBEATS if name in streams_config), "")
    heartbeat = int(configured) if configured.isdecimal() else _HEARTBEAT_MS
    return min(heartbeat, session_timeout_ms) / 1000 + _JOIN_SECONDS


def _host(host: str) -> str:
    # A broker writes an address as Java does, with the name before the slash.
    return host.rpartition("/")[2]
