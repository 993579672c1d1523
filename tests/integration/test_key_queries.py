"""Single keys asked of a real application of two instances: the one that is asked first names the owner, and that one answers."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from embedded.compiled import compiled
from embedded.java import QUICK, find_java
from embedded.ports import HOST, free_ports
from streams_recovery.application import http_control
from streams_recovery.application.factory import open_application
from streams_recovery.application.port import ForeignOwner, InstanceState, NoKeyRoute, StreamsApplication
from streams_recovery.config.runs import Runs
from streams_recovery.core.errors import ApplicationNotReady, RecoveryError
from streams_recovery.core.state.edit import default_partition
from streams_recovery.core.state.key_query import KeyAnswer, KeyQuestion, KeyWindow, NamedOwner
from streams_recovery.core.waiting import poll
from tests.support.applications.endpoints import OWNER, QUERY_KEY, java_endpoints
from tests.support.kafka.records import connect, topic
from tests.support.programs.java import STREAMS

pytestmark = pytest.mark.deep

T0 = 1_795_219_200_000
MINUTE = 60_000
# Slashes, spaces and what is not ASCII are in keys too.
KEYS = [*(f"key-{number}" for number in range(20)), "a/b", "ü {store}", "50%+"]


@dataclass(frozen=True)
class Pair:
    """The application at work, with its configuration."""

    application: StreamsApplication
    id: str
    section: dict[str, Any]
    log: str

    def changed(self, *, instances: int = 2, **control: object) -> StreamsApplication:
        """The same application by another configuration."""
        section = self.section | {"instances": self.section["instances"][:instances], "control": control}
        return open_application(Runs.model_validate({"kind": "process", "process": section}), self.id)

    def ask(self, store: str, key: str, **bounds: int) -> KeyAnswer:
        [found] = self.application.query_keys([KeyQuestion(store=store, key=key, **bounds)])
        return found

    @property
    def urls(self) -> list[str]:
        return [one["url"] for one in self.section["instances"]]


@pytest.fixture(scope="module")
def pair(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with running(bootstrap, tmp_path_factory.mktemp("pair"), HOST + ":{port}") as found:
        produce(bootstrap, found.log, [(key, str(at), T0 + at * 1000) for at, key in enumerate(KEYS)])
        produce(bootstrap, found.log, [("key-0", "100", T0 + 3 * MINUTE), ("key-0", "101", T0 + 30 * MINUTE)])
        misplace(bootstrap, found.log)
        assert poll(lambda: True if counted(found) else None, seconds=120)
        yield found


@contextmanager
def running(bootstrap: str, directory: Path, server: str) -> Iterator[Pair]:
    """The application with this application.server, RUNNING."""
    jars, ports = java_endpoints(), free_ports(2)
    class_path = ":".join(map(str, (*jars, compiled(STREAMS / "KeyedStores.java", jars))))
    application_id = f"keyed{uuid.uuid4().hex[:8]}"
    with ExitStack() as stack:
        log, everywhere = (stack.enter_context(topic(connect(bootstrap), partitions)) for partitions in (4, 1))
        produce(bootstrap, everywhere, [("de", "Germany", T0)])
        program = [str(find_java()), *QUICK, "-cp", class_path, "KeyedStores", bootstrap, application_id, log, everywhere]
        section = {
            "directory": str(directory / "run"),
            "command": [*program, "{state_directory}", "{port}", server],
            "instances": [
                {"name": name, "url": f"http://{HOST}:{port}", "state_directory": str(directory / name)}
                for name, port in zip(("one", "two"), ports, strict=True)
            ],
        }
        application = open_application(Runs.model_validate({"kind": "process", "process": section}), application_id)
        application.start()
        stack.callback(application.stop, timeout=20)
        assert poll(lambda: True if [one.streams_state for one in application.status()] == ["RUNNING"] * 2 else None, seconds=120)
        yield Pair(application, application_id, section, log)


def produce(bootstrap: str, log: str, records: list[tuple[str, str, int]]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", "log_level": 0})
    for key, value, at in records:
        producer.produce(log, value, key, timestamp=at)
    assert producer.flush(30) == 0


def misplace(bootstrap: str, log: str) -> None:
    """Keys in the partition behind the one that Kafka's own partitioner would choose."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(8):
        key = f"misplaced-{number}".encode()
        producer.produce(log, b"5", key, (default_partition(key, 4) + 1) % 4, timestamp=T0)
    assert producer.flush(30) == 0


