"""What is never called exact, names that must not be taken for others, and clusters that are slow on purpose."""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from streams_recovery.core.errors import ApplicationRunning, NotExact, Refused
from streams_recovery.core.group_members import UnknownMembers
from streams_recovery.core.kafka_types import Consistency, QuiesceMode, TopicRole
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.savepoint.cut import ALONE, NONE_WAS_AHEAD
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.reader import RangeReader
from streams_recovery.operations import restore, savepoint
from streams_recovery.operations.bring_down import bring_down, empty_group, roll_of
from streams_recovery.operations.discovery import discover
from streams_recovery.storage.savepoints import SavepointStore
from tests.support.applications.rig import wait
from tests.support.applications.savepoint_steps import begun, cut, published, take
from tests.support.applications.small import (
    RUNNING,
    STOPPED,
    Small,
    asked,
    reopened,
    rows_of,
    says,
    small_application,
    untouched,
    with_policy,
)
from tests.support.applications.topic_records import produce
from tests.support.kafka.consumers import living
from tests.support.kafka.quotas import quota
from tests.support.kafka.streams_member import StreamsMember
from tests.support.kafka.topic_settings import alter

pytestmark = pytest.mark.kafka

Application = Callable[..., Small]


@pytest.fixture
def application(bootstrap: str, tmp_path: Path) -> Iterator[Application]:
    with ExitStack() as stack:
        yield lambda **how: stack.enter_context(small_application(bootstrap, tmp_path, **how))


UNCLEAN = [{**STOPPED[0], "closed_cleanly": False}]
UNSEEN = [{**STOPPED[0], "closed_cleanly": None}]


@pytest.mark.deep
@pytest.mark.fault("F41")
@pytest.mark.parametrize(
    ("stop", "why"),
    [
        (UNCLEAN, "not seen to close cleanly: one, and the changelog writers are not proven transactional"),
        (UNSEEN, "not seen to close cleanly: one"),
        ([*STOPPED, {**UNCLEAN[0], "name": "two"}], "not seen to close cleanly: two"),
    ],
)
def test_an_application_that_nobody_saw_close_is_never_exact(application: Application, stop: list[dict[str, object]], why: str) -> None:
    small = application(programs={"stop": says(stop)})
    with pytest.raises(NotExact, match="no exact cut") as caught:
        take(small)
    assert why in str(caught.value)
    assert untouched(small)
    with reopened(small) as lenient:
        summary = take(lenient, recovery=with_policy(lenient.recovery, require="ahead_allowed"))
        manifest = lenient.recovery.savepoints.read(summary.savepoint_id)
        assert manifest.consistency is Consistency.AHEAD
        assert why in "; ".join(manifest.proof.reasons)
        lenient.recovery.cluster.delete_topics([small.changelog.topic, small.tail.topic])
        with pytest.raises(NotExact, match="is `ahead`"):
            restore.plan(lenient.recovery, asked(lenient.recovery, savepoint=summary.savepoint_id))


@pytest.mark.deep
@pytest.mark.fault("F41")
@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_a_running_application_whose_writers_are_not_transactional_is_never_exact(application: Application, guarantee: str) -> None:
    small = application(programs={"status": says(RUNNING)}, guarantee=guarantee)
    with pytest.raises(NotExact) as caught:
        cut(small.recovery, QuiesceMode.LIVE)
    assert caught.value.facts["reasons"][-1].endswith("not proven transactional")
    assert cut(with_policy(small.recovery, require="ahead_allowed"), QuiesceMode.LIVE).consistency is Consistency.AHEAD


def test_an_application_that_does_not_stop_gives_no_savepoint(application: Application) -> None:
    small = application(programs={"status": says(RUNNING), "stop": says(RUNNING)})
    with pytest.raises(ApplicationRunning, match=r"did not stop: one \(pid 1\)"):
        take(small)
    assert untouched(small)


@pytest.mark.deep
@pytest.mark.fault("F44")
def test_a_member_that_no_instance_accounts_for_gives_no_savepoint(small: Small) -> None:
    with member(small):
        with pytest.raises(Refused, match=r"no known instance accounts for, stranger at .*; no instance is known to run"):
            take(small)
        with pytest.raises(UnknownMembers) as caught:
            bring_down(small.recovery)
    assert caught.value.facts["group"] == small.recovery.application_id
    assert str(caught.value.facts["members"]).startswith("stranger at")
    assert untouched(small)


