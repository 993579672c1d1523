"""The Helm chart, rendered by Helm itself. ``python -m tests.support.deploy.chart`` writes the plain manifests anew."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.deploy.documents import DEPLOY, MANIFESTS, Document
from tests.support.programs.lacking import go_program

CHART = DEPLOY / "helm" / "kafka-streams-recovery"
RELEASE = "streams-recovery"
# As Helm that is built without its release's settings knows no version of Kubernetes of today.
_KUBERNETES = ["--kube-version", "1.35.0"]
_RESTORE = {"enabled": True, "suspend": True}
_APPROVED = {**_RESTORE, "approve": 64 * "0", "reason": "cluster lost", "args": ["--replace"]}
# Which documents a manifest has, from which values, and what is said above them.
MANIFEST_FILES: dict[str, tuple[Mapping[str, Any], tuple[str, ...], str]] = {
    "configuration.yaml": (
        {},
        (f"ConfigMap {RELEASE}-configs", "ServiceAccount"),
        "The application's configuration, and who its jobs are.",
    ),
    "rights.yaml": (
        {},
        ("ConfigMap order-processor-streams-recovery", "Role", "ClusterRole"),
        "What the jobs may do to the application's workload, in the namespace of that workload.",
    ),
    "backup.yaml": ({}, ("CronJob streams-recovery-backup",), "A savepoint every hour."),
    "check.yaml": ({}, ("CronJob streams-recovery-check",), "A check of the savepoints every week."),
    "expire.yaml": ({}, ("CronJob streams-recovery-expire",), "Retention, every night."),
    "restore-plan.yaml": (
        {"restore": {**_RESTORE, "suspend": False, "args": ["--replace"]}},
        ("Job",),
        "The plan of a restore. It changes nothing.",
    ),
    "restore.yaml": (
        {"restore": _APPROVED},
        ("Job", "PodDisruptionBudget"),
        "A restore. Write the approval that the plan ends with in place of the zeros, your reason, and suspend: false.",
    ),
}


def built_helm() -> Path:
    """Helm. Without Go the test fails: nothing else here renders the chart."""
    if shutil.which("go") is None:
        pytest.fail("Helm is built with Go, and go is not on the PATH: install Go 1.24 or newer")
    return go_program("helm", "helm.sh/helm/v3/cmd/helm", "v3.19.0")


def helm(program: Path, *words: str, values: Mapping[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    """One call of Helm for the chart, with ``values`` over the chart's own."""
    with tempfile.TemporaryDirectory() as home:
        file = Path(home) / "values.json"
        file.write_text(json.dumps(values or {}))
        argv = [str(program), *words, "--values", str(file), *_KUBERNETES]
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60, env={"HOME": home})


def rendered(program: Path, values: Mapping[str, Any] | None = None, *, tests: bool = False) -> list[Document]:
    """What the chart makes of ``values``, with the pods of ``helm test`` only when asked for."""
    more = [] if tests else ["--skip-tests"]
    done = helm(program, "template", RELEASE, str(CHART), "--namespace", RELEASE, *more, values=values)
    assert done.returncode == 0, done.stderr
    return [found for found in yaml.safe_load_all(done.stdout) if found]


def manifest(program: Path, name: str) -> list[Document]:
    """What a plain manifest has to say."""
    values, wanted, _ = MANIFEST_FILES[name]
    return [one for one in rendered(program, values) if f"{one['kind']} {one['metadata']['name']}".startswith(wanted)]


class _Text(yaml.SafeDumper):
    """Writes a text of several lines as one."""


_Text.add_representer(str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None))


def write_manifests(program: Path) -> None:
    """Write every plain manifest."""
    for name, (_, _, about) in MANIFEST_FILES.items():
        head = f"# {about}\n# Made from the Helm chart by `python -m tests.support.deploy.chart`. docs/kubernetes-native.md explains it.\n"
        text = yaml.dump_all(manifest(program, name), Dumper=_Text, sort_keys=False, width=160)
        (MANIFESTS / name).write_text(head + text)


if __name__ == "__main__":
    write_manifests(built_helm())
