"""An exactly-once application in pods that answer nothing: saved while it works, lost, and brought back, by what Kubernetes and its group say."""

from __future__ import annotations

import os
import uuid

import pytest

from embedded.demo.checks import differences, wait_counted
from embedded.demo.disaster import destroy
from examples.order_processing.truth import truth
from streams_recovery.cli import runs
from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.cli.runner import Runner
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.runs import Runs
from streams_recovery.core.kafka_types import Consistency, QuiesceMode
from streams_recovery.engine.submitter import SparkSubmit
from streams_recovery.operations.context import open_context
from streams_recovery.operations.savepoint import SavepointRequest, before_savepoint
from tests.support.applications.small import asked
from tests.support.kubernetes.pod_rig import running_cluster
from tests.support.kubernetes.pod_stack import in_pods, pod_killer
from tests.support.stack.stage import ORDERS, stage

pytestmark = [pytest.mark.system, pytest.mark.deep, pytest.mark.timeout(2_400)]
LATER = 500


def without_endpoints(config: ApplicationConfig) -> ApplicationConfig:
    """The same application, as somebody configures it whose program has none."""
    section = config.runs.chosen.model_dump(exclude={"port", "control"})
    return config.model_copy(update={"runs": Runs.model_validate({"kind": "kubernetes", "kubernetes": section})})


def test_it_is_saved_while_it_works_and_comes_back(tmp_path_factory: pytest.TempPathFactory) -> None:
    with (
        running_cluster(tmp_path_factory.mktemp("control-plane")) as cluster,
        stage(tmp_path_factory.mktemp("stage"), kind=in_pods(cluster)) as on,
        open_context(without_endpoints(on.recovery.config), EnvironmentConnections({**os.environ, **on.stack.variables})) as recovery,
    ):
        runner = Runner(recovery=recovery, submitter=SparkSubmit(master="local[2]", logs=on.stack.directory / "logs"), say=print)
        assert {(one.silent, one.streams_state) for one in recovery.application.status()} == {(True, "RUNNING")}
        assert [one for one in before_savepoint(recovery, QuiesceMode.LIVE) if one.severity == "blocking"] == []
        taken = runs.backup(runner, SavepointRequest(run_id=uuid.uuid4().hex, requested_by="test", reason="", mode=QuiesceMode.LIVE))
        manifest = recovery.savepoints.read(taken.savepoint_id)
        assert (taken.consistency, manifest.proof.names is None) == (Consistency.EXACT, False)

        destroy(on.recovery, pod_killer(cluster))
        runs.restore_in_place(runner, asked(recovery), runs.Requester(run_id="lost", requested_by="test"), approve=lambda _: True)
        on.await_running()
        on.generator.feed(LATER)
        wait_counted(on.recovery, ORDERS + LATER, seconds=180)
        assert set(differences(on.recovery, truth(on.generator.world, range(ORDERS + LATER))).values()) == {0}
        assert on.held() == []