@pytest.mark.deep
@pytest.mark.fault("F72")
@pytest.mark.parametrize("kind", ["told", "counted", "static", "streams"])
def test_a_process_that_nobody_knows_keeps_the_known_one_running_and_works_on(bootstrap: str, tmp_path: Path, kind: str) -> None:
    """Members that tell their names, that are only counted, that are static, and those of the streams protocol, which nobody can remove."""
    stopped = tmp_path / "stopped"
    running = [{**RUNNING[0], "client_ids": ["small-1"] if kind != "counted" else []}]
    say = f"import pathlib; pathlib.Path({str(stopped)!r}).touch(); print({json.dumps(STOPPED)!r})"
    programs = {"status": either(stopped, STOPPED, running), "stop": [sys.executable, "-c", say]}
    with small_application(bootstrap, tmp_path, programs=programs, guarantee="at_least_once") as small:
        recovery, name = small.recovery, small.recovery.application_id
        with process(small, "small-1", kind):
            ticket = begun(recovery)
            try:
                with process(small, "small-2", kind):
                    with pytest.raises(UnknownMembers, match="nothing was stopped"):
                        savepoint.quiesce(recovery, ticket)
                    assert not stopped.exists()
                    ahead = savepoint.quiesce(with_policy(recovery, unknown_members="ahead"), ticket)
                    assert (ahead.mode, ahead.still, ahead.unknown, stopped.exists()) == (QuiesceMode.LIVE, False, True, False)
                    taken = savepoint.capture(with_policy(recovery, unknown_members="ahead"), ticket, ahead)
                    assert taken.consistency is Consistency.AHEAD
                    assert "no known instance accounts for" in "; ".join(taken.reasons)
                    group = recovery.groups.describe(name)
                    assert (group.kind, len(group.members)) == ("streams" if kind == "streams" else "classic", 2), "nobody was removed"
                # A static one that has ended is in the group until its session ends.
                wait(lambda: len(recovery.groups.describe(name).members) == 1, seconds=60)
                # The one that is left is accounted for, and removed once its instance is proven gone; it lives after all, and comes back.
                with pytest.raises(UnknownMembers, match="are stopped"):
                    savepoint.quiesce(recovery, ticket)
                assert stopped.exists()
            finally:
                stopped.unlink(missing_ok=True)
                savepoint.finish(recovery, ticket)


@contextmanager
def process(small: Small, name: str, kind: str) -> Iterator[None]:
    """A process of one thread in the application's group."""
    client = f"{name}-StreamThread-1-consumer"
    if kind == "streams":
        member = StreamsMember(small.recovery.connection.bootstrap_servers, small.recovery.application_id, small.input.topic, client=client)
        member.join()
        yield
        member.leave()
    else:
        with living(small.recovery, small.input.topic, client, static=f"{name}-static-1" if kind == "static" else ""):
            yield


@pytest.mark.fault("F103")
def test_a_static_member_that_came_again_is_accounted_for_and_removed_once_it_is_proven_gone(bootstrap: str, tmp_path: Path) -> None:
    """It has lost its local state, and so its name. Its group shows the one that it had first."""
    stopped = tmp_path / "stopped"
    running = [{**RUNNING[0], "client_ids": ["small-now"]}]
    say = f"import pathlib; pathlib.Path({str(stopped)!r}).touch(); print({json.dumps(STOPPED)!r})"
    programs = {"status": either(stopped, STOPPED, running), "stop": [sys.executable, "-c", say]}
    first, now = "small-first-StreamThread-1-consumer", "small-now-StreamThread-1-consumer"
    with small_application(bootstrap, tmp_path, programs=programs, guarantee="at_least_once") as small:
        recovery, topic = small.recovery, small.input.topic
        with living(recovery, topic, first, static="one-1"):
            pass
        with living(recovery, topic, now, static="one-1", shown_as=first):
            assert roll_of(recovery).problem(recovery.application_id) == ""
        ticket = begun(recovery)
        try:
            assert savepoint.capture(recovery, ticket, savepoint.quiesce(recovery, ticket)).consistency is Consistency.EXACT
            assert recovery.groups.describe(recovery.application_id).empty
        finally:
            stopped.unlink(missing_ok=True)
            savepoint.finish(recovery, ticket)


