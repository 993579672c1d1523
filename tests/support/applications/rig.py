"""Applications to run the contract suite on: two instances of http_program.py, reached through each way of running an application."""

import contextlib
import json
import os
import signal
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import psutil

from embedded.ports import free_ports
from streams_recovery.application.factory import open_application
from streams_recovery.application.instance_record import InstanceFiles, session_of
from streams_recovery.config.runs import Runs
from tests.support.project import PROJECT

HERE = Path(__file__).parent
APPLICATION_ID = "counting"
PROGRAM = HERE / "http_program.py"
PLUGINS = str(PROJECT / "plugins")


class Rig:
    """What a test may do to an application behind the port's back."""

    def __init__(self, kind, directory, *, environment=None, per_instance=(), control=None, start_timeout=20):
        self.kind = kind
        self.docker_host = "tcp://stand-in"
        directory.mkdir(exist_ok=True)
        self.directory = directory
        self.names = ("one", "two")
        self.urls = [f"http://127.0.0.1:{port}" for port in free_ports(2)]
        self.states = [directory / "state" / name for name in self.names]
        self.section = {
            "directory": str(directory / "run"),
            "working_directory": str(directory),
            "command": [sys.executable, str(PROGRAM)],
            "environment": {
                **({} if kind == "silent" else {"PORT": "{port}"}),
                "STATE_DIR": "{state_directory}",
                "APPLICATION_ID": APPLICATION_ID,
                "UNTIL": str(os.getpid()),
                **(environment or {}),
            },
            "instances": [
                {
                    "name": name,
                    **({} if kind == "silent" else {"url": url}),
                    "state_directory": str(state),
                    "environment": {
                        # A test looks there. The port for applications is not told.
                        **({"PORT": url.rpartition(":")[2]} if kind == "silent" else {}),
                        **(per_instance[number] if number < len(per_instance) else {}),
                    },
                }
                for number, (name, url, state) in enumerate(zip(self.names, self.urls, self.states, strict=True))
            ],
            "control": control or {},
            "start_timeout_seconds": start_timeout,
        }

    def runs(self):
        ways = {"process": self.processes, "silent": self.processes, "command": self.programs, "docker": self.containers}
        return ways[self.kind]()

    def processes(self):
        """The instances themselves."""
        return {"kind": "process", "process": self.section}

    def programs(self):
        """Programs that do to the instances what the port of processes does."""
        file = self.directory / "runs.json"
        file.write_text(json.dumps(self.processes()))
        program = [sys.executable, str(HERE / "verbs.py"), str(file), APPLICATION_ID]
        verbs = {verb: [*program, verb] for verb in ("status", "stop", "start", "wipe")}
        control = {"pause": "/pause", "resume": "/resume", "query": "/state/{store}", "query_key": "/state/{store}/{key}"}
        control |= self.section["control"]
        extra = {"pause": [], "resume": [], "query": ["{store}"]}
        verbs |= {verb: [*program, verb, *more] for verb, more in extra.items() if control[verb]}
        verbs |= {"query_keys": [*program, "query_keys"]} if control["query_key"] else {}
        return {"kind": "command", "command": {**verbs, "environment": {"PYTHONPATH": PLUGINS}, "timeout_seconds": 60}}

    def containers(self):
        """A compose project with a stand-in for the docker client that keeps processes instead of containers."""
        (self.directory / "containers.json").write_text(json.dumps(self.section))
        services = [
            {"service": name, "url": url, "state_directory": str(state)}
            for name, url, state in zip(self.names, self.urls, self.states, strict=True)
        ]
        for state in self.states:
            state.mkdir(parents=True, exist_ok=True)
        settings = {
            "application_id": APPLICATION_ID,
            "project": "counting",
            "docker": [sys.executable, str(HERE / "docker_client.py"), str(self.directory / "containers.json")],
            "services": services,
            "control": {
                "health": "/health",
                "pause": "/pause",
                "resume": "/resume",
                "query": "/state/{store}",
                "query_key": "/state/{store}/{key}",
                "owner": "/owner/{store}/{key}",
                "close": None,
                "token_file": None,
                "allow_http": False,
                **self.section["control"],
            },
            "directory": str(self.directory / "control"),
            "timeout": int(self.section["start_timeout_seconds"]),
        }
        file = self.directory / "settings.json"
        file.write_text(json.dumps(settings))
        program = [sys.executable, "-m", "streams_recovery.application.docker_compose_verbs", str(file)]
        verbs = {verb: [*program, verb] for verb in ("status", "stop", "start", "wipe", "pause", "resume")}
        verbs |= {"query": [*program, "query", "{store}"], "query_keys": [*program, "query_keys"]}
        environment = {"PYTHONPATH": PLUGINS, "DOCKER_HOST": self.docker_host}
        return {"kind": "command", "command": {**verbs, "environment": environment, "timeout_seconds": 60}}

    def open(self):
        return open_application(Runs.model_validate(self.runs()), APPLICATION_ID)

    def files(self, name):
        return InstanceFiles(self.directory / "run", name)

    def process(self, name):
        return self.files(name).started().process

    def kill(self, name, number=signal.SIGKILL):
        os.kill(self.process(name).pid, number)
        gone(self.process(name))

    def kill_witness(self, name):
        supervisor = self.files(name).started().supervisor
        os.kill(supervisor.pid, signal.SIGKILL)
        gone(supervisor)

    def get(self, number, path):
        with urllib.request.urlopen(self.urls[number] + path, timeout=5) as answer:
            return json.load(answer)

    def await_up(self):
        for number in (0, 1):
            wait(lambda number=number: answers(self.urls[number]))

    def leftovers(self):
        """Everything that still runs on behalf of this rig."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.pid != os.getpid() and str(self.directory) in " ".join(
                    [*process.cmdline(), *process.environ().values(), process.cwd()]
                ):
                    found.append(process)
        return found

    def close(self):
        for process in self.leftovers():
            with contextlib.suppress(psutil.Error):
                process.kill()
        wait(lambda: not self.leftovers())


def answers(url):
    """True when a program listens at this address."""
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=1):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


def gone(process):
    """Wait until a process has ended."""
    wait(lambda: not process.alive)


def members(process):
    """The processes of an instance's session."""
    return session_of(process)


def wait(condition, seconds=15):
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)
