"""A configuration is written of what a real cluster shows, loads, and takes a savepoint; nothing is written over, and what a user may not see is named."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from embedded import example
from embedded.broker import BrokerExtras, start_broker
from embedded.compiled import compiled
from embedded.jars import jar_files
from embedded.java import QUICK, find_java
from embedded.ports import HOST, free_ports
from embedded.processes import Processes
from examples.order_processing.generator import Generator, create_topics
from examples.order_processing.orders import World
from streams_recovery.config.loader import load_named
from streams_recovery.core.application_kind import ApplicationKind
from streams_recovery.core.kafka_types import CommittedOffset, Consistency, Guarantee, StoreKind
from streams_recovery.core.waiting import poll
from streams_recovery.kafka.groups import ConsumerGroups
from streams_recovery.operations.draft import looking_around
from tests.support.applications.kafka_demos import INPUT, OUTPUT, STORE, WORD_COUNT, WordCountDemo, word_count_demo
from tests.support.applications.small import STREAMS_METADATA, Small, small_application
from tests.support.kafka.access_rules import Rules
from tests.support.kafka.records import connect
from tests.support.kafka.secured_broker import ADMIN, Secured
from tests.support.kafka.streams_member import StreamsMember
from tests.support.project import PROJECT
from tests.support.terminal import Here

pytestmark = pytest.mark.kafka


@pytest.fixture
def here(bootstrap: str, tmp_path: Path) -> Here:
    return Here(tmp_path / "configs", bootstrap)


def sets(**values: str) -> list[str]:
    """Keys with two underscores for each dot."""
    return [word for key, value in values.items() for word in ("--answer", f"{key.replace('__', '.')}={value}")]


def test_a_script_gives_what_the_cluster_does_not_show_and_writes_nothing_over(small: Small, here: Here, tmp_path: Path) -> None:
    name = small.recovery.application_id
    missing = here.run("init", name)
    assert (missing.code, "add --answer runs.kind=VALUE, one of process, command, compose, kubernetes" in missing.err) == (2, True)
    assert not here.configs.exists()
    answers = sets(runs__kind="command", runs__command="/opt/small/control", storage=str(tmp_path / "repository"))
    written = here.run("init", name, "--bootstrap-servers", here.bootstrap, "--name", "small", *answers, AIRFLOW_CONN_KAFKA_DEFAULT="")
    assert written.code == 0, written.err
    found = here.config("small")
    assert (found.application.id, found.topics.inputs, set(found.stores)) == (name, (small.input.topic,), {"totals"})
    assert (found.stores["totals"].kind, found.application.guarantee) == (StoreKind.KEY_VALUE, Guarantee.AT_LEAST_ONCE)
    assert found.runs.command is not None
    assert found.runs.command.wipe == ("/opt/small/control", "wipe")
    assert "kind: key-value}   # guessed: its changelog is compacted" in written.out
    assert "export AIRFLOW_CONN_KAFKA_DEFAULT='{" in written.err
    assert f"    streams-recovery preflight small --for backup --configs {here.configs}" in written.err.splitlines()
    before = here.file("small").read_bytes()
    again = here.run("init", name, "--name", "small", *answers)
    assert (again.code, "is there already" in again.err, f"init --update small --configs {here.configs}" in again.err) == (3, True, True), (
        again.err
    )
    assert here.file("small").read_bytes() == before
    second = here.run("init", name, "--name", "second", *answers)
    assert (second.code, f"second and small both describe the application {name}" in second.err) == (2, True)
    assert not here.file("second").exists()


def test_a_password_is_neither_written_nor_shown(small: Small, here: Here, tmp_path: Path) -> None:
    answers = sets(runs__kind="command", runs__command="/opt/small/control", storage=str(tmp_path / "repository"))
    said = sets(runs__command__status='["/opt/small/control", "--password=s3cr3t99"]')
    call = ("init", small.recovery.application_id, "--name", "small", *answers)
    wrong = here.run(*call, *said, *sets(runs__kind__x="1"))
    assert (wrong.code, "--password=${SMALL_SECRET}" in wrong.err) == (2, True), wrong.err
    written = here.run(*call, *said)
    assert written.code == 0, written.err
    assert "It has ${SMALL_SECRET} in place of what looks like a secret" in written.err
    assert "s3cr3t99" not in here.file("small").read_text() + written.out + written.err + wrong.out + wrong.err


def test_a_person_is_asked_one_question_after_the_other(small: Small, here: Here, tmp_path: Path) -> None:
    name = small.recovery.application_id
    answers = (
        "docker",
        "process",
        "java -jar x.jar",
        "",
        "",
        "/srv/x/state",
        "y",
        small.output.topic,
        "",
        str(tmp_path / "repository"),
        "no",
    )
    told = here.asked("init", name, answers=answers)
    assert told.code == 0, told.err
    found = here.config(name)
    assert found.runs.process is not None
    assert (found.runs.process.command, found.runs.process.control.pause) == (("java", "-jar", "x.jar"), "/pause")
    assert (found.topics.outputs, found.backup.survive_cluster_loss) == ((small.output.topic,), False)
    assert "'docker' is none of process, command, compose, kubernetes" in told.err
    assert told.err.count("How is it run?") == 2
    assert told.err.count("Where is its local state") == 2, "nobody guesses a directory that a restore removes"
    assert "A restore waits until GET /health says RUNNING." in told.err


def test_an_update_says_what_the_file_lacks_and_writes_nothing(small: Small, here: Here, tmp_path: Path) -> None:
    name = small.recovery.application_id
    answers = sets(runs__kind="command", runs__command="/opt/small/control", storage=str(tmp_path / "repository"))
    assert here.run("init", name, "--name", "small", *answers).code == 0
    whole = here.run("init", "--update", "small")
    assert (whole.code, whole.out) == (0, "small.yaml has all that the cluster shows.\n")
    text = here.file("small").read_text()
    here.file("small").write_text(text.replace(f"[{small.input.topic}]", "[another]").replace("totals: ", "others: "))
    lacks = here.run("init", "--update", "small")
    assert lacks.code == 9, lacks.err
    assert lacks.out.splitlines() == [
        f"topics.inputs lacks {small.input.topic}, its group has committed offsets there: inputs: [another, {small.input.topic}]",
        f"stores lacks totals, whose changelog {small.changelog.topic} is there: totals: {{kind: key-value}}",
    ]
    assert "[another]" in here.file("small").read_text()


def test_an_id_that_is_the_beginning_of_another_one_is_not_mixed_up(small: Small, here: Here) -> None:
    """The longer one's topics are called like the shorter one's too. A plain consumer group owns none, but what is called so stays in doubt."""
    recovery, me = small.recovery, small.recovery.application_id
    groups = {f"{me}-eu": STREAMS_METADATA, f"{me}-plain": ""}
    theirs = [f"{name}-totals-changelog" for name in groups]
    for name, metadata in groups.items():
        recovery.cluster.create_topic(f"{name}-totals-changelog", partitions=1, replication_factor=1, config={"cleanup.policy": "compact"})
        recovery.groups.set_offsets(name, {small.input: CommittedOffset(offset=0, metadata=metadata)})
    try:
        with looking_around(connect(here.bootstrap), here.configs) as looker:
            assert {me, f"{me}-eu"} <= {one.application_id for one in looker.candidates}
            short, _ = looker.application(looker.candidate(me))
            long, _ = looker.application(looker.candidate(f"{me}-eu"))
        assert (set(short.stores), short.doubtful) == ({"totals"}, {"plain-totals": theirs[1]})
        assert set(long.stores) == {"totals"}
    finally:
        for name in groups:
            recovery.groups.delete(name)
        recovery.cluster.delete_topics(theirs)


@pytest.mark.deep
def test_a_group_of_the_streams_protocol_is_seen_without_any_topic_of_its_own(here: Here, small: Small) -> None:
    member = StreamsMember(here.bootstrap, "only-streams", small.input.topic)
    member.join()
    try:
        with looking_around(connect(here.bootstrap), here.configs) as looker:
            found = looker.candidate("only-streams")
            assert (found.kind, found.because) == (ApplicationKind.KAFKA_STREAMS, "its group is of the streams protocol")
            seen, hidden = looker.application(found)
        assert (seen.topology, seen.inputs) == (None, ())
        assert all("does not tell" in one.text for one in hidden)
    finally:
        member.leave()
        small.recovery.groups.delete("only-streams")


@pytest.fixture
def word_count(bootstrap: str, tmp_path: Path) -> Iterator[WordCountDemo]:
    with word_count_demo(bootstrap, tmp_path) as demo:
        yield demo


def test_the_file_of_kafka_s_own_example_takes_a_savepoint(word_count: WordCountDemo, here: Here, tmp_path: Path) -> None:
    word_count.say("all streams lead to kafka", "hello kafka streams")
    answers = sets(
        runs__kind="command", runs__command=str(word_count.control), storage=str(tmp_path / "repository"), topics__outputs=OUTPUT
    )
    written = here.run("init", WORD_COUNT, *answers)
    assert written.code == 0, written.err
    found = here.config(WORD_COUNT)
    assert (found.topics.inputs, found.topics.outputs) == ((INPUT,), (OUTPUT,))
    assert {name: one.kind for name, one in found.stores.items()} == {STORE: StoreKind.KEY_VALUE}
    taken = here.run("backup", WORD_COUNT)
    assert taken.code == 0, taken.err
    listed = here.run("savepoints", "list", WORD_COUNT, "--json")
    (savepoint,) = json.loads(listed.out)
    assert savepoint["consistency"] == Consistency.EXACT.value


@dataclass(frozen=True)
class Orders:
    """The running example on a broker that is told its topology."""

    bootstrap: str
    url: str
    id: str


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[Orders]:
    source = PROJECT / "tests" / "support" / "programs" / "broker_plugins" / "TopologyMemory.java"
    plugin = compiled(source, jar_files())
    extras = BrokerExtras(plugins=(plugin,), settings={"group.streams.topology.description.plugin.class": source.stem})
    with Processes(tmp_path / "processes") as processes:
        port, controller, http = free_ports(3)
        bootstrap = start_broker(processes, tmp_path / "broker", port=port, controller_port=controller, extras=extras)
        create_topics(bootstrap)
        settings = {
            "BOOTSTRAP_SERVERS": bootstrap,
            "HTTP_PORT": str(http),
            "STATE_DIR": str(tmp_path / "state"),
            "GROUP_PROTOCOL": "streams",
        }
        command = [str(find_java()), *QUICK, "-cp", example.program().joined_class_path, example.SOURCE.stem]
        processes.start("orders", command, environment={**os.environ, **settings})
        feeder = Generator(
            bootstrap, World(seed=1, customers=20, products=5, start_ms=time.time_ns() // 1_000_000 - 3_600_000, step_ms=1000)
        )
        feeder.feed_reference_data()
        feeder.feed(200)
        with ConsumerGroups(connect(bootstrap)) as groups:

            def works() -> bool | None:
                processes.check("orders")
                read = {tp.topic for tp in groups.last_committed("order-processor")}
                return True if {"orders", "inventory"} <= read and groups.known_topology("order-processor").described is not None else None

            assert poll(works, seconds=120, interval=0.5)
        yield Orders(bootstrap, f"http://{HOST}:{http}", "order-processor")


@pytest.mark.deep
def test_a_broker_that_knows_the_topology_tells_outputs_and_globals(orders: Orders, tmp_path: Path) -> None:
    """And so does an instance. What both say is what the example's configuration has, which people wrote."""
    here = Here(tmp_path / "configs", orders.bootstrap)
    ours = load_named("order-processing", PROJECT / "include" / "configs", {})
    process = sets(
        runs__kind="process",
        runs__process__command="java -jar orders.jar",
        runs__process__url=orders.url,
        runs__process__state_directory="/srv/x/state",
    )
    for name, more in (("by-broker", ()), ("by-instance", ("--topology", orders.url))):
        written = here.run("init", orders.id, "--name", name, *process, "--answer", f"storage={tmp_path / 'repository'}", *more)
        assert written.code == 0, written.err
        found = here.config(name)
        here.file(name).unlink()
        topics = found.topics
        assert (sorted(topics.inputs), sorted(topics.outputs), topics.globals) == (
            sorted(ours.topics.inputs),
            sorted(ours.topics.outputs),
            ours.topics.globals,
        )
        # That of its foreign-key join has no name in the code.
        assert set(found.stores) == {*(store for store, one in ours.stores.items() if one.logged), "enrich-subscription-store"}
        assert found.application.guarantee is Guarantee.EXACTLY_ONCE_V2
        assert (found.backup.consistency.mode, found.backup.consistency.fallback) == ("live", "pause")
        kinds = {store: (found.stores[store].kind, one.kind) for store, one in ours.stores.items()}
        assert all(mine in (its, StoreKind.UNKNOWN) for mine, its in kinds.values()), kinds
        assert kinds["order-versions"][0] is StoreKind.VERSIONED


