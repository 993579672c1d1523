"""Pods of both kinds of workload."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["statefulset", "deployment"])
def each(request, pods):
    """A rig of each kind of workload."""
    return lambda **settings: pods(workload=request.param, **settings)
