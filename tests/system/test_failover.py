"""A real application whose cluster is lost goes to another cluster, and home again. Every count must be true of the input that is there, at each site and at
each time, and what survived at the lost one must not go on.
"""

from __future__ import annotations

import json
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

from embedded.demo.checks import differences, wait_counted
from examples.order_processing.generator import Generator
from examples.order_processing.truth import Stores, truth
from streams_recovery.application.port import InstanceState
from streams_recovery.core.archive.state import at_cut
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.remedies.transactions import OpenTransaction
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.repository.sites import PRIMARY
from streams_recovery.core.waiting import poll
from streams_recovery.operations import archive
from tests.support.programs.kafka_tools import done
from tests.support.programs.mirror_maker import IDENTITY, Flow, start_mirror
from tests.support.stack.stage import Stage
from tests.support.stack.two_sites import THERE, AtTwoSites, Content, content, two_sites, where
from tests.support.story import play_through

pytestmark = [pytest.mark.system, pytest.mark.deep, pytest.mark.timeout(2_400)]

ORDERS, RATE, LATER = 2_000, 200.0, 500
# Orders of the other cluster have numbers of their own: nobody there knows how many the lost one had taken.
FIRST_THERE = 200_000
# Orders that a mirror has carried since the savepoint before the cluster is lost.
CARRIED_ON = 300
# Orders a second, and what of them the loss of a cluster may cost: an interval of the archive, and copying.
FLOOD, LOSS_MS = 4_000.0, 15_000
# A busy machine finds a cut late, and processes what came since slowly. It is given up once nothing moves.
CATCHING_UP_SECONDS = 1_500.0


@dataclass
class Lost:
    """The application at two sites, and what is known of it so far. ``halt`` ends the input at home, ``settle`` waits until the last of it is there or given
    up. ``acknowledged`` orders were written at home before the savepoint began, ``fed`` before its broker died. ``moved`` is the input that came to the other
    site.
    """

    on: AtTwoSites
    halt: Callable[[], None]
    settle: Callable[[], None]
    acknowledged: int = 0
    fed: int = 0
    moved: Content = field(default_factory=dict)


@contextmanager
def at_home(directory: Path, guarantee: str, rate: float) -> Iterator[Lost]:
    """At home with input that goes on coming in."""
    halt = threading.Event()
    with two_sites(directory, guarantee=guarantee, orders=ORDERS) as on, ThreadPoolExecutor(1) as pool:
        feeding = pool.submit(on.home.generator.feed, 10**7, rate=rate, stop=halt)

        def settle() -> None:
            halt.set()
            # It gives up where its cluster has not come back for five minutes.
            with suppress(KafkaException):
                feeding.result()

        try:
            yield Lost(on, halt.set, settle)
        finally:
            settle()


GUARANTEES = ["exactly_once_v2", "at_least_once"]


@pytest.fixture(params=GUARANTEES)
def lost(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lost]:
    with at_home(tmp_path_factory.mktemp("stage"), request.param, RATE) as found:
        yield found


