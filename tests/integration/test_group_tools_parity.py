"""Kafka's own tools for groups and ours on twin groups of one broker: the same options, the same offsets, the same CSV."""

from __future__ import annotations

import json
import shlex
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from typer.testing import Result

from streams_recovery.core.errors import NotFound, Refused
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.remedies.groups import add_standby, see_members, shorten_session
from streams_recovery.operations.context import RecoveryContext
from tests.support.applications.small import small_application
from tests.support.applications.topic_records import delete_below
from tests.support.kafka.consumers import invoked, member
from tests.support.kafka.streams_member import StreamsMember
from tests.support.programs.kafka_group_tools import GroupTools, group_tools
from tests.support.programs.kafka_tools import done

pytestmark = pytest.mark.kafka
# The records' first second, and how long after the one before each of the others is.
BEGINNING, APART = 1_790_000_000_000, 60_000
STREAM_TIME = "AgAA"


@dataclass(frozen=True)
class Twins:
    """Two groups that are alike: one is for Kafka's tools, the other for ours. The log of ``orders``: partition 0 is [4, 10), 1 is [0, 5), 2 is empty."""

    recovery: RecoveryContext
    directory: Path
    tools: GroupTools
    orders: str
    long: str
    theirs: str
    ours: str

    @property
    def before(self) -> dict[TopicPartition, CommittedOffset | None]:
        """What both have at first, one of them before the beginning of its log."""
        orders = [TopicPartition(self.orders, number) for number in range(3)]
        return {
            orders[0]: CommittedOffset(offset=2, metadata=""),
            orders[1]: CommittedOffset(offset=3, metadata=STREAM_TIME),
            orders[2]: None,
            TopicPartition(self.long, 0): CommittedOffset(offset=6, metadata=STREAM_TIME),
        }

    def reset(self) -> None:
        for group in (self.theirs, self.ours):
            self.recovery.groups.set_offsets(group, self.before)

    def cli(self, *words: str) -> Result:
        return invoked(self.directory, self.recovery, *words)

    def done(self, *words: str) -> Result:
        """A command of ours that has to succeed."""
        result = self.cli(*words)
        if result.exception is not None:
            raise AssertionError(result.output) from result.exception
        return result

    def carried_out(self, *words: str) -> Result:
        """Plan, then approve exactly that."""
        planned = json.loads(self.done(*words, "--plan", "--json").stdout)
        return self.done(*words, "--approve", planned["approve"])

    def offsets(self, group: str) -> dict[TopicPartition, int]:
        return {tp: known.offset for tp, known in self.recovery.groups.last_committed(group).items()}


@pytest.fixture(scope="module")
def tools(bootstrap: str) -> Iterator[GroupTools]:
    with group_tools(bootstrap) as found:
        yield found


