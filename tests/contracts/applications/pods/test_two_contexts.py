"""Two sites of an application in two contexts of one kubeconfig: the same workload name and namespace, and two workloads. On two real control planes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from streams_recovery.application.port import InstanceState
from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.loader import load_named
from streams_recovery.core.errors import NotFound, Refused
from streams_recovery.core.repository.sites import PRIMARY
from streams_recovery.operations.context import open_context
from tests.support.applications.rig import APPLICATION_ID
from tests.support.kubernetes.pod_rig import PodRig, running_cluster, wait

pytestmark = pytest.mark.deep
CONTEXTS = {PRIMARY: "home", "dr": "away"}


@pytest.fixture
def rigs(cluster, tmp_path):
    """The workload in both, by site."""
    with running_cluster(tmp_path / "other") as other:
        made = {PRIMARY: PodRig(cluster, tmp_path / "one")}
        made["dr"] = PodRig(other, tmp_path / "two", namespace=made[PRIMARY].namespace)
        yield made
        for one in made.values():
            one.close()


@pytest.fixture
def opened(rigs, tmp_path):
    """Opens the application at a site. No broker answers."""
    merged = {"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": [], "current-context": CONTEXTS[PRIMARY]}
    for site, rig in rigs.items():
        name, one = CONTEXTS[site], yaml.safe_load(Path(rig.section["kubeconfig"]).read_text())
        merged["clusters"].append({"name": name, "cluster": one["clusters"][0]["cluster"]})
        merged["users"].append({"name": name, "user": one["users"][0]["user"]})
        merged["contexts"].append({"name": name, "context": {"cluster": name, "user": name}})
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(merged))

    def runs(site):
        section = {**rigs[site].section, "kubeconfig": str(file), "context": CONTEXTS[site]}
        return {"kind": "kubernetes", "kubernetes": section}

    config = {
        "version": 1,
        "application": {"id": APPLICATION_ID, "guarantee": "exactly_once_v2"},
        "source": {"timeout_seconds": 1},
        "topics": {"inputs": ["in"]},
        "backup": {"survive_cluster_loss": False},
        "storage": {"backend": "filesystem", "path": str(tmp_path / "repository")},
        "runs": runs(PRIMARY),
        "sites": {"dr": {"connection": "kafka_dr", "runs": runs("dr")}},
    }
    (tmp_path / "app.yaml").write_text(json.dumps(config))
    kafka = json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:9"}})
    connections = EnvironmentConnections({"AIRFLOW_CONN_KAFKA_DEFAULT": kafka, "AIRFLOW_CONN_KAFKA_DR": kafka})
    return lambda site=None: open_context(load_named("app", tmp_path, {}), connections, site=site, patience=1)


def states(recovery):
    return {one.state for one in recovery.application.status()}


def test_each_site_is_asked_started_and_stopped_in_its_own_context(rigs, opened):
    home, away = rigs[PRIMARY], rigs["dr"]
    with opened(PRIMARY) as here, opened("dr") as there:
        assert (here.application.preflight(stops=True, wipes=True), there.application.preflight(stops=True, wipes=True)) == ((), ())
        here.application.start()
        home.await_up()
        assert (states(here), states(there)) == ({InstanceState.RUNNING}, {InstanceState.GONE})
        assert (len(home.pods()), len(away.pods())) == (2, 0)
        # What runs at one is seen from the other, so nothing is started beside it.
        seen = here.sites.look(PRIMARY), here.sites.look("dr")
        assert [len(one.instances) for one in seen] == [2, 0]
        moved = here.sites.moving("dr", cluster_id="c", run="r", requested_by="me", reason="", fence=None)
        here.sites.write(moved.at_work(at=here.clock()))
    with opened() as there:
        assert there.site == "dr"
        with pytest.raises(Refused, match="runs elsewhere"):
            there.application.start()
        with there.at(PRIMARY) as old:
            assert old.application.stop(timeout=20).gone
        there.application.start()
        away.await_up()
        wait(lambda: states(there) == {InstanceState.RUNNING})
        assert (len(home.pods()), len(away.pods())) == (0, 2)
        assert there.application.stop(timeout=20).gone


def test_a_workload_that_is_missing_at_one_site_is_missing_there_alone(rigs, opened):
    away = rigs["dr"]
    away.api.delete(away.own(), {"propagationPolicy": "Background"})
    wait(lambda: away.api.find(away.own()) is None)
    with opened(PRIMARY) as here, opened("dr") as there:
        assert here.application.preflight(stops=True) == ()
        with pytest.raises(NotFound, match="statefulset/counting"):
            there.application.preflight(stops=True)
