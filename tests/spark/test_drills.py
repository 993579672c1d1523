"""A drill from a terminal, whole: its jobs are Spark's, and what it measured is there for the next plan."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from embedded.broker import start_broker
from embedded.ports import free_ports
from embedded.processes import Processes
from streams_recovery.operations import restore, sandbox
from tests.support.applications import fleet
from tests.support.spark.small_app import SmallApp

pytestmark = pytest.mark.deep


def test_a_drill_from_a_terminal_is_measured_proven_and_removed(bootstrap, tmp_path):
    app = SmallApp(bootstrap=bootstrap, directory=tmp_path, partitions=2, rows=200)
    app.configure("small")
    programs = fleet.programs(tmp_path / "drill")
    with (tmp_path / "small.yaml").open("a") as file:
        file.write(f"drill: {json.dumps({'schedule': 'none', 'application_id': f'drill-{app.id}', 'command': programs})}\n")
    app.build()
    code, said = app.run("backup", "small")
    assert code == 0, said
    before = app.contents(), app.committed()

    code, said = app.run("drill", "small", log="drill.log")
    assert code == 0, said
    assert "drill succeeded: RPO" in said
    assert (app.contents(), app.committed()) == before
    with app.recovery() as recovery, app.recovery("small:drill") as scratch:
        [entry] = sandbox.drills(recovery)
        # Equal rows have equal keys, so no keys were compared.
        assert (entry.rows, entry.keys_compared, entry.left) == (400, 0, ())
        assert not [name for name in recovery.cluster.topic_names() if name.startswith(scratch.application_id)]
        assert scratch.application_id not in recovery.cluster.groups()
        assert scratch.lock.holder() is None
        report, page = restore.evidence(scratch)
        assert "**Equal.**" in page
        assert (report.restore_id, report.verdict, report.rows) == (entry.restore_id, restore.Verdict.EQUAL, 400)
        planned = restore.plan(scratch, restore.FromSavepoint(source=app.id, savepoint="latest", reason="drill"))
        assert planned.observed.estimate.measured == 1
        took = sum(report.seconds.values())
        assert 0.5 < planned.observed.estimate.total / took < 2

    code, said = app.run("evidence", "small:drill", log="evidence.log")
    assert code == 0, said
    assert report.topics[0].restored_digest in said


def test_a_drill_at_another_site_succeeds_while_the_cluster_of_the_application_is_down(bootstrap, tmp_path):
    app = Mirrored(bootstrap=bootstrap, directory=tmp_path, partitions=2, rows=200)
    name = f"drill-{app.id}"
    with Processes(tmp_path / "processes") as processes:
        port, controller = free_ports(2)
        app.bootstrap = start_broker(processes, tmp_path / "broker", port=port, controller_port=controller)
        app.configure("small")
        at_dr = {"kind": "command", "command": fleet.programs(tmp_path / "dr")}
        drill = {
            "schedule": "none",
            "site": "dr",
            "application_id": name,
            "topic_map": {f"{app.id}.in": f"{name}.in"},
            "command": fleet.programs(tmp_path / "drill") | {"environment": {"IN": f"{name}.in"}},
        }
        text = (tmp_path / "small.yaml").read_text().replace("survive_cluster_loss: false", "survive_cluster_loss: true")
        sites = {"dr": {"connection": "kafka_dr", "runs": at_dr}}
        (tmp_path / "small.yaml").write_text(f"{text}sites: {json.dumps(sites)}\ndrill: {json.dumps(drill)}\n")
        app.build()
        code, said = app.run("backup", "small")
        assert code == 0, said
    # Nothing answers there any more.
    code, said = app.run("drill", "small", log="drill.log")
    assert code == 0, said
    assert "drill succeeded at dr: RPO" in said
    with app.recovery() as recovery, app.recovery("small:drill") as scratch:
        [entry] = sandbox.drills(recovery)
        assert (entry.site, entry.rows, entry.succeeded, entry.left) == ("dr", 410, True, ())
        assert scratch.site == "dr"
        assert not [topic for topic in scratch.cluster.topic_names() if topic.startswith(name)]


@dataclass(kw_only=True)
class Mirrored(SmallApp):
    """An application whose second site is the tests' broker, ``dr``."""

    dr: str = ""

    def __post_init__(self):
        self.dr = self.bootstrap

    @property
    def variables(self):
        dr = {"conn_type": "kafka", "extra": {"bootstrap.servers": self.dr}}
        return super().variables | {"AIRFLOW_CONN_KAFKA_DR": json.dumps(dr)}
