"""Mode pause on a real broker, with an application that says of itself what it keeps ready for others."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import pytest

from streams_recovery import savepoints
from streams_recovery.core.errors import ApplicationNotReady
from streams_recovery.core.model import QuiesceMode
from tests.integration.small import RUNNING, begun, small_application

# Puts what the status program prints next in place of what it prints now.
PAUSE = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(pathlib.Path(sys.argv[2]).read_text())"


def standing(*, standby_tasks: int | None, paused: bool = False) -> str:
    return json.dumps([RUNNING[0] | {"streams_state": "PAUSED" if paused else "RUNNING", "standby_tasks": standby_tasks}])


@pytest.mark.fault("F51")
@pytest.mark.parametrize(
    ("before", "after_a_second", "refused"),
    [(3, 3, True), (3, 0, False), (0, 0, False), (None, None, False)],
    ids=["they stay", "they are warmed up", "none", "it does not tell"],
)
def test_an_application_with_standby_tasks_is_paused_only_once_they_are_gone(
    bootstrap: str, tmp_path: Path, before: int | None, after_a_second: int | None, refused: bool
) -> None:
    now, paused = tmp_path / "now.json", tmp_path / "paused.json"
    now.write_text(standing(standby_tasks=before))
    paused.write_text(standing(standby_tasks=0, paused=True))
    programs = {"status": ["cat", str(now)], "pause": [sys.executable, "-c", PAUSE, str(now), str(paused)], "resume": ["true"]}
    with small_application(bootstrap, tmp_path, programs=programs) as small:
        ticket = begun(small.bench, QuiesceMode.PAUSE)
        later = threading.Timer(1.0, lambda: now.write_text(standing(standby_tasks=after_a_second)))
        if before != after_a_second:
            later.start()
        try:
            if refused:
                with pytest.raises(ApplicationNotReady, match=r"one has 3: .*KAFKA-20731") as error:
                    savepoints.quiesce(small.bench, ticket)
                assert "mode to stop" in error.value.next_step
                assert json.loads(now.read_text())[0]["streams_state"] == "RUNNING"
            else:
                assert savepoints.quiesce(small.bench, ticket).still
        finally:
            savepoints.finish(small.bench, ticket)