def counted(pair: Pair) -> bool:
    try:
        found = pair.application.query_keys(
            [KeyQuestion(store="totals", key=key) for key in (*KEYS, *(f"misplaced-{n}" for n in range(8)))]
        )
    except RecoveryError:
        return False
    return all(one.found for one in found) and found[0].value == 3


def test_each_key_is_found_through_the_wrong_instance(pair: Pair) -> None:
    answers = pair.application.query_keys([KeyQuestion(store="totals", key=key) for key in KEYS])
    assert [one.value for one in answers] == [3, *[1] * (len(KEYS) - 1)]
    owners = Counter(one.instance for one in answers)
    assert set(owners) == {"one", "two"}, "each instance has some of them"
    for key, answer in zip(KEYS, answers, strict=True):
        right = ("one", "two").index(answer.instance)
        question = KeyQuestion(store="totals", key=key)
        # The one that does not have it says so, and both name the same one.
        assert http_control.key(pair.urls[1 - right], QUERY_KEY, question, instance="wrong") is None
        port = int(pair.urls[right].rpartition(":")[2])
        assert {http_control.owner(url, OWNER, question) for url in pair.urls} == {NamedOwner(host=HOST, port=port)}


def test_a_key_that_nobody_has_is_an_answer_of_its_owner(pair: Pair) -> None:
    found = pair.application.query_keys([KeyQuestion(store="totals", key=f"nobody-{number}") for number in range(20)])
    assert not any(one.found for one in found)
    assert {one.instance for one in found} == {"one", "two"}


def test_a_key_in_another_partition_than_its_own_is_found(pair: Pair) -> None:
    """Producers of other languages choose partitions in other ways."""
    keys = [f"misplaced-{number}" for number in range(8)]
    answers = pair.application.query_keys([KeyQuestion(store="totals", key=key) for key in keys])
    assert [one.value for one in answers] == [1] * 8
    assert [one.value for one in pair.application.query_keys([KeyQuestion(store="versions", key=key) for key in keys])] == ["5"] * 8
    ports = [int(url.rpartition(":")[2]) for url in pair.urls]
    owners = [http_control.owner(pair.urls[0], OWNER, KeyQuestion(store="totals", key=key)) for key in keys]
    named = [("one", "two")[ports.index(owner.port)] for owner in owners if owner is not None]
    assert [one.instance for one in answers] != named, "some are where nobody would look for them"


def test_a_standby_answers_for_nothing(pair: Pair) -> None:
    """Each instance stands by for the other: what it has of the other's partitions may be old."""
    assert poll(lambda: True if all(http_control.reported(url, "/health").standby_tasks for url in pair.urls) else None, seconds=60)
    for store in ("totals", "versions"):
        for key in (*KEYS, *(f"misplaced-{number}" for number in range(8))):
            asked = [http_control.key(url, QUERY_KEY, KeyQuestion(store=store, key=key), instance="any") for url in pair.urls]
            assert [one.found for one in asked if one is not None].count(True) == 1, (store, key)


def test_windows_are_within_the_time_that_was_asked_for(pair: Pair) -> None:
    first, second, third = T0, T0 + 3 * MINUTE, T0 + 30 * MINUTE
    everything = pair.ask("minutes", "key-0")
    assert everything.windows == tuple(KeyWindow(start=at, end=None, value=1) for at in (first, second, third))
    some = pair.ask("minutes", "key-0", start=second, end=third - 1)
    assert some.windows == (KeyWindow(start=second, end=None, value=1),)
    assert not pair.ask("minutes", "key-0", start=third + 1).found


