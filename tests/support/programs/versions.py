"""Versions of one application (``Versions.java``): what runs them, and what they say of themselves without a cluster."""

from __future__ import annotations

import subprocess

from embedded.compiled import compiled
from embedded.java import QUICK, find_java
from tests.support.applications.endpoints import java_endpoints
from tests.support.programs.java import STREAMS


def program() -> list[str]:
    """What runs it, with the endpoints that people copy; its arguments follow."""
    endpoints = java_endpoints()
    class_path = (*endpoints, compiled(STREAMS / "Versions.java", endpoints))
    return [str(find_java()), *QUICK, "-cp", ":".join(map(str, class_path)), "Versions"]


def description(version: str, read: str = "in", written: str = "out") -> bytes:
    """What Topology#describe() prints."""
    return subprocess.run([*program(), "describe", version, read, written], capture_output=True, timeout=120, check=True).stdout
