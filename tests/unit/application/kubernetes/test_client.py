"""What an answer of the API server means, and who lacks the client."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from streams_recovery.application.factory import open_application
from streams_recovery.application.kubernetes.client import Client, failure
from streams_recovery.config.runs import KubernetesRuns, Runs
from streams_recovery.core.errors import ConfigInvalid, ControlPlaneUnavailable, NotFound, RecoveryError, Refused


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
