"""Members of a group, and who accounts for them: nobody is removed whose process was not known while it ran, and a stranger is never overlooked."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams_recovery.core.application_kind import ApplicationKind
from streams_recovery.core.group_members import KnownInstance, Roll, processes, rejoin_seconds, roll, state_by_group
from streams_recovery.core.kafka_types import GroupMember

THREADS = ApplicationKind.KAFKA_STREAMS.dialect.members


def threads(process: str, *, count: int = 2, host: str = "/10.0.0.1", run: str = "", static: str | None = None) -> list[GroupMember]:
    return [
        GroupMember(
            member_id=f"{process}{run}-{number}",
            client_id=f"orders-{process}-StreamThread-{number}-consumer",
            host=host,
            group_instance_id=static and f"{static}-{number}",
        )
        for number in range(1, count + 1)
    ]


def known(*names: str, **about: object) -> list[KnownInstance]:
    return [KnownInstance(name=name, **about) for name in names]  # type: ignore[arg-type]


def rolled(members: list[GroupMember], instances: list[KnownInstance], *, pattern: re.Pattern[str] | None = THREADS) -> Roll:
    return roll(members, instances, threads=pattern)


def test_as_many_processes_as_instances_are_accounted_for() -> None:
    found = rolled([*threads("p1"), *threads("p2")], known("one", "two"))
    assert (found.strangers, found.excess, found.problem("orders")) == ((), 0, "")
    assert set(found.accounted) == {"orders-p1", "orders-p2"}


@pytest.mark.fault("F72")
def test_one_process_more_than_instances_is_a_stranger_and_nobody_of_them_may_be_removed() -> None:
    members = [*threads("p1"), *threads("p2", host="/10.0.0.2")]
    found = rolled(members, known("one"))
    assert (found.excess, found.evictable(members)) == (1, ())
    assert found.problem("orders") == (
        "the group orders has members that no known instance accounts for, 1 of orders-p1 at 10.0.0.1; orders-p2 at 10.0.0.2; "
        "1 of its instances are known to run: one"
    )


@pytest.mark.fault("F72")
def test_an_instance_that_tells_its_names_is_told_from_a_stranger() -> None:
    members = [*threads("p1"), *threads("p2")]
    for told in ("orders-p1", "orders-p1-StreamThread-1-consumer"):
        found = rolled(members, known("one", client_ids=(told,)))
        assert [process.name for process in found.strangers] == ["orders-p2"]
        assert found.evictable(members) == tuple(threads("p1"))


@pytest.mark.fault("F72")
def test_an_instance_that_has_no_member_does_not_account_for_a_stranger() -> None:
    for one in (known("one", client_ids=("orders-p1",)), known("one", joins=False), known("one", "two", client_ids=("orders-p1",))):
        assert rolled(threads("p2"), one).excess == 1


@pytest.mark.fault("F72")
def test_members_at_the_host_of_an_instance_are_its_own_and_others_are_not() -> None:
    pods = [KnownInstance(name="orders-0", host="10.0.0.1"), KnownInstance(name="orders-1", host="10.0.0.2")]
    own = threads("p1", host="/10.0.0.1")
    found = rolled([*own, *threads("p2", host="/10.0.0.9")], [pods[0]])
    assert [process.name for process in found.strangers] == ["orders-p2"]
    assert found.evictable(own) == tuple(own)
    assert rolled([*own, *threads("p2", host="broker-side/10.0.0.2")], pods).excess == 0
    assert rolled([*own, *threads("p2", host="/10.0.0.1")], pods).excess == 1, "two at the host of one"
    assert rolled([*threads("p1", host="/192.0.2.1"), *threads("p2", host="/192.0.2.1")], pods).excess == 0, "behind one address"


@pytest.mark.fault("F72")
def test_an_instance_whose_program_does_not_run_accounts_for_what_it_left_at_its_own_address_alone() -> None:
    crashed = known("orders-0", host="10.0.0.1", joins=False)
    left = threads("p1", host="/10.0.0.1")
    assert rolled(left, crashed).evictable(left) == tuple(left)
    assert rolled(threads("p2", host="/10.0.0.9"), crashed).excess == 1
    beside = [*threads("p1", host="/192.0.2.1"), *threads("p2", host="/192.0.2.1")]
    assert rolled(beside, [*crashed, *known("orders-1", host="10.0.0.2")]).excess == 1


@pytest.mark.fault("F72")
def test_the_same_thread_twice_is_two_processes_whatever_their_name_says() -> None:
    twice = [*threads("p1"), *threads("p1", run="again")]
    assert rolled(twice, known("one")).excess == 1
    assert rolled(twice, known("one", client_ids=("orders-p1",))).excess == 1
    assert rolled(twice, known("one", "two")).excess == 0
    before = rolled(threads("p1"), known("one"))
    assert before.evictable(twice) == (), "one of them came later, and nobody can tell which"


@pytest.mark.fault("F72")
def test_static_members_are_removed_like_others_and_only_when_accounted_for() -> None:
    own, other = threads("p1", static="one"), threads("p2", static="two")
    before = rolled(own, known("one"))
    assert before.evictable([*own, *other]) == tuple(own)


@pytest.mark.fault("F103")
def test_a_static_member_that_came_again_has_the_name_and_the_host_that_it_had_first() -> None:
    again = threads("before", static="one", host="/10.0.0.7")
    for now in (known("one", client_ids=("orders-now",)), known("one", host="10.0.0.8"), known("one")):
        found = rolled(again, now)
        assert (found.excess, found.evictable(again)) == (0, tuple(again))
    assert rolled(again, known("one", client_ids=("orders-now",), joins=False)).excess == 1, "what has no member accounts for none"
    one_more = GroupMember(
        member_id="n", client_id="orders-now-StreamThread-3-consumer", host="/10.0.0.8", group_instance_id="one-3", assigned=()
    )
    for instances in (known("one", client_ids=("orders-now",)), [KnownInstance(name="one", host="10.0.0.8", client_ids=("orders-now",))]):
        found = rolled([*again, one_more], instances)
        assert (found.excess, len(found.evictable([*again, one_more]))) == (0, 3), "a thread that it did not have before shows its new name"


@pytest.mark.fault("F103")
def test_a_static_stranger_is_told_from_a_static_member_that_came_again() -> None:
    again, other, third = threads("before", static="one"), threads("p2", static="two"), threads("p3")
    names = known("one", client_ids=("orders-now",))
    for members in ([*again, *other], [*again, *third], threads("p3")):
        found = rolled(members, names)
        assert (found.excess, found.evictable(members)) == (1, ()), [process.name for process in processes(members)]
    shown = known("one", client_ids=("orders-before",))
    found = rolled([*again, *other], shown)
    assert ([process.name for process in found.strangers], found.evictable([*again, *other])) == (["orders-p2"], tuple(again))
    mixed = rolled([*again, *third], [*names, *known("two")])
    assert mixed.excess == 0, "one tells its new name, the other none"
    short = [GroupMember(member_id=n, client_id=f"orders-{n}-StreamThread-1-consumer", host="", group_instance_id=n) for n in "ab"]
    assert rolled(short, known("one", client_ids=("orders-a",))).excess == 1, "ids without a number are no threads of one process"


def test_a_member_that_is_no_thread_of_kafka_streams_is_a_stranger() -> None:
    tool = GroupMember(member_id="m", client_id="console", host="/10.0.0.1", group_instance_id=None)
    assert rolled([*threads("p1"), tool], known("one", "two")).excess == 1


def test_workers_that_all_have_one_client_id_are_counted_by_their_members() -> None:
    workers = [GroupMember(member_id=f"m{n}", client_id="faust-0.11", host="/10.0.0.1", group_instance_id=None) for n in range(2)]
    assert rolled(workers, known("one", "two"), pattern=None).excess == 0
    assert rolled(workers, known("one"), pattern=None).excess == 1


@pytest.mark.fault("F72")
@pytest.mark.parametrize(("runs", "excess"), [(3, 0), (4, 1)])
def test_instances_that_share_a_client_id_are_counted_although_only_some_of_them_tell_it(runs: int, excess: int) -> None:
    """As in a rolling update to a version that tells it."""
    members = [member for run in "abcd"[:runs] for member in threads("shared", count=1, run=run)]
    found = rolled(members, [*known("one", "two", client_ids=("orders-shared",)), *known("three")])
    assert (found.excess, len(found.evictable(members))) == (excess, 0 if excess else 3)


def test_a_group_stays_empty_for_longer_than_a_heartbeat_lasts() -> None:
    assert rejoin_seconds({}, 45_000) == 5
    assert rejoin_seconds({"heartbeat.interval.ms": "9000", "main.consumer.heartbeat.interval.ms": "10000"}, 45_000) == 12
    assert rejoin_seconds({"heartbeat.interval.ms": "soon"}, 1_000) == 3


@dataclass
class World:
    """A group as a broker keeps it: members that live, and members of processes that have died whose sessions last."""

    known: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    ghosts: set[str] = field(default_factory=set)

    def members(self) -> list[GroupMember]:
        return [member for process in sorted(self.known | self.unknown | self.ghosts) for member in threads(process)]


EVENTS = st.lists(
    st.tuples(st.sampled_from(["start", "stranger", "die", "stranger-dies", "sessions-end", "leave"]), st.integers(0, 4)), max_size=12
)


@pytest.mark.fault("F72")
@settings(max_examples=300, deadline=None)
@given(events=EVENTS, later=EVENTS, told=st.booleans(), hosts=st.booleans())
def test_whoever_joins_leaves_or_falls_silent_no_stranger_passes_and_none_is_removed(
    events: list[tuple[str, int]], later: list[tuple[str, int]], told: bool, hosts: bool
) -> None:
    world = World()
    played(world, events, "a")
    instances = [
        KnownInstance(name=name, client_ids=(f"orders-{name}",) if told else (), host="10.0.0.1" if hosts else "")
        for name in sorted(world.known)
    ]
    before = rolled(world.members(), instances)
    assert bool(before.strangers) == bool(world.unknown | world.ghosts), "each known one is in the group, so anybody else is one too many"
    # The known ones are stopped and proven gone. Whatever happens meanwhile, nobody is removed who lives, or of whom nothing is proven.
    proven = set(world.known)
    world.ghosts |= world.known
    world.known.clear()
    played(world, [event for event in later if event[0] != "start"], "b")
    removed = {process.name.removeprefix("orders-") for process in processes(before.evictable(world.members()))}
    assert removed <= proven
    assert not removed & world.unknown
    if not before.strangers:
        assert removed == proven & world.ghosts, "and what is proven gone need not be waited for"


def played(world: World, events: list[tuple[str, int]], when: str) -> None:
    for what, number in events:
        one = f"{when}{number}"
        if what == "start":
            world.known.add(f"k{one}")
        elif what == "stranger":
            world.unknown.add(f"u{one}")
        elif what == "die" and f"k{one}" in world.known:
            world.known.remove(f"k{one}")
            world.ghosts.add(f"k{one}")
        elif what == "stranger-dies" and f"u{one}" in world.unknown:
            world.unknown.remove(f"u{one}")
            world.ghosts.add(f"u{one}")
        elif what == "sessions-end":
            world.ghosts.clear()
        elif what == "leave":
            world.known.discard(f"k{one}")
            world.unknown.discard(f"u{one}")
        # One that started again under its old name is no ghost any more: its members are the same to the broker.
        world.ghosts -= world.known | world.unknown


def member(process: str, thread: int) -> GroupMember:
    client = f"orders-{process}-StreamThread-{thread}-consumer"
    return GroupMember(member_id=client, client_id=client, host="/10.0.0.1", group_instance_id=None)


@pytest.mark.parametrize(
    ("state", "members", "instances", "word"),
    [
        ("Empty", [], 1, "CREATED"),
        ("Stable", [member("a", 1), member("a", 2)], 1, "RUNNING"),
        ("Stable", [member("a", 1), member("a", 2)], 2, "REBALANCING"),
        ("Stable", [member("a", 1), member("b", 1)], 2, "RUNNING"),
        ("PreparingRebalance", [member("a", 1), member("b", 1)], 2, "REBALANCING"),
        ("Reconciling", [member("a", 1)], 1, "REBALANCING"),
    ],
)
def test_instances_that_say_nothing_run_when_all_have_joined(state: str, members: list[GroupMember], instances: int, word: str) -> None:
    assert state_by_group(state, members, instances) == word