@pytest.fixture(scope="module")
def twins(bootstrap: str, tools: GroupTools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    directory = tmp_path_factory.mktemp("twins")
    with small_application(bootstrap, directory) as small:
        recovery, name = small.recovery, uuid.uuid4().hex[:8]
        orders, long = f"o{name}", f"topic-with-a-long-name-{name}"
        for topic, partitions in ((orders, 3), (long, 1)):
            recovery.cluster.create_topic(topic, partitions=partitions, replication_factor=1, config={"retention.ms": "-1"})
        producer = Producer(recovery.connection.client_config())
        for tp, count in ((TopicPartition(orders, 0), 10), (TopicPartition(orders, 1), 5), (TopicPartition(long, 0), 8)):
            for number in range(count):
                producer.produce(tp.topic, b"v", b"k", tp.partition, timestamp=BEGINNING + number * APART)
        assert producer.flush(30) == 0
        delete_below(recovery, TopicPartition(orders, 0), 4)
        yield Twins(recovery, directory, tools, orders, long, f"theirs-{name}", f"ours-{name}")
        for group in (f"theirs-{name}", f"ours-{name}"):
            recovery.groups.wait_empty(group, 30, settle=0)
            recovery.groups.delete(group)
        recovery.cluster.delete_topics([orders, long])


def rows(text: str) -> list[str]:
    """The lines of CSV in what a tool printed."""
    return sorted(line for line in text.splitlines() if line.count(",") >= 2 and not line.startswith((" ", "[")))


def written(twins: Twins, text: str) -> str:
    """A file with offsets, by a path that both read."""
    file = twins.directory / f"{uuid.uuid4().hex}.csv"
    file.write_text(text)
    return str(file)


# These are carried out with each change; the plans of all are compared with each.
EXECUTED = ("earliest", "shift beyond the log")
SCENARIOS = {
    "earliest": "--to-earliest --topic {orders}",
    "latest": "--to-latest --all-topics",
    "latest, where nothing was committed": "--to-latest --topic {orders}:2",
    "current": "--to-current --topic {orders} --topic {long}",
    "current, all": "--to-current --all-topics",
    "an offset": "--to-offset 4 --topic {orders}:0,1 --topic {long}",
    "an offset before the log": "--to-offset 1 --topic {orders}",
    "an offset behind the log": "--to-offset 1000000 --topic {orders} --topic {long}",
    "a shift back": "--shift-by -2 --all-topics",
    "shift beyond the log": "--shift-by -100 --all-topics",
    "a shift forward": "--shift-by 1 --topic {orders}:1",
    "a shift behind the log": "--shift-by 50 --all-topics",
    "a time in UTC": "--to-datetime 2026-09-21T14:15:50.000 --topic {orders} --topic {long}",
    "a time with a zone": "--to-datetime 2026-09-21T16:19:50.000+02:00 --all-topics",
    "a time behind all records": "--to-datetime 2126-01-01T00:00:00.000 --topic {orders}",
    "a time before all records": "--to-datetime 2000-01-01T00:00:00.000Z --topic {orders}",
    "a duration": "--by-duration P9000D --topic {orders}",
    "no duration": "--by-duration PT0S --all-topics",
    "a file": "--from-file {file}",
}


def options(twins: Twins, name: str) -> list[str]:
    file = written(twins, f"{twins.orders},1,2\n{twins.orders},0,1\n{twins.long},0,900\n") if name == "a file" else ""
    return [word.format(orders=twins.orders, long=twins.long, file=file) for word in SCENARIOS[name].split()]


@pytest.mark.deep
def test_the_plan_of_each_scenario_has_the_offsets_of_kafka_s_dry_run(twins: Twins) -> None:
    """As CSV, byte for byte, in any order."""
    twins.reset()
    different = {}
    for name in SCENARIOS:
        given = options(twins, name)
        theirs = rows(twins.tools.consumer("--reset-offsets", "--group", twins.theirs, *given, "--dry-run", "--export"))
        ours = rows(twins.done("groups", "reset", "small", "--group", twins.ours, *given, "--plan", "--export").stdout)
        assert theirs, name
        if theirs != ours:
            different[name] = (theirs, ours)
    assert different == {}
    assert twins.offsets(twins.theirs) == twins.offsets(twins.ours), "nothing was changed"


@pytest.mark.deep
@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in EXECUTED else pytest.mark.deep) for name in SCENARIOS])
def test_what_is_carried_out_leaves_the_same_offsets(twins: Twins, name: str) -> None:
    twins.reset()
    given = options(twins, name)
    twins.tools.consumer("--reset-offsets", "--group", twins.theirs, *given, "--execute")
    before = twins.offsets(twins.ours)
    twins.carried_out("groups", "reset", "small", "--group", twins.ours, *given)
    after = twins.offsets(twins.ours)
    assert after == twins.offsets(twins.theirs)
    kept = {tp: known.metadata for tp, known in twins.recovery.groups.last_committed(twins.ours).items()}
    metadata = {tp: known.metadata for tp, known in twins.before.items() if known is not None}
    assert kept == {tp: metadata[tp] if before.get(tp) == offset else "" for tp, offset in after.items()}