@pytest.mark.fault("F72")
def test_a_process_that_comes_while_the_known_one_is_stopped_is_not_removed(bootstrap: str, tmp_path: Path) -> None:
    with small_application(bootstrap, tmp_path, programs={"status": says(RUNNING)}) as small:
        recovery, topic = small.recovery, small.input.topic
        known = roll_of(recovery)
        with living(recovery, topic, "small-2-StreamThread-1-consumer"):
            there = recovery.groups.describe(recovery.application_id).members
            with pytest.raises(UnknownMembers, match="small-2"):
                empty_group(recovery, recovery.application.stop(timeout=1), known)
            # One that is removed comes back, as another member.
            assert [one.member_id for one in recovery.groups.describe(recovery.application_id).members] == [one.member_id for one in there]


@pytest.mark.fault("F72")
def test_what_moves_until_all_is_copied_was_at_work_while_the_application_was_down(application: Application) -> None:
    small = application(guarantee="at_least_once")
    with pytest.raises(NotExact, match="went on until all was copied, and no instance is known to run"):
        take(small, after_copy=lambda: produce(small.recovery, small.changelog, 1))
    assert untouched(small)
    found = published(
        small, recovery=with_policy(small.recovery, require="ahead_allowed"), after_copy=lambda: produce(small.recovery, small.changelog, 1)
    )
    assert (found.consistency, found.proof.assumptions) == (Consistency.AHEAD, ())


@pytest.mark.fault("F75")
def test_an_exact_savepoint_says_what_it_takes_for_granted(application: Application) -> None:
    small = application(guarantee="at_least_once")
    found = published(small)
    assert found.consistency is Consistency.EXACT
    assert found.proof.assumptions[:2] == (ALONE, NONE_WAS_AHEAD)


@pytest.mark.deep
def test_a_member_that_comes_while_the_cut_is_read_spoils_it(small: Small) -> None:
    ticket = begun(small.recovery)
    try:
        quiesced = savepoint.quiesce(small.recovery, ticket)
        with member(small), pytest.raises(NotExact, match="a group member"):
            savepoint.capture(small.recovery, ticket, quiesced)
    finally:
        savepoint.finish(small.recovery, ticket)
    assert untouched(small)


def either(file: Path, then: object, before: object) -> list[str]:
    """A program that says the one once a file is there, and else the other."""
    return [
        sys.executable,
        "-c",
        f"import pathlib; print({json.dumps(then)!r} if pathlib.Path({str(file)!r}).exists() else {json.dumps(before)!r})",
    ]


class member:  # noqa: N801
    """A consumer in the application's group that is none of its threads."""

    def __init__(self, small: Small) -> None:
        settings = {"group.id": small.recovery.application_id, "client.id": "stranger", "enable.auto.commit": False, "log_level": 0}
        self._consumer = Consumer({"bootstrap.servers": small.recovery.connection.bootstrap_servers, **settings})
        self._consumer.subscribe([small.input.topic])

    def __enter__(self) -> None:
        give_up = time.monotonic() + 60
        while not self._consumer.assignment():
            assert time.monotonic() < give_up
            self._consumer.poll(0.1)

    def __exit__(self, *_: object) -> None:
        self._consumer.close()