@pytest.mark.fault("F6", "F64")
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_lost_cluster_costs_seconds_of_input_where_an_archiver_is_at_work(guarantee: str, tmp_path: Path) -> None:
    with at_home(tmp_path, guarantee, FLOOD) as lost:
        home, there = lost.on.home, lost.on.there
        with lost.on.command("archive"), acknowledged_over_time(home) as fed:
            saved = lost.on.command("backup", "--json").result()
            assert poll(lambda: behind(home, saved["savepoint_id"]) or None, seconds=180, interval=0.5), "it goes on behind the savepoint"
            if guarantee == "exactly_once_v2":
                assert poll(lambda: cut_behind(home, saved["savepoint_id"]) or None, seconds=240, interval=0.5), (
                    "and a cut is found at work"
                )
            # The moment is nobody's choice.
            time.sleep(secrets.SystemRandom().uniform(5, 20))
            brokers_gone = time.time_ns() // 1_000_000
            lost.on.kill_broker_at_home()
            lost.halt()
        asked = ("failover", "--to", THERE, "--lost", PRIMARY, "--reason", "the cluster is gone")
        planned = lost.on.command(*asked, "--plan", "--json", from_there=True).result()
        promised = planned["archived"]["safe_at"]
        lost.on.command(*asked, "--approve", planned["approve"], "--json", from_there=True).result(CATCHING_UP_SECONDS)
        assert (planned["state"] is not None) == (guarantee == "exactly_once_v2"), (
            "what was in it since the savepoint is not processed again"
        )
        there.await_running()
        orders = content(there.recovery, "orders")
        kept = numbers(orders)
        wait_counted(there.recovery, len(kept), seconds=300)
        total = fed(brokers_gone)
        sys.stdout.write(f"{guarantee}: {total - len(kept)} of {total} acknowledged orders were lost, ")
        sys.stdout.write(
            f"and all was promised up to {(brokers_gone - promised) / 1000:.1f} s before the loss; {state_age(planned, brokers_gone)}\n"
        )
        # Partitions end at different orders.
        assert set(range(fed(promised))) <= set(kept), "what is promised is there"
        assert set(range(fed(brokers_gone - LOSS_MS))) <= set(kept), "it cost no more than seconds"
        assert wrong(there, orders) == {0}
        # What still writes to it would wait for it for five minutes.
        home.stack.start_broker(home.processes)
        for partition, records in content(home.recovery, "orders").items():
            assert records[: len(orders[partition])] == orders[partition], "nothing is missing in between"


def cut_behind(on: Stage, savepoint_id: str) -> bool:
    """Whether the archive has a cut behind a savepoint that a restore may begin from."""
    return isinstance(at_cut(on.recovery.savepoints.read(savepoint_id), archive.read_archive(on.recovery)), Manifest)


def state_age(planned: dict[str, Any], lost_at: int) -> str:
    """How old the state of a plan is."""
    return f"the state is of {(lost_at - planned['captured_at']) / 1000:.1f} s before it, {planned['observed']['records_to_catch_up']} orders are processed"