@pytest.mark.deep
def test_what_kafka_refuses_is_refused_here(twins: Twins) -> None:
    twins.reset()
    for given, error, said in (
        (("--shift-by", "1", "--topic", f"{twins.orders}:2"), Refused, "no current committed offset"),
        (("--to-earliest", "--topic", f"{twins.orders}:7"), NotFound, "do not exist"),
        (("--to-earliest", "--topic", "no.such.topic"), NotFound, "UnknownTopicOrPartition"),
    ):
        assert said in twins.tools.consumer("--reset-offsets", "--group", twins.theirs, *given, "--execute"), given
        refused = twins.cli("groups", "reset", "small", "--group", twins.ours, *given, "--plan")
        assert isinstance(refused.exception, error), refused.output
    assert twins.offsets(twins.theirs) == twins.offsets(twins.ours)


def test_exports_of_several_groups_are_read_by_both(twins: Twins) -> None:
    """Each reads what the other wrote."""
    twins.reset()
    both = ("--group", twins.theirs, "--group", twins.ours)
    theirs = twins.tools.consumer("--reset-offsets", *both, "--to-current", "--all-topics", "--dry-run", "--export")
    ours = twins.done("groups", "export", "small", *both).stdout
    assert rows(ours) == rows(theirs)
    assert len(rows(ours)) == 6
    file = written(twins, ours)
    read = twins.tools.consumer("--reset-offsets", *both, "--from-file", file, "--dry-run", "--export")
    assert rows(read) == rows(twins.done("groups", "reset", "small", *both, "--from-file", file, "--plan", "--export").stdout)
    single = written(twins, twins.done("groups", "export", "small", "--group", twins.ours, "--topic", f"{twins.orders}:1").stdout)
    assert Path(single).read_text() == f"{twins.orders},1,3\n"
    assert rows(twins.tools.consumer("--reset-offsets", "--group", twins.theirs, "--from-file", single, "--dry-run", "--export")) == [
        f"{twins.orders},1,3"
    ]


@pytest.mark.deep
def test_deleted_offsets_and_deleted_groups_are_gone_in_both(twins: Twins) -> None:
    twins.reset()
    topic = f"{twins.orders}:0,1"
    assert "succeeded" in twins.tools.consumer("--delete-offsets", "--group", twins.theirs, "--topic", topic)
    twins.carried_out("groups", "delete-offsets", "small", "--group", twins.ours, "--topic", topic)
    assert twins.offsets(twins.ours) == twins.offsets(twins.theirs) == {TopicPartition(twins.long, 0): 6}
    assert "was successful" in twins.tools.consumer("--delete", "--group", twins.theirs)
    twins.carried_out("groups", "delete", "small", "--group", twins.ours)
    assert {twins.ours, twins.theirs} & twins.recovery.groups.listed().keys() == set()
    listed = twins.tools.consumer("--list", "--state")
    ours = {one["group_id"]: one for one in json.loads(twins.done("groups", "list", "small", "--json").stdout)}
    own = twins.recovery.application_id
    assert ours[own]["state"] == "Empty" == next(line.split()[-1] for line in listed.splitlines() if line.startswith(own))


@pytest.fixture
def consumers(twins: Twins) -> Iterator[Twins]:
    """The twins as groups of the consumer protocol, whose members have left."""
    for group in (twins.theirs, twins.ours):
        twins.recovery.groups.delete(group)
        settings = {"group.id": group, "group.protocol": "consumer", "enable.auto.commit": False}
        consumer = Consumer(twins.recovery.connection.client_config(**settings))
        consumer.subscribe([twins.orders])
        deadline = time.monotonic() + 30
        while not consumer.assignment():
            assert time.monotonic() < deadline
            consumer.poll(0.1)
        consumer.close()
        assert twins.recovery.groups.wait_empty(group, 30, settle=0).kind == "consumer"
    yield twins
    for group in (twins.theirs, twins.ours):
        twins.recovery.groups.delete(group)


