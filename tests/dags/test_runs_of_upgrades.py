"""An upgrade in place by its DAG, from its file to what it leaves on a real broker: it succeeds, and it fails in each way."""

from __future__ import annotations

from typing import Any

import pytest

from streams_recovery.engine.submitter import Submitter
from streams_recovery.operations import restore
from tests.support.airflow.dag_runs import Done, run
from tests.support.applications.counting import Counting
from tests.support.examples.topologies import counting as described
from tests.support.examples.topologies import rendered

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.spark]


def upgraded(counting: Counting, submitter: Submitter, version: str, **asked: Any) -> Done:
    """Saved, at work, and with this version deployed on it."""
    counting.deploys(version)
    counting.worked("abcab")
    counting.savepoint(submitter)
    # What the safety savepoint has to copy.
    counting.worked("ba")
    counting.start()
    topology = rendered(described("totals", read=counting.input.topic))
    return run(counting, "upgrade", submitter, application=counting.name, **{"topology": topology, **asked})


def is_whole(counting: Counting) -> bool:
    return (counting.running, counting.free(), counting.state()) == (True, True, counting.truth())


@pytest.mark.way("upgrade in place")
def test_a_new_version_goes_on_with_the_state(counting: Counting, in_session: Submitter) -> None:
    done = upgraded(counting, in_session, "same")
    assert done.state == "success", done
    assert {name for name, state in done.tasks.items() if state == "skipped"} == {
        name for name in done.tasks if name.startswith("roll_back.") or name == "whether_to_roll_back"
    }
    assert (done.jobs, counting.deployments) == (["backup"], ["same down"])
    assert is_whole(counting)
    with counting.recovery() as recovery:
        report, page = restore.evidence(recovery)
    assert (report.reason, report.watched.failure, "**Upgraded.**" in page) == ("test", None, True)


@pytest.mark.deep
def test_one_that_fails_is_taken_back_and_the_run_fails(counting: Counting, in_session: Submitter) -> None:
    done = upgraded(counting, in_session, "dies")
    assert (done.state, done.by("failed")) == ("failed", {"watch_version"}), done
    assert {"finish", "report"} == done.by("upstream_failed")
    assert {name for name in done.tasks if name.startswith("roll_back.")} <= done.by("success")
    assert counting.deployments == ["dies down", "old down"]
    assert is_whole(counting)


@pytest.mark.deep
def test_where_only_the_deployment_fails_nothing_is_restored(counting: Counting, in_session: Submitter) -> None:
    done = upgraded(counting, in_session, "missing")
    assert (done.state, done.by("failed")) == ("failed", {"start_application"}), done
    assert {name for name in done.tasks if name.startswith("roll_back.")} <= done.by("skipped")
    assert (done.jobs, counting.deployments) == (["backup"], ["missing down", "old down"])
    assert is_whole(counting)


@pytest.mark.deep
def test_what_would_lose_state_is_refused_before_anything_is_stopped(counting: Counting, in_session: Submitter) -> None:
    done = upgraded(counting, in_session, "same", topology=rendered(described("sums", read=counting.input.topic)))
    assert (done.state, done.by("failed"), counting.deployments) == ("failed", {"plan"}, []), done
    assert is_whole(counting)
