"""The running example, with one store of every kind, on 4, 12 and 3 partitions, by the real DAG: every key equals what was computed without it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from embedded.airflow import Airflow
from embedded.demo.checks import differences, wait_counted
from embedded.stack import APPLICATION
from examples.order_processing.generator import Generator
from examples.order_processing.truth import truth
from tests.support.stack.dag_runs import Play
from tests.support.stack.stage import ORDERS, stage

pytestmark = [pytest.mark.system, pytest.mark.deep, pytest.mark.timeout(3_600)]
BACKUP, RESCALE = f"streams_backup_{APPLICATION}", "streams_restore_rescale"
LATER = 700


@pytest.fixture(params=["exactly_once_v2", "at_least_once"])
def play(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    with stage(tmp_path_factory.mktemp("stage"), guarantee=request.param) as on:
        client = Airflow(on.stack, on.processes).start()
        yield Play(on, client)
        client.close()


@pytest.mark.fault("F50")
def test_every_store_of_the_example_goes_on_with_more_partitions_and_with_fewer(play: Play) -> None:
    on, orders, generator = play.on, ORDERS, play.on.generator
    for number in (12, 3):
        play.succeed(BACKUP)
        orders += LATER
        generator.feed(LATER)
        wait_counted(on.recovery, orders, seconds=180)
        play.succeed(
            RESCALE,
            application=APPLICATION,
            partitions=f"orders={number} inventory={number}",
            reason="more instances",
            confirm=on.recovery.application_id,
        )
        on.await_running()
        changed = on.recovery.cluster.describe_topics([*on.internal_topics(), "orders", "inventory"])
        assert {found.partitions for found in changed.values()} == {number}
        # Producers are started anew: one that runs on would go on with the old number.
        generator = Generator(on.stack.bootstrap, generator.world, sent=generator.sent)
        # Keys that were there and keys that come go to the same stores.
        orders += LATER
        generator.feed(LATER)
        wait_counted(on.recovery, orders, seconds=180)
        assert set(differences(on.recovery, truth(generator.world, range(orders))).values()) == {0}
    assert on.held() == []
