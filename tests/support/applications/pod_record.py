"""What a stop of pods writes down for the start that follows it."""

from __future__ import annotations

import json
from typing import Any

from tests.support.kubernetes.pod_rig import PodRig

RECORD = "counting-streams-recovery"


def record(one: PodRig) -> Any:
    """The record of a stop, None when there is none."""
    found = one.api.get(one.path("configmaps", RECORD)).get("data") or {}
    return json.loads(found["stop"]) if "stop" in found else None
