"""A drill from a terminal, whole: its jobs are Spark's, and what it measured is there for the next plan."""

from __future__ import annotations

import json

import pytest

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
