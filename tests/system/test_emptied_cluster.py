"""A cluster that lost everything, inputs too: what the repository holds comes back, and what came after the savepoint is gone and is counted."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest

from embedded.demo.checks import differences, newest_recovered_ms, wait_counted
from embedded.demo.disaster import destroy, kill_processes
from embedded.stack import Stack
from examples.order_processing.truth import truth
from streams_recovery.cli import runs
from streams_recovery.cli.runner import Runner
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.kafka_types import Profile, TopicPartition, TopicRole
from streams_recovery.core.offsets.strategies import parse
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.report import Verdict
from streams_recovery.engine.submitter import SparkSubmit
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.strategies import Rebuild
from streams_recovery.operations.savepoint import SavepointRequest
from tests.support.applications.small import asked
from tests.support.kubernetes.pod_rig import running_cluster
from tests.support.kubernetes.pod_stack import in_pods, pod_killer
from tests.support.stack.stage import ORDERS, Stage, stage

pytestmark = [pytest.mark.system, pytest.mark.timeout(2_400)]
LOST, LATER = 700, 500


class Minimal(Stack):
    """A stack whose savepoints have no state, and the records of all that the application reads and writes."""

    def config(self) -> ApplicationConfig:
        """The example's configuration with that."""
        found = super().config()
        backup = found.backup.model_copy(update={"profile": Profile.MINIMAL})
        topics = replace(found.topics, include=found.topics.outputs)
        return found.model_copy(update={"backup": backup, "topics": topics})


@dataclass(frozen=True)
class Lost:
    """An application, and what kills it."""

    on: Stage
    kill: Callable[[RecoveryContext], None] = kill_processes


@pytest.fixture(params=["exactly_once_v2", *(pytest.param(other, marks=pytest.mark.deep) for other in ("at_least_once", "kubernetes"))])
def lost(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lost]:
    """An application under each guarantee, and one in pods."""
    directory = tmp_path_factory.mktemp("stage")
    if request.param != "kubernetes":
        with stage(directory, guarantee=request.param) as found:
            yield Lost(found)
        return
    with running_cluster(tmp_path_factory.mktemp("control-plane")) as cluster, stage(directory, kind=in_pods(cluster)) as found:
        yield Lost(found, pod_killer(cluster))


@pytest.mark.way("restore")
@pytest.mark.fault("F50")
def test_what_was_saved_comes_back_and_the_rest_is_measured(lost: Lost) -> None:
    on = lost.on
    recovery, generator = on.recovery, on.generator
    runner = runner_of(on)
    taken = runs.backup(runner, SavepointRequest(run_id=uuid.uuid4().hex, requested_by="test", reason="", mode=None))
    assert taken.survives_cluster_loss, "the example's own configuration promises it"
    saved_ms = generator.newest_acknowledged_ms
    generator.feed(LOST)
    wait_counted(recovery, generator.acknowledged, seconds=180)
    lost_ms = generator.newest_acknowledged_ms
    assert saved_ms is not None
    assert lost_ms is not None

    destroy(recovery, lost.kill)
    recovery.cluster.delete_topics(list(recovery.config.topics.declared))
    report = runs.restore_in_place(runner, asked(recovery), runs.Requester(run_id="lost", requested_by="test"), approve=shown)
    assert report.safety_savepoint is None, "there was nothing left to save"
    on.await_running()
    assert newest_recovered_ms(recovery, generator.world) == saved_ms
    rpo_seconds = (lost_ms - saved_ms) / 1000
    assert rpo_seconds == LOST * generator.world.step_ms / 1000
    assert set(differences(recovery, truth(generator.world, range(ORDERS))).values()) == {0}

    generator.feed(LATER)
    wait_counted(recovery, ORDERS + LATER, seconds=180)
    kept = [*range(ORDERS), *range(ORDERS + LOST, ORDERS + LOST + LATER)]
    assert set(differences(recovery, truth(generator.world, kept)).values()) == {0}
    assert on.held() == []


@pytest.mark.deep
@pytest.mark.fault("F50")
@pytest.mark.fault("F54")
def test_without_any_saved_state_it_is_built_again_from_the_archived_input(tmp_path_factory: pytest.TempPathFactory) -> None:
    with stage(tmp_path_factory.mktemp("stage"), kind=Minimal) as on:
        recovery, generator, runner = on.recovery, on.generator, runner_of(on)
        taken = runs.backup(runner, SavepointRequest(run_id=uuid.uuid4().hex, requested_by="test", reason="", mode=None))
        assert (taken.profile, taken.survives_cluster_loss) == (Profile.MINIMAL, True)
        saved = recovery.savepoints.read(taken.savepoint_id)
        generator.feed(LOST)
        wait_counted(recovery, generator.acknowledged, seconds=180)

        destroy(recovery)
        recovery.cluster.delete_topics(list(recovery.config.topics.declared))
        earliest = parse("earliest", group="", read=lambda _: b"")
        request = asked(recovery, Rebuild, inputs_from="latest", offsets=earliest)
        report = runs.restore_in_place(
            runner,
            request,
            runs.Requester(run_id="lost", requested_by="test"),
            approve=lambda planned: shown(planned) and beginning(planned),
        )
        assert (report.savepoint_id, report.verdict) == (None, Verdict.EQUAL)
        assert set(report.manifests) == {taken.savepoint_id}
        assert report.rows == sum(topic.rows for topic in saved.topics if not topic.role.internal)
        on.await_running()
        wait_counted(recovery, ORDERS, seconds=180)
        assert set(differences(recovery, truth(generator.world, range(ORDERS))).values()) == {0}
        # Windows that are still open have no final result yet.
        archived = {topic.name: topic.rows for topic in saved.topics if topic.role is TopicRole.OUTPUT and topic.rows}
        assert archived
        for name, rows in archived.items():
            partitions = recovery.cluster.describe_topics([name])[name].partitions
            ends = recovery.cluster.high_watermarks([TopicPartition(name, number) for number in range(partitions)])
            assert sum(ends.values()) > rows, "what was written before, and what is written again behind it"

        generator.feed(LATER)
        wait_counted(recovery, ORDERS + LATER, seconds=180)
        kept = [*range(ORDERS), *range(ORDERS + LOST, ORDERS + LOST + LATER)]
        assert set(differences(recovery, truth(generator.world, kept)).values()) == {0}
        assert on.held() == []


def runner_of(on: Stage) -> Runner:
    return Runner(recovery=on.recovery, submitter=SparkSubmit(master="local[2]", logs=on.stack.directory / "logs"), say=print)


def beginning(planned: RestorePlan) -> bool:
    return {item.wanted.offset for item in planned.offsets} == {0} and not planned.delete


def shown(planned: RestorePlan) -> bool:
    made = {topic.name for topic in planned.create}
    return made >= {"orders", "inventory", "customers", "customer-totals"}
