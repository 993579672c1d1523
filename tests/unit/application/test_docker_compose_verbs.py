"""The settings file of an application in a compose project."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streams_recovery.application.docker_compose_verbs import main
from streams_recovery.core.errors import ConfigInvalid
from tests.support.project import PROJECT

GOOD = json.loads((PROJECT / "docker" / "order-processor.json").read_text())


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"project": None}, "project: Input should be a valid string"),
        ({"port": "canary"}, "port: Extra inputs are not permitted"),
        ({"control": {**GOOD["control"], "pause": "canary"}}, "control.pause"),
        ({"timeout": float("nan")}, "timeout: "),
        ({"application_id": "../x"}, "application_id: "),
        (
            {"control": {name: value for name, value in GOOD["control"].items() if name not in ("close", "token_file")}},
            "control has no close, token_file",
        ),
        ({"services": [{"service": "one", "url": "http://127.0.0.1:1"}]}, "services.0.state_directory: Field required"),
    ],
)
def test_a_mistake_in_it_is_named(changed: dict[str, object], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "settings.json"
    file.write_text(json.dumps(GOOD | changed))
    assert main([str(file), "status"]) == ConfigInvalid.exit_code
    assert f"{file} cannot be used: {named}" in capsys.readouterr().err


def test_it_has_to_be_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none"), "status"]) == ConfigInvalid.exit_code
    assert "cannot be read" in capsys.readouterr().err
