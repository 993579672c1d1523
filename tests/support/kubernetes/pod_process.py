"""The processes of one pod."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_GIVEN = ("PATH", "JAVA_HOME", "LANG", "HOME")


@dataclass
class Container:
    """One container: its specification, its process once it was started, and how it ended."""

    spec: Any
    process: subprocess.Popen[bytes] | None = None
    began: str = ""
    exit_code: int | None = None
    finished: str = ""
    # Of one run: a container that is started again has another.
    id: str = field(default_factory=lambda: f"tests://{uuid.uuid4().hex}")

    def look(self) -> None:
        if self.process is not None and self.exit_code is None and (code := self.process.poll()) is not None:
            # As a shell and a container show the end by a signal.
            self.exit_code, self.finished = (code if code >= 0 else 128 - code), now()

    def signal(self, number: signal.Signals) -> None:
        if self.process is not None and self.exit_code is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def terminated(self) -> dict[str, Any]:
        reason = "Completed" if self.exit_code == 0 else "Error"
        return {"exitCode": self.exit_code, "reason": reason, "startedAt": self.began, "finishedAt": self.finished, "containerID": self.id}


@dataclass
class PodProcesses:
    """A pod that runs here. ``places`` has a directory for each of its volumes."""

    pod: Any
    places: dict[str, Path]
    address: str
    directory: Path
    written: Any = None
    _kill_at: float | None = None
    containers: list[Container] = field(init=False)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True)
        spec = self.pod["spec"]
        self._inits = [Container(one) for one in spec.get("initContainers") or ()]
        self.containers = [Container(one) for one in spec["containers"]]

    @property
    def name(self) -> str:
        return str(self.pod["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.pod["metadata"]["namespace"])

    @property
    def ended(self) -> bool:
        """True when no process of it is left."""
        return all(one.process is None or one.exit_code is not None for one in (*self._inits, *self.containers))

    def look(self, pod: Any) -> None:
        """Start what is to run, see what ended, and end it all once the pod is being deleted."""
        for one in (*self._inits, *self.containers):
            one.look()
        if "deletionTimestamp" in pod["metadata"]:
            self._end(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        elif (waiting := next((one for one in self._inits if one.exit_code != 0), None)) is not None:
            if waiting.process is None:
                self._start(waiting)
        else:
            for one in self.containers:
                if one.process is None:
                    self._start(one)

    def status(self) -> dict[str, Any]:
        """What a kubelet says of it."""
        running = [one for one in self.containers if one.process is not None and one.exit_code is None]
        return {
            "phase": self._phase(),
            "podIP": self.address,
            "podIPs": [{"ip": self.address}],
            "conditions": [{"type": "Ready", "status": "True" if len(running) == len(self.containers) else "False"}],
            "initContainerStatuses": [self._container_status(one) for one in self._inits],
            "containerStatuses": [self._container_status(one) for one in self.containers],
        }

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        for one in (*self._inits, *self.containers):
            one.signal(number)

    def go_on(self) -> None:
        """What happens without a word from the API server."""
        for one in (*self._inits, *self.containers):
            one.look()
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self.kill()

    def _phase(self) -> str:
        if self._again and not (self._kill_at is not None and self.ended):
            return "Running" if any(one.process for one in self.containers) else "Pending"
        if any(one.exit_code not in (None, 0) for one in (*self._inits, *self.containers)):
            return "Failed"
        if all(one.exit_code == 0 for one in self.containers):
            return "Succeeded"
        return "Running" if any(one.process for one in self.containers) else "Pending"

    @property
    def _again(self) -> bool:
        return bool(self.pod["spec"].get("restartPolicy", "Always") == "Always")

    def _container_status(self, one: Container) -> dict[str, Any]:
        if one.process is None:
            state: dict[str, Any] = {"waiting": {"reason": "ContainerCreating"}}
        elif one.exit_code is None:
            state = {"running": {"startedAt": one.began}}
        elif self._again and self._kill_at is None and one not in self._inits:
            state = {"waiting": {"reason": "CrashLoopBackOff"}}
        else:
            state = {"terminated": one.terminated()}
        last = {"terminated": one.terminated()} if "waiting" in state and one.exit_code is not None else {}
        image = one.spec["image"]
        return {
            "name": one.spec["name"],
            "image": image,
            "imageID": image,
            "ready": "running" in state,
            "restartCount": 0,
            **({} if one.process is None else {"containerID": one.id}),
            "state": {kind: state.get(kind) for kind in ("waiting", "running", "terminated")},
            "lastState": last,
        }

    def _end(self, grace: float) -> None:
        at = time.monotonic() + grace
        if self._kill_at is None:
            self.kill(signal.SIGTERM)
            self._kill_at, self._grace = at, grace
        elif grace < self._grace:
            # A later request may leave it less time, never more.
            self._kill_at, self._grace = min(at, self._kill_at), grace
        if time.monotonic() >= self._kill_at:
            self.kill()

    def _start(self, one: Container) -> None:
        environment = {name: os.environ[name] for name in _GIVEN if name in os.environ} | {"HOSTNAME": self.name}
        for variable in one.spec.get("env") or ():
            environment[variable["name"]] = self._value(variable, environment)
        places = [(mount["mountPath"], self._place(mount)) for mount in one.spec.get("volumeMounts") or () if mount["name"] in self.places]
        environment = {name: _moved(value, places) for name, value in environment.items()}
        command = [_moved(_filled(part, environment), places) for part in (*one.spec["command"], *(one.spec.get("args") or ()))]
        with (self.directory / f"{one.spec['name']}.log").open("ab") as log:
            one.process = subprocess.Popen(
                command, env=environment, cwd=self.directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        one.began = now()

    def _value(self, variable: Any, environment: dict[str, str]) -> str:
        if "valueFrom" not in variable:
            return _filled(variable.get("value", ""), environment)
        known = {"metadata.name": self.name, "metadata.namespace": self.namespace, "status.podIP": self.address}
        return known[variable["valueFrom"]["fieldRef"]["fieldPath"]]

    def _place(self, mount: Any) -> Path:
        place = self.places[mount["name"]] / mount.get("subPath", "")
        place.mkdir(parents=True, exist_ok=True)
        return place


def _filled(text: str, environment: dict[str, str]) -> str:
    return re.sub(r"\$\((\w+)\)", lambda found: environment.get(found[1], found[0]), text)


def _moved(text: str, places: list[tuple[str, Path]]) -> str:
    for path, place in sorted(places, key=lambda one: -len(one[0])):
        if text == path or text.startswith(f"{path}/"):
            return str(place) + text[len(path) :]
    return text


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