@contextmanager
def acknowledged_over_time(on: Stage) -> Iterator[Callable[[int], int]]:
    """How many orders were acknowledged by a moment (ms) of the block."""
    seen, over = [(0, on.generator.acknowledged)], threading.Event()

    def look() -> None:
        while not over.wait(0.05):
            seen.append((time.time_ns() // 1_000_000, on.generator.acknowledged))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield lambda moment: next(count for at, count in reversed(seen) if at <= moment)
    finally:
        over.set()
        thread.join()


def behind(on: Stage, savepoint_id: str) -> bool:
    """Whether input is archived behind a savepoint."""
    found = archive.archived_behind(on.recovery, on.recovery.savepoints.read(savepoint_id))
    return found is not None and found.records > 0 and not found.left


@pytest.mark.fault("F6", "F50")
def test_an_application_whose_cluster_is_lost_goes_on_at_the_other_one_and_comes_home(lost: Lost) -> None:
    play_through(STORY, lost)


@pytest.mark.fault("F50")
def test_what_a_mirror_has_carried_there_is_read_on_behind_the_state_and_nothing_of_it_is_lost(lost: Lost, tmp_path: Path) -> None:
    home, there, brokers = lost.on.home, lost.on.there, lost.on.brokers
    flow = Flow(
        source=(PRIMARY, home.recovery.connection.bootstrap_servers),
        target=(THERE, there.recovery.connection.bootstrap_servers),
        topics="orders",
        settings={"replication.policy.class": IDENTITY, f"{PRIMARY}.consumer.isolation.level": "read_committed"},
    )
    start_mirror(brokers, "mirror", tmp_path, flow)
    saved = lost.on.command("backup", "--json").result()
    at_savepoint = home.generator.acknowledged

    def carried() -> bool | None:
        known = "orders" in there.recovery.cluster.topic_names()
        return True if known and sum(map(len, content(there.recovery, "orders").values())) > at_savepoint + CARRIED_ON else None

    assert poll(carried, seconds=240, interval=1.0), "the mirror carries what came before the savepoint and after it"
    # Both at once, as when a whole place is lost: what the mirror had not carried by then is lost with it.
    lost.on.kill_broker_at_home()
    brokers.stop("mirror")
    lost.halt()
    orders = content(there.recovery, "orders")
    asked = ("failover", "--to", THERE, "--lost", PRIMARY, "--reason", "the cluster is gone")
    planned = lost.on.command(*asked, "--plan", "--json", from_there=True).result()
    report = lost.on.command(*asked, "--approve", planned["approve"], "--json", from_there=True).result()
    assert (report["savepoint_id"], report["move"]["kept"], report["move"]["replaced"]) == (saved["savepoint_id"], ["orders"], {})
    assert {one["topic"] for one in report["topics"]} >= {"inventory", "customers"}, "the others are made from the savepoint"
    there.await_running()
    assert content(there.recovery, "orders") == orders, "the mirrored input stays as it is"
    assert len(numbers(orders)) > at_savepoint
    wait_counted(there.recovery, len(numbers(orders)), seconds=180)
    assert wrong(there, orders) == {0}
    assert wrong(there, feed(there, LATER, orders)) == {0}
    # What still writes to it would wait for it for five minutes.
    home.stack.start_broker(home.processes)


def a_savepoint_is_taken_while_input_comes_in(lost: Lost) -> None:
    lost.acknowledged = lost.on.home.generator.acknowledged
    saved = lost.on.command("backup", "--json").result()
    assert (saved["consistency"], saved["survives_cluster_loss"]) == ("exact", True)
    assert lost.on.home.generator.acknowledged > lost.acknowledged, "input came in meanwhile"


def its_broker_dies_and_its_instances_live_on(lost: Lost) -> None:
    lost.on.kill_broker_at_home()
    lost.halt()
    lost.fed = lost.on.home.generator.acknowledged
    assert alive(lost.on.home) == ["order-processor-1", "order-processor-2"]


def without_a_word_nothing_is_moved(lost: Lost) -> None:
    said = lost.on.command("failover", "--to", THERE, "--reason", "lost", "--plan", from_there=True).refused(3)
    assert f"nobody can prove that the application is stopped at the site {PRIMARY}" in said
    assert where(lost.on.home.recovery) == (PRIMARY, True, ())


def it_is_moved_on_a_word_and_has_counted_what_the_savepoint_has(lost: Lost) -> None:
    there, asked = lost.on.there, ("failover", "--to", THERE, "--lost", PRIMARY, "--reason", "the cluster is gone")
    began = time.monotonic()
    planned = lost.on.command(*asked, "--plan", "--json", from_there=True).result()
    shown = time.monotonic() - began
    report = lost.on.command(*asked, "--approve", planned["approve"], "--json", from_there=True).result()
    over = time.monotonic() - began
    assert (report["move"]["before"], report["move"]["to"], report["move"]["lost"]) == (PRIMARY, THERE, True)
    assert report["rows"] > len(report["topics"]) > 0
    there.await_running()
    lost.moved = content(there.recovery, "orders")
    kept = numbers(lost.moved)
    wait_counted(there.recovery, len(kept), seconds=180)
    rto = time.monotonic() - began
    assert set(range(lost.acknowledged)) <= set(kept)
    assert wrong(there, lost.moved) == {0}
    assert where(there.recovery) == (THERE, True, (PRIMARY,))
    assert alive(lost.on.home) == ["order-processor-1", "order-processor-2"], "nobody at the other site could reach them"
    sys.stdout.write(
        f"RTO {rto:.0f} s: plan {shown:.0f} s, moved after {over:.0f} s, RUNNING and caught up after {rto:.0f} s; {lost.fed - len(kept)} of "
        f"{lost.fed} acknowledged orders came after the savepoint\n"
    )


def it_works_at_the_other_site_and_is_saved_there(lost: Lost) -> None:
    there = lost.on.there
    feed(there, LATER, content(there.recovery, "orders"))
    first = there.instances()
    saved = lost.on.command("backup", "--json").result()
    manifest = there.recovery.savepoints.read(saved["savepoint_id"])
    assert (saved["consistency"], manifest.parent_id, manifest.cluster_id) == ("exact", None, there.recovery.cluster.cluster_id())
    assert there.await_running() == first, "it was held, not started again"
    assert where(there.recovery) == (THERE, True, (PRIMARY,)), "the lost site does not answer yet"
    assert right(lost)


def its_cluster_comes_back_and_what_lived_there_goes_on(lost: Lost) -> None:
    home = lost.on.home
    home.stack.start_broker(home.processes)

    def working() -> bool | None:
        group = home.recovery.groups.describe(home.recovery.application_id)
        return True if group.state == "Stable" and len(group.members) >= 2 else None

    assert poll(working, seconds=180, interval=0.5), "what lived on at home is to work there again"
    assert alive(home) == ["order-processor-1", "order-processor-2"]
    for partition, records in content(home.recovery, "orders").items():
        assert records[: len(lost.moved[partition])] == lost.moved[partition], "what was moved is what stood at home"


def the_next_savepoint_stops_it_before_anything_else(lost: Lost) -> None:
    home, there = lost.on.home, lost.on.there
    untouched = there.await_running()
    saved = lost.on.command("backup", "--json").result()
    assert alive(home) == []
    assert home.recovery.groups.describe(home.recovery.application_id).empty
    assert where(there.recovery) == (THERE, True, ())
    lifted = next(there.recovery.sites.log.readable_back())
    assert lifted.at < there.recovery.savepoints.read(saved["savepoint_id"]).captured_at
    assert there.await_running() == untouched
    feed(there, LATER, content(there.recovery, "orders"))
    assert right(lost)


def what_its_loss_left_open_for_good_is_ended(lost: Lost) -> None:
    """A coordinator that ends a transaction before all brokers are back can leave partitions of it without a marker."""
    recovery = lost.on.home.recovery
    names = ["__consumer_offsets", *lost.on.home.internal_topics(), *recovery.config.topics.outputs]
    found = recovery.cluster.describe_topics(names)
    partitions = [TopicPartition(name, number) for name in names for number in range(found[name].partitions)]

    def only_hanging() -> tuple[OpenTransaction, ...] | None:
        blocking = recovery.transactions.blocking(partitions)
        return blocking if all(one.hanging for one in blocking) else None

    left = poll(only_hanging, seconds=60, interval=0.5)
    assert left is not None, "all others end with their time-out"
    if left:
        for told in recovery.transactions.remedy({one.tp for one in left}, left).commands:
            done(told)
    sys.stdout.write(f"transactions hung on {len({one.tp for one in left})} of {len(partitions)} partitions\n")
    assert recovery.transactions.blocking(partitions) == ()


def home_has_orders_that_nobody_else_has_and_is_not_emptied(lost: Lost) -> None:
    lost.settle()
    lost.on.command("backup", "--json").result()
    before = content(lost.on.home.recovery, "orders")
    said = lost.on.command("failover", "--to", PRIMARY, "--replace", "--reason", "it is back", "--plan").refused(3)
    assert "does not have all that it holds" in said
    assert (where(lost.on.there.recovery), content(lost.on.home.recovery, "orders")) == ((THERE, True, ()), before)


def they_are_processed_where_it_runs_and_saved(lost: Lost) -> None:
    home, there = lost.on.home, lost.on.there
    producer = Producer({"bootstrap.servers": there.recovery.connection.bootstrap_servers, "enable.idempotence": True, "log_level": 0})
    for partition, records in content(home.recovery, "orders").items():
        for key, value, timestamp in records[len(lost.moved[partition]) :]:
            producer.produce("orders", value, key, partition, timestamp=timestamp)
    assert producer.flush(60) == 0
    orders = numbers(content(there.recovery, "orders"))
    assert set(range(lost.fed)) < set(orders), "what was acknowledged at home before it was lost"
    wait_counted(there.recovery, len(orders), seconds=180)
    assert right(lost)
    lost.on.command("backup", "--json").result()


def it_goes_home_with_all_that_was_ever_ordered(lost: Lost) -> None:
    home, there = lost.on.home, lost.on.there
    orders, left = content(there.recovery, "orders"), content(home.recovery, "orders")
    asked = ("failover", "--to", PRIMARY, "--replace", "--reason", "it is back")
    began = time.monotonic()
    planned = lost.on.command(*asked, "--plan", "--json").result()
    report = lost.on.command(*asked, "--approve", planned["approve"], "--json").result()
    assert (report["move"]["before"], report["move"]["to"], report["move"]["lost"]) == (THERE, PRIMARY, False)
    home.await_running()
    wait_counted(home.recovery, len(numbers(orders)), seconds=180)
    sys.stdout.write(f"home after {time.monotonic() - began:.0f} s: RUNNING and caught up\n")
    assert (alive(there), where(home.recovery)) == ([], (PRIMARY, True, ()))
    # Where the same records stand at the end of both, it reads on behind them, and the input at home stays as it is.
    assert content(home.recovery, "orders") == (left if "orders" in report["move"]["kept"] else orders)
    assert wrong(home, orders) == {0}
    assert wrong(home, feed(home, LATER, orders)) == {0}


STORY = (
    a_savepoint_is_taken_while_input_comes_in,
    its_broker_dies_and_its_instances_live_on,
    without_a_word_nothing_is_moved,
    it_is_moved_on_a_word_and_has_counted_what_the_savepoint_has,
    it_works_at_the_other_site_and_is_saved_there,
    its_cluster_comes_back_and_what_lived_there_goes_on,
    the_next_savepoint_stops_it_before_anything_else,
    what_its_loss_left_open_for_good_is_ended,
    home_has_orders_that_nobody_else_has_and_is_not_emptied,
    they_are_processed_where_it_runs_and_saved,
    it_goes_home_with_all_that_was_ever_ordered,
)


def alive(on: Stage) -> list[str]:
    """Instances that are not gone."""
    return [status.name for status in on.recovery.application.status() if status.state is not InstanceState.GONE]


def numbers(orders: Content) -> list[int]:
    """The orders of an input, by the numbers in them."""
    found = [order["order"] for _, order in read(orders)]
    assert len(found) == len(set(found)), "an order is there twice"
    return sorted(found)


def read(orders: Content) -> list[tuple[str, dict[str, Any]]]:
    """Each order with its customer, those of one in the order in which they came."""
    return [(key.decode(), json.loads(value)) for records in orders.values() for key, value, _ in records if key and value]


def made_of(on: Stage, orders: Content) -> Stores:
    """What these orders make of each store. Most do not depend on the order in which they came; in two the newest one to come counts, whatever its time."""
    world = on.generator.world
    found = truth(world, numbers(orders))
    latest = dict(read(orders))
    joined = {customer: order | world.product(int(str(order["product"])[2:])) for customer, order in latest.items()}
    return {**found, "latest-orders": latest, "enriched-orders": joined}


def wrong(on: Stage, orders: Content) -> set[int]:
    """How many keys of each store differ from what these orders make of them."""
    found = differences(on.recovery, made_of(on, orders))
    assert set(found.values()) == {0}, found
    return set(found.values())


def feed(on: Stage, count: int, known: Content) -> Content:
    """New orders at a site that has counted those that are ``known``. All of them, once they are counted."""
    generator = Generator(on.recovery.connection.bootstrap_servers, on.generator.world)
    before = content(on.recovery, "orders")
    generator.sent = max(numbers(known)[-1] + 1, FIRST_THERE)
    generator.feed(count)
    found = {number: known[number] + records[len(before[number]) :] for number, records in content(on.recovery, "orders").items()}
    wait_counted(on.recovery, len(numbers(found)), seconds=180)
    return found


def right(lost: Lost) -> bool:
    """Whether all that the application answers at the other site is true of the input there."""
    there = lost.on.there
    return wrong(there, content(there.recovery, "orders")) == {0}
