"""A failover by its DAG, on two real brokers: each task is taken at the right site, and what fails half way says how it goes on."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streams_recovery.cli import runs
from streams_recovery.cli.runner import Runner
from streams_recovery.core.errors import SparkJobFailed
from streams_recovery.core.repository.sites import PRIMARY
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.engine.submitter import SparkJob, Submitter
from streams_recovery.operations import restore
from tests.support.airflow.dag_runs import Done, run
from tests.support.applications.two_sites import AtTwoSites, belongs_to, two_brokers

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture
def sites(metadata: None, bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AtTwoSites]:
    """The application at home, with a configuration that tasks of Airflow find. Variables of a test are those of its tasks."""
    with two_brokers(tmp_path, bootstrap) as found:
        for name, value in found.variables.items():
            monkeypatch.setenv(name, value)
        yield found


@pytest.fixture
def taken_at(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Notes at which site each task opens the application."""
    from streams_recovery.hooks import context
    from streams_recovery.operators import base, spark

    found: dict[str, str] = {}
    opened = context.context_of

    def noting(name: str, site: str | None = None, **more: Any) -> Any:
        entered = opened(name, site, **more)
        task = os.environ["AIRFLOW_CTX_TASK_ID"]

        class Noted:
            def __enter__(self) -> Any:
                recovery = entered.__enter__()
                found[task] = recovery.site
                return recovery

            def __exit__(self, *error: Any) -> Any:
                return entered.__exit__(*error)

        return Noted()

    for module in (base, spark):
        monkeypatch.setattr(module, "context_of", noting)
    return found


def moved(sites: AtTwoSites, submitter: Submitter, **asked: Any) -> Done:
    return run(sites, "failover", submitter, application=sites.name, **{"to": "dr", **asked})


@pytest.mark.way("failover")
def test_it_is_moved_task_by_task_and_each_is_taken_at_the_new_site(
    sites: AtTwoSites, in_session: Submitter, taken_at: dict[str, str]
) -> None:
    sites.worked("abcab")
    savepoint = sites.savepoint(in_session)
    sites.start()
    done = moved(sites, in_session)
    assert (done.state, done.by("success")) == ("success", set(done.tasks)), done
    assert done.jobs[0] == "restore"
    # The approval and what is said at the end need no cluster.
    assert set(taken_at.values()) == {"dr"}, taken_at
    assert set(taken_at) >= {
        "plan",
        "stop_application",
        "load_records",
        "record_site",
        "finish",
        "abandon",
    }
    assert (sites.runs_at(), belongs_to(sites)) == (["dr"], ("dr", True, ()))
    there = sites.at("dr")
    assert (there.state(), there.committed(), there.free()) == ({"a": 2, "b": 2, "c": 1}, 5, True)
    with there.recovery() as recovery:
        report = restore.evidence(recovery)[0]
    assert (report.savepoint_id, report.part.move and (report.part.move.before, report.part.move.to)) == (savepoint, (PRIMARY, "dr"))


@pytest.mark.deep
def test_what_cannot_be_is_refused_before_anybody_is_asked(
    sites: AtTwoSites, in_session: Submitter, capsys: pytest.CaptureFixture[str]
) -> None:
    sites.worked("abcab")
    sites.savepoint(in_session)
    sites.start()
    refused = {
        "counting has no site 'nowhere'; known: primary, dr": {"to": "nowhere"},
        "belongs to the site primary already": {"to": PRIMARY},
        "'dr' is typed as the site that cannot be reached, and the application leaves primary": {"lost": "dr"},
    }
    for said, asked in refused.items():
        done = moved(sites, in_session, **asked)
        assert (done.state, done.by("failed"), done.jobs) == ("failed", {"plan"}, [])
        assert said in capsys.readouterr().out
    assert (sites.runs_at(), sites.at("dr").topics()) == ([PRIMARY], set())


class Failing:
    """See Submitter. Loads nothing."""

    def submit(self, job: SparkJob) -> ArtifactRef:
        """Fail."""
        raise SparkJobFailed(f"no executor for {job.name}", next_step="look at its log")


@pytest.mark.deep
def test_a_run_that_fails_after_the_move_says_how_it_goes_on_and_that_command_brings_it_there(
    sites: AtTwoSites, in_session: Submitter, taken_at: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    sites.worked("abcab")
    sites.savepoint(in_session)
    sites.start()
    done = moved(sites, Failing())
    assert (done.state, done.by("failed"), done.tasks["abandon"]) == ("failed", {"load_records"}, "success"), done
    assert set(taken_at.values()) == {"dr"}, taken_at
    assert (sites.runs_at(), belongs_to(sites)) == ([], ("dr", False, ()))
    [command] = done.results["abandon"]["commands"]
    assert command in capsys.readouterr().out
    [words] = re.findall(r"^streams-recovery resume counting (\S+) --approve (\w+)$", command)
    restore_id, approval = words
    with sites.recovery() as recovery:
        assert recovery.site == "dr", "whoever resumes is where the application belongs by now"
        runner = Runner(recovery=recovery, submitter=in_session, say=print)
        requester = runs.Requester(run_id="again", requested_by="me")
        report = runs.resume(runner, restore_id, requester, take_over=False, approve=lambda planned: planned.hash == approval)
    assert report.part.move is not None
    assert (sites.runs_at(), belongs_to(sites)) == (["dr"], ("dr", True, ()))
    assert sites.at("dr").state() == {"a": 2, "b": 2, "c": 1}


@pytest.mark.deep
@pytest.mark.fault("F6")
def test_a_lost_cluster_is_left_on_a_word(sites: AtTwoSites, in_session: Submitter, capsys: pytest.CaptureFixture[str]) -> None:
    sites.worked("abcab")
    sites.savepoint(in_session)
    sites.start()
    sites.end_broker()
    done = moved(sites, in_session)
    assert (done.state, done.by("failed")) == ("failed", {"plan"})
    assert "nobody can prove that the application is stopped at the site primary" in capsys.readouterr().out
    assert sites.runs_at() == [PRIMARY]
    done = moved(sites, in_session, lost=PRIMARY)
    assert (done.state, done.by("success")) == ("success", set(done.tasks)), done
    assert "primary cannot be asked" in done.results["plan"]["text"]
    assert "and is left on your word" in done.results["plan"]["text"]
    assert "left on a person's word, not proven stopped: cluster: " in capsys.readouterr().out
    assert (sites.runs_at(), belongs_to(sites)) == (["dr"], ("dr", True, (PRIMARY,)))
