"""The example's programs on a unit of a real systemd, which a user's manager in a mount namespace of its own is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.project import PROJECT

PROGRAMS = PROJECT / "examples" / "programs"
# In the namespace /run is empty, so nothing of the machine's own is met. systemctl asks the user's manager.
INSIDE = """
set -e
mount -t tmpfs none /run && mkdir -p /run/systemd/system /run/own/systemd/user && chmod 700 /run/own
export XDG_RUNTIME_DIR=/run/own HOME=/run/own
printf '[Service]\\nExecStart=%s\\nSuccessExitStatus=143\\n' "$1" > /run/own/systemd/user/orders.service
"$2" --user --log-target=null & manager=$!
trap 'kill $manager; wait $manager || true' EXIT
for _ in $(seq 100); do systemctl --user is-system-running >/dev/null 2>&1 && break; sleep 0.1; done
shift 2 && "$@"
"""
DRIVER = """
import json, subprocess, sys, time
from streams_recovery.application.command import CommandApplication
from streams_recovery.config.runs import CommandRuns
from streams_recovery.core.errors import RecoveryError
program, place, path = sys.argv[1:4]
verbs = {verb: [program, verb] for verb in ("status", "stop", "start", "wipe")}
environment = {"RECORDS": place + "/records", "STATE": place + "/state", "UNIT": "orders.service", "PATH": path, "XDG_RUNTIME_DIR": "/run/own"}
shop = CommandApplication(CommandRuns.model_validate({**verbs, "environment": environment}), "shop")
told = lambda found: [[one.state, one.closed_cleanly, one.stopped_here] for one in found]
def await_state(state):
    for _ in range(100):
        if shop.status()[0].state == state:
            return
        time.sleep(0.1)
    raise SystemExit(f"never {state}: {shop.status()}")
out = {"never": told(shop.status())}
shop.start()
await_state("running")
out["up"] = told(shop.status())
try:
    shop.wipe_state()
except RecoveryError as error:
    out["wiped while up"] = type(error).__name__
out["stopped"] = told(shop.stop(timeout=10).instances)
out["later"] = told(shop.status())
out["wiped"] = list(shop.wipe_state().remaining)
shop.start()
await_state("running")
subprocess.run(["systemctl", "--user", "kill", "--signal=KILL", "orders.service"], check=True)
await_state("gone")
out["killed"] = told(shop.status())
shop.start()
await_state("running")
out["stopped again"] = told(shop.stop(timeout=10).instances)
print(json.dumps(out))
"""
JAVA = """#!/bin/bash
# Ends as Java does on SIGTERM.
trap 'exit 143' TERM
while :; do sleep 0.1; done
"""


@pytest.mark.parametrize("name", ["control.sh", "control.py"])
def test_a_unit_is_stopped_started_and_never_called_clean_when_it_was_killed(tmp_path: Path, name: str) -> None:
    manager = Path("/usr/lib/systemd/systemd")
    if not (manager.exists() and shutil.which("systemctl") and shutil.which("unshare")) or os.geteuid() != 0:
        pytest.skip("NOT checked: it takes systemd, and root for a namespace of its own")
    for file, text in (("java", JAVA), ("systemctl", '#!/bin/sh\nexec /usr/bin/systemctl --user "$@"\n')):
        (tmp_path / file).write_text(text)
        (tmp_path / file).chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    driver = [sys.executable, "-c", DRIVER, str(PROGRAMS / name), str(tmp_path), path]
    done = subprocess.run(
        ["unshare", "--mount", "bash", "-c", INSIDE, "inside", str(tmp_path / "java"), str(manager), *driver],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(PROJECT / "plugins"), str(PROJECT)])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "never": [["gone", False, None]],
        "up": [["running", None, None]],
        "wiped while up": "ApplicationRunning",
        "stopped": [["gone", True, True]],
        "later": [["gone", True, True]],
        "wiped": [],
        "killed": [["gone", False, False]],
        "stopped again": [["gone", True, True]],
    }
