"""The running example, with a store of every kind, on 4, 12 and 3 partitions, by the real DAG, under load: every key equals what was computed without it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

import pytest

from embedded.airflow import Airflow
from embedded.demo.checks import differences, wait_counted
from embedded.stack import APPLICATION
from examples.order_processing.generator import Generator
from examples.order_processing.truth import truth
from streams_recovery.application.port import InstanceState
from streams_recovery.core.waiting import poll
from tests.support.stack.dag_runs import Play
from tests.support.stack.stage import ORDERS, Stage, stage

pytestmark = [pytest.mark.system, pytest.mark.deep, pytest.mark.timeout(3_600)]
BACKUP, RESCALE = f"streams_backup_{APPLICATION}", "streams_restore_rescale"
# Orders that come behind the rescale, and how many a second.
LATER, RATE = 700, 100.0


@pytest.fixture(params=["exactly_once_v2", "at_least_once"])
def play(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    with stage(tmp_path_factory.mktemp("stage"), guarantee=request.param) as on:
        client = Airflow(on.stack, on.processes).start()
        yield Play(on, client)
        client.close()


@contextmanager
def fed_until_the_stop(on: Stage, generator: Generator) -> Iterator[None]:
    """Orders come in until the application has been stopped, as the page asks of producers: some of them are unread then."""
    over = Event()

    def stopped() -> bool | None:
        return True if over.is_set() or all(one.state is InstanceState.GONE for one in on.recovery.application.status()) else None

    with ThreadPoolExecutor(1) as pool, generator.trickle(RATE) as stop:
        watching = pool.submit(lambda: poll(stopped, seconds=900, interval=0.05) and stop())
        try:
            yield
        finally:
            over.set()
    watching.result()


def unread_at_the_stop(on: Stage) -> int:
    """Offsets of orders behind what the application had read when it was stopped."""
    saved = on.recovery.safety.latest()
    topic = None if saved is None else saved.topic("orders")
    assert topic is not None
    return sum(image.end - (image.committed.offset if image.committed else 0) for image in topic.partitions)


@pytest.mark.fault("F50")
def test_every_store_of_the_example_goes_on_with_more_partitions_and_with_fewer(play: Play) -> None:
    on, orders, generator = play.on, ORDERS, play.on.generator
    for number in (12, 3):
        play.succeed(BACKUP)
        with fed_until_the_stop(on, generator):
            play.succeed(
                RESCALE,
                application=APPLICATION,
                partitions=f"orders={number} inventory={number}",
                reason="more instances",
                confirm=on.recovery.application_id,
            )
        assert generator.acknowledged == generator.sent > orders
        assert unread_at_the_stop(on) > 0
        orders = generator.sent
        on.await_running()
        changed = on.recovery.cluster.describe_topics([*on.internal_topics(), "orders", "inventory"])
        assert {found.partitions for found in changed.values()} == {number}
        # Producers are started anew: one that runs on would go on with the old number.
        generator = Generator(on.stack.bootstrap, generator.world, sent=generator.sent)
        # Keys that were there and keys that come go to the same stores.
        orders += LATER
        generator.feed(LATER, rate=RATE)
        wait_counted(on.recovery, orders, seconds=180)
        assert set(differences(on.recovery, truth(generator.world, range(orders))).values()) == {0}
    assert on.held() == []