def test_sessions_are_those_that_touch_the_time(pair: Pair) -> None:
    joined = KeyWindow(start=T0, end=T0 + 3 * MINUTE, value=2)
    alone = KeyWindow(start=T0 + 30 * MINUTE, end=T0 + 30 * MINUTE, value=1)
    assert pair.ask("sessions", "key-0").windows == (joined, alone)
    assert pair.ask("sessions", "key-0", start=T0 + MINUTE, end=T0 + 2 * MINUTE).windows == (joined,)


def test_other_stores_and_keys(pair: Pair) -> None:
    assert pair.ask("versions", "key-0").value == "101"
    assert pair.ask("everywhere", "de").value == "Germany"
    assert not pair.ask("everywhere", "fr").found
    assert pair.ask("numbers", "7").value == 1, "its keys are numbers, which the application has registered"
    for store, key in (("unregistered", "7"), ("numbers", "seven"), ("others", "key-0")):
        with pytest.raises(NoKeyRoute):
            pair.ask(store, key)


def test_without_the_route_to_owners_each_instance_is_asked(pair: Pair) -> None:
    application = pair.changed(owner=None)
    answers = application.query_keys([KeyQuestion(store="totals", key=key) for key in KEYS])
    assert all(one.found for one in answers)
    assert {one.instance for one in answers} == {"one", "two"}


def test_without_addresses_of_instances_keys_cannot_be_asked_and_the_whole_store_can(bootstrap: str, tmp_path: Path) -> None:
    with running(bootstrap, tmp_path, "") as pair:
        produce(bootstrap, pair.log, [(key, "1", T0) for key in KEYS])
        assert poll(lambda: True if pair.application.query("totals") == dict.fromkeys(KEYS, 1) else None, seconds=60)
        for question in (KeyQuestion(store="totals", key=key) for key in (KEYS[0], "nobody")):
            assert [http_control.owner(url, OWNER, question) for url in pair.urls] == [None, None]
            with pytest.raises(NoKeyRoute, match="is not set, so no instance can be named"):
                pair.application.query_keys([question], seconds=5)


def test_an_owner_that_is_not_configured_is_not_asked(pair: Pair) -> None:
    half = pair.changed(instances=1)
    questions = [KeyQuestion(store="totals", key=key) for key in KEYS]
    with pytest.raises(ForeignOwner, match="nothing was sent there") as caught:
        half.query_keys(questions, seconds=5)
    assert caught.value.facts == {"host": HOST, "port": int(pair.urls[1].rpartition(":")[2])}
    with pytest.raises(ApplicationNotReady, match="no instance has the partition"):
        pair.changed(instances=1, owner=None).query_keys(questions, seconds=0)


def test_a_closed_application_may_lose_its_local_state(pair: Pair, request: pytest.FixtureRequest) -> None:
    """Last: it closes one instance."""
    state = Path(pair.section["instances"][1]["state_directory"]) / pair.id
    before = sorted(path.name for path in state.iterdir())
    assert cleanup(pair.urls[1]) == 409
    assert sorted(path.name for path in state.iterdir()) == before
    assert http_control.close(pair.urls[1], "/close", seconds=60)
    assert cleanup(pair.urls[1]) == 200
    left = sorted(path.name for path in state.iterdir()) if state.exists() else []
    request.config.get_terminal_writer().line(f"left after a clean-up: {left} of {before}")
    assert not [name for name in left if name[0].isdigit()], "no task has a directory any more"
    assert [one.state for one in pair.application.status()] == [InstanceState.RUNNING] * 2, "the program goes on"


def cleanup(url: str) -> int:
    return http_control.exchange("POST", url, "/cleanup", seconds=30, limit=1000).status