@pytest.mark.deep
def test_a_user_without_rights_is_told_which_are_missing(secured: Secured, tmp_path: Path) -> None:
    """What is visible is written all the same; a description of the rest is asked for."""
    with small_application(secured.extra(ADMIN), tmp_path) as small:
        name, rules = small.recovery.application_id, Rules(secured)
        base = f"kafka-acls.sh --bootstrap-server {secured.address} --command-config admin.properties --add --allow-principal User:stranger"
        rules.apply(f"{base} --operation Describe --group {name}")
        rules.apply(f"{base} --operation Describe --topic {small.input.topic} --topic {small.changelog.topic}")
        with looking_around(secured.connection("stranger"), tmp_path / "none") as looker:
            seen, hidden = looker.application(looker.candidate(name))
        texts = [str(one) for one in hidden]
        assert seen.inputs == (small.input.topic,)
        assert (seen.guarantee, seen.settings) == (None, {})
        assert any(f"lacks DescribeConfigs on topic {small.changelog.topic} (to tell the kinds of stores)" in text for text in texts), texts
        assert any("lacks Describe on transactional-id" in text and "kafka-acls.sh" in text for text in texts), texts
        assert any("lacks Describe on the cluster" in text for text in texts), texts
        for one in hidden:
            for command in one.remedy.commands:
                rules.apply(command)
        with looking_around(secured.connection("stranger"), tmp_path / "none") as looker:
            seen, hidden = looker.application(looker.candidate(name))
        assert (seen.guarantee, seen.kind_of("totals")[0], hidden) == (Guarantee.AT_LEAST_ONCE, StoreKind.KEY_VALUE, ())
