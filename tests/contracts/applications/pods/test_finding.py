"""The workload that runs an application is found on a real control plane, as far as the user may look."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams_recovery.application.kubernetes.finding import Reached, find, reachable
from streams_recovery.core.errors import ConfigInvalid
from tests.support.applications.rig import APPLICATION_ID
from tests.support.kubernetes.objects import rights

pytestmark = pytest.mark.deep


def test_a_workload_is_found_by_its_environment(each):
    one = each()
    reached = Reached(kubeconfig=one.section["kubeconfig"])
    mine = [found for found in find(reached, APPLICATION_ID) if found.namespace == one.namespace]
    assert [found.workload for found in mine] == [one.section["workload"]]
    assert (mine[0].container, mine[0].port) == (None, None)
    assert f"={APPLICATION_ID}" in mine[0].because
    assert find(reached, f"{APPLICATION_ID}-eu") == ()


def test_a_user_of_one_namespace_is_told_what_is_missing(pods):
    one = pods(workload="deployment")
    reached = Reached(kubeconfig=one.cluster.plane.kubeconfig(rights(one)))
    with pytest.raises(ConfigInvalid, match="this may not list deployments"):
        find(reached, APPLICATION_ID)


def test_the_user_s_file_leads_to_a_cluster_and_a_pod_to_its_own(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("")
    assert reachable({"KUBECONFIG": f"{file}:other"}) == Reached(kubeconfig=str(file))
    file.write_text("current-context: prod\n")
    assert reachable({"KUBECONFIG": str(file)}) == Reached(kubeconfig=str(file), context="prod")
    for text in ("current-context: [x]", "- x", "{", "current-context: ''"):
        file.write_text(text)
        assert reachable({"KUBECONFIG": str(file)}) == Reached(kubeconfig=str(file))
    assert reachable({"KUBECONFIG": str(tmp_path / "none")}) is None
    assert reachable({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBECONFIG": str(file)}) == Reached(kubeconfig=None)
