"""``runs.kubernetes``: what may be written, and what contradicts itself."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from streams_recovery.config.runs import Runs
from streams_recovery.config.runs.kubernetes import KubernetesRuns

PLAIN = {"namespace": "shop", "workload": "deployment/orders", "state_directory": "/var/lib/state", "port": 8080}


def section(**more: Any) -> KubernetesRuns:
    return KubernetesRuns.model_validate({**PLAIN, **more})


def test_the_record_is_named_after_the_workload() -> None:
    assert section().record_name == "orders-streams-recovery"
    assert section(record="mine").record_name == "mine"


def test_a_pause_needs_both_paths() -> None:
    assert section().no_pause_because is None
    assert section(control={"resume": None}).no_pause_because == "runs.kubernetes.control has no resume"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"workload": "orders"}, "deployment/NAME"),
        ({"namespace": "Shop"}, "lower case"),
        ({"state_directory": "state"}, "state directory"),
        ({"state_directory": "/state"}, "state directory"),
        ({"state_directory": "/a/../b"}, "state directory"),
        ({"port": 0}, "port"),
        ({"claims": "job"}, "wipe_image is needed"),
        ({"claims": "delete"}, "claims: job"),
        ({"context": "there"}, "kubeconfig"),
        ({"claims": "keep"}, "claims"),
    ],
)
def test_what_cannot_be_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        section(**wrong)


def test_a_clone_or_a_sandbox_cannot_run_so() -> None:
    runs = Runs.model_validate({"kind": "kubernetes", "kubernetes": PLAIN})
    with pytest.raises(ValueError, match=r"drill: an application with runs\.kind kubernetes cannot be started under other names"):
        runs.starting("drill")
