"""State of pods: gone with them, deleted with its claim, or wiped by a job. On a real control plane."""

from __future__ import annotations

import pytest

from streams_recovery.application.kubernetes.wiping import wipeable, wiping_job
from streams_recovery.core.errors import ConfigInvalid
from tests.support.applications.rig import APPLICATION_ID
from tests.support.applications.states import GONE, started
from tests.support.kubernetes.pod_rig import wait

pytestmark = pytest.mark.deep


@pytest.mark.fault("F45")
def test_an_empty_dir_is_gone_with_its_pod(each):
    one = each()
    application = started(one)
    places = one.states
    assert all(any(place.iterdir()) for place in places)
    application.stop(timeout=20)
    assert not any(place.exists() for place in places)
    report = application.wipe_state()
    assert (len(report.removed), report.remaining) == (2, ())
    assert application.wipe_state().removed == ()


@pytest.mark.fault("F45")
def test_claims_are_deleted_and_those_of_replicas_that_were_scaled_away_too(pods):
    one = pods(claims=True)
    one.section["claims"] = "delete"
    one.scale(3)
    wait(lambda: len(one.pods()) == 3, seconds=60)
    places = one.states
    one.scale(2)
    wait(lambda: len(one.pods()) == 2, seconds=60)
    application = one.open()
    one.await_up()
    assert application.stop(timeout=20).gone
    report = application.wipe_state()
    assert report.removed == ("claim state-counting-0", "claim state-counting-1", "claim state-counting-2")
    assert report.remaining == ()
    assert one.api.items(one.path("persistentvolumeclaims")) == []
    wait(lambda: not any(place.exists() for place in places), seconds=60)
    application.start()
    one.await_up()


@pytest.mark.fault("F45")
def test_a_job_wipes_the_application_s_directory_on_each_claim_and_nothing_else(pods):
    one = pods(claims=True)
    one.section |= {"claims": "job", "wipe_image": "busybox:1", "start_timeout_seconds": 60}
    application = started(one)
    places = one.states
    for place in places:
        (place / "bystander").mkdir()
    application.stop(timeout=20)
    assert all((place / "counting").exists() for place in places)
    report = application.wipe_state()
    assert (report.removed, report.remaining) == (("claim state-counting-0", "claim state-counting-1"), ())
    assert not any((place / "counting").exists() for place in places)
    assert all((place / "bystander").exists() for place in places)


def test_claims_are_not_touched_unless_the_configuration_says_how(pods):
    one = pods(claims=True)
    application = started(one)
    application.stop(timeout=20)
    with pytest.raises(ConfigInvalid, match=r"claims that outlive its pods: state.*runs\.kubernetes\.claims"):
        application.wipe_state()
    assert [found.kind for found in application.preflight(stops=True, wipes=True)] == ["state-not-wipeable"]
    assert application.preflight(stops=True) == ()


def test_a_job_of_a_killed_run_wipes_nothing_of_an_application_that_runs_again(pods):
    """The run was killed while its job waited for a node. The next one starts the application: the job must not find its place then."""
    one = pods(claims=True)
    one.section |= {"claims": "job", "wipe_image": "busybox:1", "start_timeout_seconds": 60}
    application = started(one)
    application.stop(timeout=20)
    one.cluster.kubelet.lose(lost=True)
    try:
        one.api.post(one.path("jobs"), left_job(one, "state-counting-0"))
        wait(lambda: len(one.api.get(one.path("jobs"))["items"]) == 1)
    finally:
        one.cluster.kubelet.lose(lost=False)
    one.open().start()
    assert one.api.get(one.path("jobs"))["items"] == []
    one.await_up()
    assert all((place / "counting").exists() for place in one.states)


def test_state_that_no_job_could_wipe_keeps_no_application_down(pods):
    """A savepoint stops and starts it too, and wipes nothing."""
    one = pods(claims=True)
    one.section |= {"claims": "job", "wipe_image": "busybox:1"}
    application = started(one)
    assert application.stop(timeout=20).clean
    container = one.api.get(one.own())["spec"]["template"]["spec"]["containers"][0]
    mounts = [mount | {"subPathExpr": "$(POD_NAME)"} for mount in container["volumeMounts"]]
    one.api.patch(one.own(), {"spec": {"template": {"spec": {"containers": [container | {"volumeMounts": mounts}]}}}})
    wait(lambda: {status.state for status in one.open().status()} == {GONE})
    with pytest.raises(ConfigInvalid, match="subPathExpr"):
        one.open().wipe_state()
    one.open().start()
    assert one.api.get(one.own())["spec"]["replicas"] == 2


def left_job(one, claim):
    """As the wipe of a run makes it."""
    cluster = one.open()._cluster
    workload = cluster.workload()
    volume = wipeable(cluster, workload, APPLICATION_ID)
    return wiping_job(claim, volume, cluster.section, APPLICATION_ID, workload.template["spec"], wipe="an earlier run", seconds=600)
