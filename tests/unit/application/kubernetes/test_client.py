"""What an answer of the API server means, and who lacks the client."""

from __future__ import annotations

import sys

import pytest

from streams_recovery.application.factory import open_application
from streams_recovery.application.kubernetes.client import failure
from streams_recovery.config.runs import Runs
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
