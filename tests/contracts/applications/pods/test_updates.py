"""Pods that others evict, updates that their owner holds half way, and two runs at once. On a real control plane."""

from __future__ import annotations

import threading

import pytest

from streams_recovery.core.errors import Refused
from tests.support.applications.states import GONE, RUNNING, clean, started, states
from tests.support.kubernetes.pod_rig import record, wait

pytestmark = pytest.mark.deep


def versions(one):
    """The image of each pod that is not ending."""
    return sorted(
        pod["spec"]["containers"][0]["image"] for pod in one.api.items(one.path("pods")) if "deletionTimestamp" not in pod["metadata"]
    )


def deployed(one, image):
    """As kubectl set image does it."""
    container = one.api.get(one.own())["spec"]["template"]["spec"]["containers"][0]
    one.api.patch(one.own(), {"spec": {"template": {"spec": {"containers": [container | {"image": image}]}}}})


def evicted(one, name):
    """As the updater of the VerticalPodAutoscaler and kubectl drain do it."""
    one.api.post(f"{one.path('pods', name)}/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}})


def uid(one, name):
    found = one.api.find(one.path("pods", name))
    return found["metadata"]["uid"] if found and "deletionTimestamp" not in found["metadata"] else None


PARTITION = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
ON_DELETE = {"type": "OnDelete", "rollingUpdate": None}


@pytest.mark.fault("F108")
@pytest.mark.parametrize(
    ("strategy", "named"), [(PARTITION, r"rollingUpdate\.partition 1"), (ON_DELETE, "OnDelete")], ids=["partition", "on delete"]
)
def test_an_update_that_its_owner_holds_is_not_ended_by_a_stop(pods, strategy, named):
    one = pods()
    one.api.patch(one.own(), {"spec": {"updateStrategy": strategy}})
    application = started(one)
    application.require_same_version()
    deployed(one, "counting:2")
    if strategy is PARTITION:
        wait(lambda: versions(one) == ["counting:1", "counting:2"], seconds=60)
        one.await_up()
    wait(lambda: [found.kind for found in application.preflight(stops=True)] == ["update-held"], seconds=60)
    with pytest.raises(Refused, match=named) as caught:
        application.require_same_version()
    assert "kubectl rollout undo statefulset/counting" in caught.value.commands[0]
    # What it would do: the owner's hold is over, and every pod has the new version.
    assert application.stop(timeout=20).gone
    application.require_same_version()
    application.start()
    one.await_up()
    assert versions(one) == ["counting:2", "counting:2"]
    application.require_same_version()


@pytest.mark.fault("F108")
def test_a_paused_rollout_is_not_ended_by_a_stop(pods):
    one = pods(workload="deployment")
    application = started(one)
    one.cluster.kubelet.idle = True
    try:
        deployed(one, "counting:2")
        wait(lambda: "counting:2" in versions(one), seconds=60)
        one.api.patch(one.own(), {"spec": {"paused": True}})
    finally:
        one.cluster.kubelet.idle = False
    wait(lambda: [found.kind for found in application.preflight(stops=True)] == ["update-held"], seconds=60)
    with pytest.raises(Refused, match="kept by paused"):
        application.require_same_version()


@pytest.mark.fault("F109")
def test_a_pod_that_came_for_one_that_was_evicted_in_mid_stop_has_not_closed(pods):
    one = pods(environment={"CLOSE": '{"closed": true}'}, per_instance=[{"CLOSE": "never"}], control={"close": "/close"})
    application = started(one)
    first = uid(one, "counting-1")
    reports = []
    stopping = threading.Thread(target=lambda: reports.append(application.stop(timeout=30)), daemon=True)
    stopping.start()
    wait(lambda: record_or_none(one) is not None, seconds=60)
    evicted(one, "counting-1")
    wait(lambda: uid(one, "counting-1") not in (None, first) and len(one.pods()) == 2, seconds=60)
    stopping.join(timeout=120)
    (report,) = reports
    assert states(application) == [GONE, GONE]
    assert [pod["instance"] for pod in record(one)["pods"]] == ["counting-0", "counting-1", "counting-1"]
    assert clean(report) == [False, False]


def record_or_none(one):
    return record(one) if one.api.find(one.path("configmaps", "counting-streams-recovery")) else None


@pytest.mark.fault("F109")
def test_a_pod_that_is_evicted_behind_a_start_is_an_instance_again_and_its_state_is_young(each):
    one = each()
    application = started(one)
    assert application.stop(timeout=20).clean
    marks = application.wipe_state().marks
    application.start()
    one.await_up()
    before = {pod.name for pod in one.pods()}
    evicted(one, next(iter(sorted(before))))
    assert set(states(application)) == {RUNNING}, "one that is wanted may come at any moment"
    wait(lambda: len(one.pods()) == 2 and len(application.state_since(marks).fresh) == 2, seconds=60)
    assert application.state_since(marks).stale == ()
    one.await_up()
    assert application.stop(timeout=20).gone


def test_two_runs_that_stop_at_once_both_find_it_gone_and_it_comes_back_as_it_was(each):
    one = each()
    started(one)
    reports, errors = [], []

    def stop():
        try:
            reports.append(one.open().stop(timeout=20))
        except Exception as error:  # noqa: BLE001 - whatever it is, the test looks at it
            errors.append(error)

    runs = [threading.Thread(target=stop, daemon=True) for _ in range(2)]
    for run in runs:
        run.start()
    for run in runs:
        run.join(timeout=120)
    assert errors == []
    assert [report.gone for report in reports] == [True, True]
    assert record(one)["replicas"] == 2
    one.open().start()
    one.await_up()
    assert states(one.open()) == [RUNNING, RUNNING]
