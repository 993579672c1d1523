"""The application port on a real Kafka Streams application: the example, two instances, on a real broker."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from embedded import example
from embedded.class_archive import options
from streams_recovery.application.factory import open_application
from streams_recovery.application.http_control import exchange
from streams_recovery.application.port import InstanceState, NoKeyRoute
from streams_recovery.config.runs import Runs
from streams_recovery.core.state.key_query import KeyQuestion
from tests.support.applications.rig import Rig, wait

pytestmark = pytest.mark.kafka

TOKEN = "canary-0d4e"
GUARDED = (("POST", "/pause"), ("GET", "/state/order-totals/c-1"), ("GET", "/owner/order-totals/c-1"), ("POST", "/cleanup"))
NAMES = {
    "ORDERS_TOPIC": "orders",
    "INVENTORY_TOPIC": "inventory",
    "CUSTOMERS_TOPIC": "customers",
    "CUSTOMER_TOTALS_TOPIC": "totals",
    "ENRICHED_ORDERS_TOPIC": "enriched",
    "ORDER_COUNTS_FINAL_TOPIC": "final",
}


@pytest.fixture
def topics(bootstrap):
    """Topics of their own, and an application id that is the prefix of all of them, so that everything can be removed."""
    prefix = f"port-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    names = {variable: f"{prefix}.{name}" for variable, name in NAMES.items()}
    for created in admin.create_topics([NewTopic(name, 2, 1) for name in names.values()]).values():
        created.result(20)
    yield prefix, names
    mine = [name for name in admin.list_topics(timeout=20).topics if name.startswith(prefix)]
    for deleted in admin.delete_topics(mine).values():
        deleted.result(20)
    for removed in admin.delete_consumer_groups([prefix]).values():
        removed.exception(20)


@pytest.fixture
def rig(tmp_path, bootstrap, topics):
    prefix, names = topics
    settings = {
        "BOOTSTRAP_SERVERS": bootstrap,
        "APPLICATION_ID": prefix,
        "HTTP_PORT": "{port}",
        "PROCESSING_GUARANTEE": "at_least_once",
        "HTTP_TOKEN": TOKEN,
        **names,
    }
    (tmp_path / "token").write_text(TOKEN)
    made = Rig(
        "process", tmp_path, environment=settings, control={"token_file": str(tmp_path / "token"), "close": "/close"}, start_timeout=60
    )
    own = example.program()
    made.section["command"] = ["java", "-Xmx256m", *options(own, example.exercise), "-cp", own.joined_class_path, example.SOURCE.stem]
    made.section["environment"] = settings | {"STATE_DIR": "{state_directory}", "COMMIT_INTERVAL_MS": "250"}
    yield made
    made.close()


def feed(bootstrap, topic, count):
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        value = {"order": number, "product": "p-1", "quantity": 1, "cents": 100}
        producer.produce(topic, json.dumps(value).encode(), f"c-{number}".encode())
    assert producer.flush(20) == 0


def test_a_real_application_runs_pauses_answers_closes_and_is_wiped(rig, bootstrap, topics):
    application_id, names = topics
    application = open_application(Runs.model_validate(rig.runs()), application_id)
    feed(bootstrap, names["ORDERS_TOPIC"], 40)
    application.start()
    wait(lambda: [s.streams_state for s in application.status()] == ["RUNNING", "RUNNING"], seconds=120)
    wait(lambda: len(application.query("order-totals")) == 40, seconds=60)
    assert set(application.query("order-totals")) == {f"c-{number}" for number in range(40)}
    for method, path in (("GET", "/health"), ("GET", "/state/order-totals"), *GUARDED, ("GET", "/nothing")):
        for token in (None, "", f"{TOKEN}x"):
            assert exchange(method, rig.urls[0], path, seconds=10, limit=1000, token=token).status == 401
    answers_by_key(application)
    assert exchange("POST", rig.urls[0], "/cleanup", seconds=10, limit=1000, token=TOKEN).status == 409

    application.pause()
    feed(bootstrap, names["ORDERS_TOPIC"], 60)
    assert [s.streams_state for s in application.status()] == ["PAUSED", "PAUSED"]
    assert len(application.query("order-totals")) == 40
    application.resume()
    wait(lambda: len(application.query("order-totals")) == 60, seconds=60)

    assert [s.commit_interval_ms for s in application.status()] == [250, 250]
    report = application.stop(timeout=60)
    assert report.clean, report
    assert [s.reported_closed for s in report.instances] == [True, True]
    states = [Path(state) / application_id for state in rig.states]
    assert all(any(state.rglob("CURRENT")) for state in states)
    assert application.wipe_state().removed == tuple(map(str, states))

    application.start()
    wait(lambda: application.status()[0].streams_state == "RUNNING", seconds=120)
    rig.kill("one")
    first, second = application.stop(timeout=60).instances
    assert (first.closed_cleanly, second.closed_cleanly) == (False, True)
    assert (first.state, second.state) == (InstanceState.GONE, InstanceState.GONE)


def answers_by_key(application):
    """Each kind of store of the example, asked for single keys over both instances."""

    def ask(store, *keys, **bounds):
        return application.query_keys([KeyQuestion(store=store, key=key, **bounds) for key in keys])

    keys = [f"c-{number}" for number in range(40)]
    totals = ask("order-totals", *keys)
    assert [one.value for one in totals] == [{"count": 1, "cents": 100}] * 40
    assert {one.instance for one in totals} == {"one", "two"}, "each has some of them"
    assert {one.value["product"] for one in ask("order-versions", *keys)} == {"p-1"}
    for store in ("orders-per-minute", "order-sessions"):
        [found] = ask(store, "c-1")
        [window] = found.windows
        assert window.value == 1
        assert ask(store, "c-1", start=window.start, end=window.start)[0].windows == (window,)
        assert not ask(store, "c-1", end=window.start - 1)[0].found
    assert not ask("order-totals", "nobody")[0].found
    with pytest.raises(NoKeyRoute):
        ask("no-such-store", "c-1")
