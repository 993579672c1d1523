"""What an answer of the API server means, and who lacks the client.

What a stop writes down, and what of it makes an end clean.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from streams_recovery.application.factory import open_application
from streams_recovery.application.http_control import Reported
from streams_recovery.application.kubernetes.application import looks
from streams_recovery.application.kubernetes.cluster import Client, StopRecord, failure, requested
from streams_recovery.application.port import InstanceState, InstanceStatus
from streams_recovery.config.runs import KubernetesRuns, Runs
from streams_recovery.core import codec
from streams_recovery.core.errors import ConfigInvalid, ControlPlaneUnavailable, NotFound, RecoveryError, Refused
from streams_recovery.core.kubernetes.workload import ContainerEnd, NodeState, Pod, WorkloadName, in_slots, workload_of
from streams_recovery.operations.bring_down import _known


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (None, ControlPlaneUnavailable),
        (0, ControlPlaneUnavailable),
        (401, ConfigInvalid),
        (403, ConfigInvalid),
        (404, NotFound),
        (409, ControlPlaneUnavailable),
        (422, Refused),
        (429, ControlPlaneUnavailable),
        (500, ControlPlaneUnavailable),
        (503, ControlPlaneUnavailable),
    ],
)
def test_an_answer_is_transient_or_permanent(status: int | None, kind: type[RecoveryError]) -> None:
    error = failure("scale deployment/orders", status, "because")
    assert type(error) is kind
    assert (error.facts["status"], error.facts["doing"]) == (status, "scale deployment/orders")
    assert "scale deployment/orders" in str(error)
    assert "because" in str(error)


def test_who_lacks_the_client_is_told_which_extra_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    section = {"namespace": "shop", "workload": "deployment/orders", "state_directory": "/var/lib/state", "port": 8080}
    application = open_application(Runs.model_validate({"kind": "kubernetes", "kubernetes": section}), "orders")
    assert application.can_pause
    with pytest.raises(ConfigInvalid, match=r"kafka-streams-recovery\[kubernetes\]") as caught:
        application.status()
    assert caught.value.facts["extra"] == "kubernetes"


def test_two_contexts_of_one_file_are_two_servers_at_once(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": one, "cluster": {"server": f"https://{one}.example.com"}} for one in ("a", "b")],
                "users": [{"name": one, "user": {"token": f"token-{one}"}} for one in ("a", "b")],
                "contexts": [{"name": one, "context": {"cluster": one, "user": one}} for one in ("a", "b")],
                "current-context": "a",
            }
        )
    )

    def opened(context: str | None) -> tuple[str, list[str]]:
        section = {"namespace": "shop", "workload": "deployment/orders", "state_directory": "/var/lib/state", "port": 8080}
        found = Client(KubernetesRuns.model_validate(section | {"kubeconfig": str(file), "context": context}))
        made.append(found)
        configuration = found.api("CoreV1Api").api_client.configuration
        return configuration.host, [*configuration.api_key.values()]

    made: list[Client] = []
    pytest.importorskip("kubernetes")
    assert [opened(context) for context in ("a", "b", None)] == [
        ("https://a.example.com", ["Bearer token-a"]),
        ("https://b.example.com", ["Bearer token-b"]),
        ("https://a.example.com", ["Bearer token-a"]),
    ]
    # What was opened first still is where it was.
    assert made[0].api("CoreV1Api").api_client.configuration.host == "https://a.example.com"


NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)


def pod(name: str = "orders-0", **more: Any) -> Pod:
    plain = {"created": "", "node": "n1", "ip": "", "phase": "Running", "ends_by": None, "waiting": "", "ended": None, "all_ended": False}
    return Pod(name=name, uid=f"uid-{name}", **{**plain, "container": "run-1", **more})


def record(state: str = "RUNNING", *, closes: bool = False, replicas: int = 1) -> StopRecord:
    pods = {"orders-0": pod()}
    return StopRecord(replicas=replicas, pods=requested(pods, {"orders-0": Reported(state=state)}, None, closes=closes))


def seen(
    found: StopRecord | None,
    *,
    replicas: int = 0,
    pods: tuple[Pod, ...] = (),
    configured: int | None = None,
    node: NodeState = "ready",
    moving: bool = False,
) -> Any:
    metadata, status = {"generation": 3}, {"observedGeneration": 2 if moving else 3, "replicas": replicas}
    plain = {"metadata": metadata, "spec": {"replicas": replicas, "selector": {}, "template": {}}, "status": status}
    workload = workload_of(WorkloadName(kind="statefulset", name="orders"), plain)
    return looks(workload, {one.name: one for one in pods}, found, configured, lambda _: node, NOW)


def ended(found: StopRecord, code: int, reason: str = "Error") -> InstanceStatus:
    looked: InstanceStatus = seen(found.with_ends([pod(ended=end(code, reason))]))["orders-0"]
    return looked


def end(code: int, reason: str = "Error", container: str = "run-1") -> ContainerEnd:
    return ContainerEnd(exit_code=code, reason=reason, container=container)


@pytest.mark.parametrize(("code", "clean"), [(0, True), (143, True), (137, False), (1, False)])
def test_the_exit_code_says_whether_it_closed(code: int, clean: bool) -> None:
    found = ended(record(), code)
    assert (found.state, found.closed_cleanly) == (InstanceState.GONE, clean)
    assert f"exit status {code}" in found.detail


def test_an_end_for_want_of_memory_is_not_clean_whatever_its_code() -> None:
    found = ended(record(), 0, "OOMKilled")
    assert found.closed_cleanly is False
    assert "out of memory" in found.detail


def test_one_that_was_dead_before_is_not_clean() -> None:
    assert ended(record("ERROR"), 143).closed_cleanly is False


def test_one_that_can_say_that_it_closed_has_to() -> None:
    silent = record(closes=True)
    assert ended(silent, 143).closed_cleanly is False
    assert ended(silent.with_answers({"uid-orders-0": False}), 143).closed_cleanly is False
    closed = ended(silent.with_answers({"uid-orders-0": True}), 143)
    assert (closed.closed_cleanly, closed.reported_closed) == (True, True)


def test_what_one_pod_of_a_deployment_said_is_never_taken_for_another_s() -> None:
    """The second stop finds one of two: it is number 1 still, and what it says is its own."""
    names = ("orders-7d-a", "orders-7d-b")
    first = StopRecord(replicas=2, pods=requested(in_slots("orders", map(pod, names)), {}, None, closes=True))
    left = in_slots("orders", [pod(names[1])], first.instances)
    assert list(left) == ["orders-1"]
    second = replace(first, pods=requested(left, {}, first, closes=True)).with_answers({one.uid: True for one in left.values()})
    assert {one.pod: one.request.reported_closed for one in second.pods} == {names[0]: False, names[1]: True}
    other = in_slots("orders", [pod(names[1]), pod("orders-7d-c")], first.instances)
    assert {name: one.name for name, one in other.items()} == {"orders-1": names[1], "orders-2": "orders-7d-c"}


@pytest.mark.fault("F42")
def test_an_instance_without_a_pod_is_gone_only_once_the_controller_has_seen_that_none_is_wanted() -> None:
    for found in (seen(record().with_vanished({"uid-orders-0"}, 1), moving=True), seen(None, configured=1, moving=True)):
        assert found["orders-0"].state is InstanceState.UNKNOWN
        assert "statefulset/orders has not said yet that it makes none" in found["orders-0"].detail
    assert "node n1 did not answer" in seen(record(), moving=True, node="lost")["orders-0"].detail, "which says what to do"
    assert [look.state for look in seen(None, moving=True).values()] == [InstanceState.UNKNOWN], "however many there are meant to be"


@pytest.mark.fault("F72")
def test_a_pod_whose_container_does_not_run_and_one_that_does_not_exist_are_no_members_of_the_group() -> None:
    about = {"ip": "10.0.0.1"}
    between = {"waiting": "CrashLoopBackOff"}
    for one, host, runs in (
        (pod(**about), "10.0.0.1", True),
        (pod(**about, ends_by=NOW), "10.0.0.1", True),
        (pod(**about, **between), "10.0.0.1", False),
        (pod(**about, ended=end(1)), "10.0.0.1", False),
        (pod(**about, **between, host_network=True), "", False),
        (pod(waiting="ContainerCreating", container=""), "", False),
        (pod(phase="Pending", node="", container=""), "", False),
    ):
        found = seen(None, replicas=2, pods=(one,))
        assert [look.state for look in found.values()] == [InstanceState.RUNNING] * 2
        assert (found["orders-0"].host, found["orders-0"].program_runs) == (host, runs)
        assert not found["orders-1"].program_runs
        assert [(known.joins, known.host) for known in map(_known, found.values())] == [(runs, host), (False, "")]
        in_error = _known(replace(found["orders-0"], streams_state="ERROR"))
        assert (in_error.joins, in_error.host) == (False, ""), "what else is at its address is not its own"


@pytest.mark.fault("F109")
@pytest.mark.parametrize("unclean", [0, 1])
def test_of_an_evicted_pod_and_the_one_in_its_place_both_have_to_have_ended_well(unclean: int) -> None:
    first, second = pod(), replace(pod(container="run-2"), uid="uid-later")
    asked = record()
    both = replace(asked, pods=(*asked.pods, *requested({"orders-0": second}, {}, None, closes=False)))
    ends = [replace(one, ended=end(1 if number == unclean else 143, container=one.container)) for number, one in enumerate((first, second))]
    assert seen(both.with_ends(ends))["orders-0"].closed_cleanly is False
    assert seen(both.with_ends([replace(one, ended=end(143, container=one.container)) for one in (first, second)]))[
        "orders-0"
    ].closed_cleanly
    assert seen(both.with_ends(ends[:1]))["orders-0"].state is InstanceState.UNKNOWN


def test_the_last_end_counts() -> None:
    crashed = record().with_ends([pod(ended=end(137))])
    assert ended(crashed, 143).closed_cleanly is True
    assert seen(crashed.with_ends([pod()]))["orders-0"].closed_cleanly is False


@pytest.mark.fault("F99")
@pytest.mark.parametrize("container", ["run-2", ""])
def test_what_one_container_said_is_never_taken_for_the_next_one_s(container: str) -> None:
    """The first closed and was started again by its probe; the second one ended without having closed anything."""
    closed = record(closes=True).with_answers({"uid-orders-0": True})
    again = closed.with_ends([pod(ended=end(0))]).with_ends([pod(container="run-2")])
    assert again.pods[0].ended is None, "a container that runs takes the end of the one before it back"
    found = seen(again.with_ends([pod(ended=end(143, container=container), container=container)]))["orders-0"]
    assert (found.state, found.closed_cleanly, found.reported_closed) == (InstanceState.GONE, False, False)


@pytest.mark.fault("F99")
def test_a_container_that_was_started_again_is_asked_again() -> None:
    first = record(closes=True).with_answers({"uid-orders-0": True})
    (asked,) = requested({"orders-0": pod(container="run-2")}, {}, first, closes=True)
    assert (asked.container, asked.request.reported_closed) == ("run-2", False)


def vanished(found: StopRecord, *, seconds: int, grace: int = 30) -> InstanceStatus:
    at = int(NOW.timestamp() * 1000) - seconds * 1000
    looked = replace(found, pods=tuple(replace(one, grace=grace) for one in found.pods)).with_vanished({"uid-orders-0"}, at)
    status: InstanceStatus = seen(looked)["orders-0"]
    return status


@pytest.mark.fault("F100")
def test_a_pod_whose_object_went_without_an_end_is_gone_only_after_its_program_cannot_run_any_more() -> None:
    unseen = seen(record())["orders-0"]
    assert (unseen.state, "stop it again" in unseen.detail) == (InstanceState.UNKNOWN, True), "since when it is away is not known"
    early = vanished(record(), seconds=89)
    assert (early.state, "12:00:01 UTC" in early.detail) == (InstanceState.UNKNOWN, True)
    late = vanished(record(), seconds=90)
    assert (late.state, late.closed_cleanly) == (InstanceState.GONE, False)
    assert vanished(record(), seconds=90, grace=600).state is InstanceState.UNKNOWN
    assert record().with_vanished({"uid-orders-0"}, 1).with_vanished({"uid-orders-0"}, 2).pods[0].vanished == 1, "the first one counts"


@pytest.mark.fault("F100")
def test_a_pod_that_is_there_again_has_not_vanished() -> None:
    found = record().with_vanished({"uid-orders-0"}, 1)
    assert found.with_ends([pod()]).pods[0].vanished is None


@pytest.mark.fault("F42")
def test_a_pod_that_vanished_with_its_node_is_not_called_gone() -> None:
    found = seen(record(), node="lost")["orders-0"]
    assert found.state is InstanceState.UNKNOWN
    assert "node n1 did not answer" in found.detail
    assert seen(record().with_vanished({"uid-orders-0"}, 1), node="absent")["orders-0"].state is InstanceState.GONE
    assert seen(record().with_vanished({"uid-orders-0"}, 1), node="lost")["orders-0"].state is InstanceState.UNKNOWN


def test_a_pod_that_is_ending_is_running_until_its_node_is_lost_or_it_is_late() -> None:
    ending = pod(ends_by=NOW)
    assert seen(record(), pods=(ending,))["orders-0"].state is InstanceState.RUNNING
    lost = seen(record(), pods=(ending,), node="lost")["orders-0"]
    assert (lost.state, "does not answer" in lost.detail) == (InstanceState.UNKNOWN, True)
    late = seen(record(), pods=(replace(ending, ends_by=NOW.replace(hour=11)),))["orders-0"]
    assert late.state is InstanceState.UNKNOWN
    assert "pod orders-0 on node n1" in late.detail


def test_every_instance_that_is_wanted_is_there_before_it_has_a_pod() -> None:
    found = seen(None, replicas=3, pods=(pod("orders-1"),))
    assert {name: look.state.value for name, look in found.items()} == dict.fromkeys(("orders-0", "orders-1", "orders-2"), "running")
    assert "no pod yet" in found["orders-0"].detail


def test_at_zero_those_are_meant_that_were_stopped_else_those_that_are_configured() -> None:
    assert list(seen(record(replicas=2))) == ["orders-0", "orders-1"]
    assert list(seen(None, configured=3)) == ["orders-0", "orders-1", "orders-2"]
    assert seen(None) == {}


def test_a_container_that_crashed_may_be_started_again() -> None:
    found = seen(None, replicas=1, pods=(pod(waiting="CrashLoopBackOff"),))["orders-0"]
    assert (found.state, "CrashLoopBackOff" in found.detail) == (InstanceState.RUNNING, True)


def test_a_second_request_does_not_hide_what_the_first_found() -> None:
    first = record("ERROR")
    again = requested({"orders-0": pod()}, {"orders-0": Reported(state="RUNNING")}, first, closes=False)
    assert again == first.pods
    other = requested({"orders-1": pod("orders-1")}, {}, first, closes=False)
    assert [one.instance for one in other] == ["orders-0", "orders-1"]


def test_it_is_stored_and_read_back() -> None:
    found = record(closes=True)
    assert codec.loads(StopRecord, codec.dumps(found), where="here") == found
