"""Rights on pods and what belongs to them: those of the manifest are enough, and each that is missing is named. On a real control plane."""

from __future__ import annotations

import pytest

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.preflight.findings import PreflightSeverity
from tests.support.applications.pod_record import RECORD, record
from tests.support.applications.states import started
from tests.support.kubernetes.objects import autoscaler, define, rights

pytestmark = pytest.mark.deep
KEDA = ("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects")


@pytest.mark.parametrize(
    ("workload", "claims", "parts"),
    [("deployment", None, ()), ("statefulset", "delete", ("claims: delete",)), ("statefulset", "job", ("claims: job",))],
)
def test_the_rights_of_the_manifest_are_enough(pods, workload, claims, parts):
    one = pods(workload=workload, claims=claims is not None)
    one.section["kubeconfig"] = one.cluster.plane.kubeconfig(rights(one, "KEDA", *parts))
    one.section |= {"claims": claims, "wipe_image": "busybox:1" if claims == "job" else None, "start_timeout_seconds": 60}
    application = started(one)
    autoscaler(one)
    assert application.preflight(stops=True) == ()
    assert application.stop(timeout=20).clean
    assert application.wipe_state().remaining == ()
    application.start()
    one.await_up()
    assert application.stop(timeout=1).gone


def test_with_keda_in_the_cluster_its_rights_are_needed(pods):
    one = pods()
    define(one.api, one.namespace, *KEDA)
    one.section["kubeconfig"] = one.cluster.plane.kubeconfig(rights(one))
    application = started(one)
    found = application.preflight(stops=True)
    assert [finding.text.split()[3:5] for finding in found] == [[verb, "scaledobjects.keda.sh"] for verb in ("list", "patch")]
    with pytest.raises(ConfigInvalid, match="scaledobjects"):
        application.stop(timeout=20)


@pytest.mark.parametrize(
    ("without", "verbs"),
    [
        ("statefulsets", ["get"]),
        ("statefulsets/scale", ["patch"]),
        ("pods", ["delete", "list", "watch"]),
        ("configmaps", ["get", "patch"]),
        ("horizontalpodautoscalers", ["list"]),
        ("nodes", ["get"]),
        ("persistentvolumeclaims", ["list"]),
        ("jobs", ["create", "delete", "get"]),
    ],
)
def test_each_right_that_is_missing_is_named(pods, without, verbs):
    one = pods(claims=True)
    one.section["kubeconfig"] = one.cluster.plane.kubeconfig(rights(one, "claims: job", without=without))
    one.section |= {"claims": "job", "wipe_image": "busybox:1"}
    found = [finding for finding in one.open().preflight(stops=True) if "keda" not in finding.text]
    assert sorted(finding.text.split()[3] for finding in found) == verbs
    assert {finding.severity for finding in found} == {PreflightSeverity.WARNING if without == "nodes" else PreflightSeverity.BLOCKING}
    assert all(without.split("/", maxsplit=1)[0] in finding.text for finding in found)


def test_a_record_that_is_not_there_is_made_where_that_is_allowed(pods):
    one = pods()
    application = started(one)
    assert one.api.find(one.path("configmaps", RECORD)) is None
    assert application.stop(timeout=20).clean
    assert record(one)["replicas"] == 2