@pytest.mark.deep
@pytest.mark.fault("F38")
def test_names_are_taken_literally(application: Application, bootstrap: str) -> None:
    unique = uuid.uuid4().hex[:6]
    name = f"pay.ments_v1.{unique}"
    others = [
        f"{name.replace('.', 'X')}-totals-changelog",  # a dot is no wildcard
        f"{name}.eu-totals-changelog",
        f"{name}x-totals-changelog",
        f"x{name}-totals-changelog",
        f"{name}-totals-changelog-copy",
    ]
    small = application(name=name)
    for topic in others:
        small.recovery.cluster.create_topic(topic, partitions=1, replication_factor=1, config={})
    try:
        found = discover(small.recovery).inventory
        assert found.names(TopicRole.CHANGELOG) == (small.changelog.topic,)
        assert found.names(TopicRole.REPARTITION) == (small.tail.topic,)
        manifest = published(small)
        assert [topic.name for topic in manifest.topics] == sorted(small.topics)
        keys = {tp.topic: file.key for tp, file in manifest.files()}
        assert keys[small.changelog.topic].startswith(f"{name}/segments/{small.changelog.topic}/0/")
        assert [row["value"] for row in rows_of(small.recovery, manifest, small.changelog)] == [b"v0", b"v1", b"v2", b"v3"]
    finally:
        small.recovery.cluster.delete_topics(others)


@pytest.mark.deep
@pytest.mark.fault("F38")
def test_names_may_be_as_long_as_kafka_has_them(application: Application) -> None:
    small = application(name=f"l{uuid.uuid4().hex}" + "o" * (249 - 33 - len("-by-key-repartition")))
    assert max(len(topic) for topic in small.topics) == 249
    manifest = published(small)
    assert [row["value"] for row in rows_of(small.recovery, manifest, small.tail)] == [b"v1", b"v2", b"v3"]
    small.recovery.cluster.delete_topics([small.changelog.topic, small.tail.topic])
    planned = restore.plan(small.recovery, asked(small.recovery))
    assert {step.name for step in planned.create} == {small.changelog.topic, small.tail.topic}


@pytest.mark.fault("F38")
def test_a_dot_and_an_underscore_are_two_applications_to_the_repository(application: Application, bootstrap: str, tmp_path: Path) -> None:
    """The cluster itself refuses topics that differ in nothing else; two clusters with one repository do not."""
    unique = uuid.uuid4().hex[:6]
    dotted = application(name=f"{unique}.b")
    other = f"{unique}_b-totals-changelog"
    with pytest.raises(Refused, match="collides"):
        dotted.recovery.cluster.create_topic(other, partitions=1, replication_factor=1, config={})
    published(dotted)
    assert SavepointStore(dotted.recovery.repository, Layout(f"{unique}_b")).ids() == []


@pytest.mark.fault("F39")
@pytest.mark.parametrize("topic_codec", ["producer", "uncompressed", "gzip"])
def test_compression_of_any_kind_is_read(small: Small, topic_codec: str) -> None:
    alter(small.recovery.cluster, {small.changelog.topic: {"compression.type": topic_codec}})
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    for codec in codecs:
        produce(small.recovery, small.changelog, 20, **{"compression.type": codec, "linger.ms": 20})
    manifest = published(small)
    values = [row["value"] for row in rows_of(small.recovery, manifest, small.changelog)]
    assert values == [b"v%d" % number for number in range(4)] + [b"v%d" % number for number in range(20)] * len(codecs)
    image = manifest.topic(small.changelog.topic)
    assert image is not None
    assert image.config.get("compression.type") == topic_codec


@pytest.mark.deep
@pytest.mark.fault("F39")
def test_a_throttled_client_is_slower_and_nothing_else(small: Small) -> None:
    client = f"slow-{uuid.uuid4().hex[:8]}"
    producer = Producer({"bootstrap.servers": small.recovery.connection.bootstrap_servers, "log_level": 0})
    values = [bytes([number % 256]) * 20_000 for number in range(300)]
    for value in values:
        producer.produce(small.output.topic, value, b"k", 0)
    assert producer.flush(30) == 0

    def seconds(properties: dict[str, str]) -> float:
        connection = KafkaConnection(bootstrap_servers=small.recovery.connection.bootstrap_servers, properties=properties)
        began = time.monotonic()
        with RangeReader(connection, small.output, 4, 304) as reader:
            assert [value for batch in reader for value in batch.column("value").to_pylist()] == values
        return time.monotonic() - began

    free = seconds({})
    # A broker looks back over ten seconds: 6 MB are 600 kB a second to it, and more each time they are read again.
    with quota(small.recovery.connection, client, "consumer_byte_rate", 500_000.0):
        while seconds({"client.id": client}) < free + 1:
            pass  # a quota that has no effect is ended by the time limit of tests
