"""How an application is held for a savepoint is decided when its configuration is loaded: never a pause that it does not offer."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams_recovery.application.factory import open_application
from streams_recovery.config.loader import load
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.errors import ConfigInvalid
from tests.support.examples.configurations import MINIMAL

PROGRAMS = "status: [s], stop: [s], start: [s], wipe: [s]"
COMMAND = MINIMAL[: MINIMAL.index("runs:")] + f"runs: {{kind: command, command: {{{PROGRAMS}}}}}\n"


def configured(directory: Path, text: str, consistency: str = "", **application: object) -> ApplicationConfig:
    for key, value in application.items():
        text = text.replace("  guarantee:", f"  {key}: {value}\n  guarantee:")
    path = directory / "orders.yaml"
    path.write_text(text.replace("runs:", f"  consistency: {{{consistency}}}\nruns:"))
    return load(path, {})


def controlled(control: str) -> str:
    return MINIMAL.replace("    instances:", f"    control: {{{control}}}\n    instances:")


@pytest.mark.parametrize(
    ("text", "application", "mode"),
    [
        (MINIMAL, {}, "pause"),
        (controlled("pause: null"), {}, "stop"),
        (controlled("resume: null"), {}, "stop"),
        (COMMAND, {}, "stop"),
        (COMMAND.replace(PROGRAMS, f"{PROGRAMS}, pause: [p], resume: [r]"), {}, "pause"),
        (MINIMAL, {"standby_replicas": 1}, "stop"),
    ],
)
def test_by_default_it_is_paused_where_it_can_be_and_stopped_where_not(
    tmp_path: Path, text: str, application: dict[str, object], mode: str
) -> None:
    config = configured(tmp_path, text, **application)
    assert config.quiesce_mode == mode
    assert open_application(config.runs, "orders").can_pause is (config.runs.chosen.no_pause_because is None)


@pytest.mark.parametrize("text", [controlled("pause: null"), controlled("resume: null"), COMMAND])
@pytest.mark.parametrize("consistency", ["mode: pause", "mode: live, fallback: pause"])
def test_a_pause_that_the_application_does_not_offer_is_refused_with_its_place(tmp_path: Path, text: str, consistency: str) -> None:
    with pytest.raises(ConfigInvalid, match="cannot be paused") as error:
        configured(tmp_path, text, consistency)
    assert error.value.facts["file"] == str(tmp_path / "orders.yaml")
    assert ("runs.command has no" in error.value.reason) == (text == COMMAND)
    assert configured(tmp_path, text, "mode: live").quiesce_mode == "live"
    assert configured(tmp_path, text, "mode: stop").quiesce_mode == "stop"


def test_a_program_that_pauses_what_no_program_resumes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match=r"runs\.command: pause and resume go together"):
        configured(tmp_path, COMMAND.replace(PROGRAMS, f"{PROGRAMS}, pause: [p]"))
