"""A command that is told to end, as a cluster tells a pod, brings back what it holds."""

from __future__ import annotations

import signal
import subprocess
import sys

from tests.support.project import PROJECT

# The program itself, with a command that holds something and waits.
_HOLDING = """
import os, sys
from streams_recovery.cli.app import app, run

@app.command()
def hold():
    try:
        print("held", flush=True)
        os.read(0, 1)
    finally:
        print("teardown begins", flush=True)
        os.read(0, 1)
        print("teardown ends", flush=True)

sys.argv = ["streams-recovery", "hold"]
run()
"""


def test_sigterm_ends_a_command_by_its_teardown_and_a_second_one_does_not_disturb_that() -> None:
    environment = {"PYTHONPATH": str(PROJECT / "plugins")}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", _HOLDING], text=True, env=environment, **pipes) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.stdout.readline() == "held\n"
        program.send_signal(signal.SIGTERM)
        assert program.stdout.readline() == "teardown begins\n"
        program.send_signal(signal.SIGTERM)
        program.stdin.write("x")
        program.stdin.flush()
        assert program.stdout.readline() == "teardown ends\n"
    assert program.returncode == 128 + signal.SIGTERM