@pytest.mark.deep
def test_groups_of_the_consumer_protocol(consumers: Twins) -> None:
    consumers.reset()
    given = ("--to-offset", "2", "--topic", consumers.orders)
    consumers.tools.consumer("--reset-offsets", "--group", consumers.theirs, *given, "--execute")
    consumers.carried_out("groups", "reset", "small", "--group", consumers.ours, *given)
    assert consumers.offsets(consumers.ours) == consumers.offsets(consumers.theirs)
    assert consumers.recovery.groups.describe(consumers.ours).kind == "consumer"


@pytest.mark.deep
def test_groups_of_the_streams_protocol(bootstrap: str, twins: Twins) -> None:
    """``kafka-streams-groups`` knows the inputs by the topology, and so do we. What else the group has offsets for stays."""
    for group in (twins.theirs, twins.ours):
        twins.recovery.groups.delete(group)
        member = StreamsMember(bootstrap, group, twins.orders)
        member.join()
        member.leave()
        assert twins.recovery.groups.wait_empty(group, 30, settle=0).kind == "streams"
    twins.reset()
    for given in (("--to-earliest", "--all-input-topics"), ("--shift-by", "1", "--input-topic", f"{twins.orders}:1")):
        dry = twins.tools.streams("--reset-offsets", "--group", twins.theirs, *given, "--dry-run", "--export")
        assert rows(dry) == rows(twins.done("groups", "reset", "small", "--group", twins.ours, *given, "--plan", "--export").stdout) != []
    given = ("--to-earliest", "--all-input-topics")
    twins.tools.streams("--reset-offsets", "--group", twins.theirs, *given, "--execute")
    planned = json.loads(twins.done("groups", "reset", "small", "--group", twins.ours, *given, "--plan", "--json").stdout)
    (group,) = planned["groups"]
    assert (group["kind"], group["streams"]) == ("streams", True)
    assert any("the state of" in warning for warning in group["warnings"])
    twins.carried_out("groups", "reset", "small", "--group", twins.ours, *given)
    assert twins.offsets(twins.ours) == twins.offsets(twins.theirs)
    assert twins.recovery.groups.describe(twins.ours).kind == "streams"


@pytest.mark.deep
@pytest.mark.remedy("group-members", "group-setting")
def test_what_people_are_told_to_do_about_a_group_is_done_whatever_its_protocol(bootstrap: str, twins: Twins) -> None:
    names = {kind: f"{kind}-{uuid.uuid4().hex[:8]}" for kind in ("classic", "consumer", "streams")}
    cluster, groups = twins.recovery.connection.tools, twins.recovery.groups
    streams = StreamsMember(bootstrap, names["streams"], twins.orders)
    streams.join()
    with (
        member(twins.recovery, names["classic"], twins.orders),
        member(twins.recovery, names["consumer"], twins.orders, protocol="consumer"),
    ):
        for kind, group in names.items():
            (look,) = see_members("small", group).commands
            shown = json.loads(twins.done(*shlex.split(look)[1:], "--json").stdout)
            assert (len(shown["members"]), shown["kind"]) == (1, kind)
            assert groups.describe(group).kind == kind
            for remedy, ours in (
                (shorten_session(cluster, group, kind), kind != "classic"),
                (add_standby(cluster, group, kind, pauses=False), kind == "streams"),
            ):
                assert bool(remedy.commands) is ours, "another protocol's setting would be refused, or do nothing"
                for told in remedy.commands:
                    done(told)
                    setting = told.rpartition(" ")[2]
                    assert setting in done(f"{told.partition('--alter')[0]}--describe --entity-type groups --entity-name {group}")
        assert f"{names['streams']} is not a consumer group" in twins.tools.consumer("--describe", "--group", names["streams"])
    streams.leave()
