"""Docker Compose itself reads the files: its real client, of which ``config`` needs no engine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.compose_files import SECRETS
from tests.support.programs.lacking import go_program
from tests.support.project import PROJECT

pytestmark = pytest.mark.deep


@pytest.fixture(scope="module")
def compose() -> Path:
    return go_program("docker-compose", "github.com/docker/compose/v2/cmd", "v2.39.4")


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("files", [["docker-compose.yaml"], ["docker-compose.yaml", "docker-compose.control.yaml"]])
def test_docker_compose_accepts_it(compose: Path, files: list[str]) -> None:
    command = [str(compose), *(part for file in files for part in ("-f", str(PROJECT / file)))]
    ours = {name: value for name, value in os.environ.items() if name not in SECRETS}
    done = subprocess.run([*command, "config", "--quiet"], capture_output=True, text=True, env={**ours, **SECRETS}, check=False)
    assert done.returncode == 0, done.stderr
    missing = subprocess.run(
        [*command, "--env-file", "/dev/null", "config", "--quiet"], capture_output=True, text=True, env=ours, check=False
    )
    assert missing.returncode != 0
    assert ".env.example" in missing.stderr
