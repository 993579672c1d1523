"""An application as services of a compose project, one container each."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from streams_recovery.application.command import run_program
from streams_recovery.application.http_control import Reported
from streams_recovery.application.instance_record import Ended, InstanceFiles
from streams_recovery.application.instances import Fleet
from streams_recovery.application.local_state import since, wipe
from streams_recovery.application.port import (
    InstanceState,
    InstanceStatus,
    StateSince,
    StopReport,
    WipeMark,
    WipeReport,
    require_gone,
    standing,
)
from streams_recovery.config.fields import ApplicationId, Argv, InstanceName, LocalPath, Seconds, Section, Text, Url
from streams_recovery.config.runs.process import Control
from streams_recovery.core.errors import ConfigInvalid, Refused
from streams_recovery.core.preflight.findings import PreflightFinding
from streams_recovery.core.state.key_query import KeyAnswer, KeyQuestion

if TYPE_CHECKING:
    from streams_recovery.core.rollout.described import DescribedTopology

# "restarting" and docker's own "paused" are alive; only these cannot write any more.
_GONE = ("created", "exited", "dead")
# For a program to end whose Kafka Streams took all the time to close.
_END_SECONDS = 1.0
_ALIVE = ("running", "restarting", "paused", "removing")
_ENGINE_VARIABLES = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH")


class ContainerSettings(Section):
    """One service of a compose project that has one container: its HTTP address and its ``state.dir`` as mounted where this runs."""

    service: InstanceName
    url: Url
    state_directory: LocalPath


class DockerComposeSettings(Section):
    """The services of a compose project that are one application. ``docker`` is the client's argument list, None if no engine can be reached: then instances
    can be held and asked, but neither stopped nor started. ``directory`` keeps the records of stops. ``timeout`` (seconds) bounds each call.
    """

    application_id: ApplicationId
    project: Text
    docker: Argv | None
    services: Annotated[tuple[ContainerSettings, ...], Field(min_length=1)]
    control: Control
    directory: LocalPath
    timeout: Seconds


class DockerComposeApplication:
    """The port for containers. They are found by the labels that compose gives them and driven with the plain ``docker`` client, so the engine
    behind it needs to allow no more than listing, inspecting, stopping and starting containers: it creates and removes none.

    Without an engine an instance that answers is running and one that does not is unknown; stopping and starting are refused. So is an instance of a project
    that has no container and was never stopped from here: its name may be wrong, and it runs under another.
    """

    def __init__(self, settings: DockerComposeSettings) -> None:
        self._settings = settings
        names = [one.service for one in settings.services]
        self._files = {name: InstanceFiles(Path(settings.directory), name) for name in names}
        self._fleet = Fleet(urls={one.service: one.url for one in settings.services}, control=settings.control, statuses=self.status)

    @property
    def can_pause(self) -> bool:
        return self._settings.control.no_pause_because("control") is None

    def status(self) -> tuple[InstanceStatus, ...]:
        """Every configured service."""
        if self._settings.docker is None:
            reports = self._fleet.reports(self._files)
            return tuple(_by_answer(name, reports[name]) for name in self._files)
        containers = self._containers()
        unseen = not containers and not self._was_seen()
        looks = {name: self._never_seen(name) if unseen else self._look(name, containers.get(name)) for name in self._files}
        return self._fleet.completed(looks)

    def require_same_version(self) -> None:
        """A container is started as it was created."""

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """``docker start``. A container keeps the environment it was created with: another one is refused."""
        if environment:
            raise Refused(
                f"a container cannot be started with another environment ({', '.join(sorted(environment))})",
                next_step="define services for that application in the compose project, and a configuration of their own",
            )
        containers = self._containers()
        missing = [name for name in self._files if name not in containers]
        if missing:
            raise Refused(f"there is no container for {', '.join(missing)}", next_step="docker compose create", services=missing)
        gone = [found["Id"] for found in containers.values() if found["State"]["Status"] in _GONE]
        if gone:
            self._docker("start", *gone)

    def stop(self, *, timeout: float) -> StopReport:
        """Close, where it is offered, then ``docker stop``: SIGTERM to all at once, SIGKILL when the time (seconds) is up."""
        containers = self._containers()
        alive = {name: found for name, found in containers.items() if found["State"]["Status"] not in _GONE}
        deadline = time.monotonic() + timeout
        self._fleet.close({name: _run_of(found) for name, found in alive.items()}, self._files, seconds=timeout)
        if alive:
            ids = [found["Id"] for found in alive.values()]
            left = math.ceil(max(_END_SECONDS, deadline - time.monotonic()))
            self._docker("stop", "-t", str(left), *ids, seconds=left + self._settings.timeout)
        return StopReport(instances=self.status())

    def pause(self) -> None:
        """POST to every instance, then see that each says it is paused. Not ``docker pause``, which would freeze it in mid-commit."""
        self._fleet.pause()

    def resume(self) -> None:
        """POST to every running instance, then see that none says it is paused."""
        self._fleet.resume()

    def wipe_state(self) -> WipeReport:
        """Remove the state of every instance through the directories mounted here. An unseen mount would look like no state at all, so the
        state directories themselves must be there: ``ConfigInvalid``.
        """
        require_gone(self.status())
        directories = [Path(one.state_directory) for one in self._settings.services]
        unmounted = [str(directory) for directory in directories if not directory.is_dir()]
        if unmounted:
            raise ConfigInvalid(
                f"state directories are not mounted here: {', '.join(unmounted)}",
                next_step="mount the services' state volumes where this runs",
                directories=unmounted,
            )
        return wipe(directories, self._settings.application_id)

    def state_since(self, marks: Sequence[WipeMark]) -> StateSince:
        """By the directories that are mounted here."""
        return since(marks)

    def query(self, store: str) -> dict[str, object]:
        """All keys over all instances. While the application rebalances, asked again until the time-out."""
        return self._fleet.query(store, seconds=self._settings.timeout)

    def query_keys(self, questions: Sequence[KeyQuestion], *, seconds: float | None = None) -> tuple[KeyAnswer, ...]:
        """Each key from the instance that has it."""
        return self._fleet.query_keys(questions, seconds=self._settings.timeout if seconds is None else seconds)

    def topology(self) -> DescribedTopology | None:
        """Over the HTTP interfaces of the services."""
        return self._fleet.topology()

    def preflight(self, *, stops: bool, wipes: bool = False) -> tuple[PreflightFinding, ...]:  # noqa: ARG002
        """Whatever the engine does not allow, it says when it is asked."""
        return ()

    def _was_seen(self) -> bool:
        return any(files.was_stopped for files in self._files.values())

    def _never_seen(self, name: str) -> InstanceStatus:
        detail = (
            f"the engine has no container of a project {self._settings.project} with these services: see docker compose ls for its name, "
            "or docker compose create if it is new"
        )
        return standing(name, InstanceState.UNKNOWN, detail)

    def _look(self, name: str, found: Mapping[str, Any] | None) -> InstanceStatus:
        if found is None:
            return standing(name, InstanceState.GONE, "no container", clean=False, stopped_here=False)
        state, where = found["State"], f"container {found['Id'][:12]}"
        if state["Status"] in _ALIVE:
            return replace(standing(name, InstanceState.RUNNING, f"{where} {state['Status']}"), restarts=found.get("RestartCount") or 0)
        if state["Status"] not in _GONE:
            return standing(name, InstanceState.UNKNOWN, f"{where} in a state this version does not know: {state['Status']}")
        run = _run_of(found)
        ended_at = int(datetime.fromisoformat(state["FinishedAt"]).timestamp() * 1000)
        request = self._files[name].stop_request(run)
        ended = Ended(run=run, status=state["ExitCode"], left_behind=0, stop_request=request, at=ended_at)
        out_of_memory = ", out of memory" if state["OOMKilled"] else ""
        clean = ended.clean and state["Status"] == "exited" and not out_of_memory
        detail, asked = f"{where}: {ended}{out_of_memory}", request is not None
        return standing(name, InstanceState.GONE, detail, clean=clean, reported_closed=ended.reported_closed, stopped_here=asked)

    def _containers(self) -> dict[str, Mapping[str, Any]]:
        project = f"label=com.docker.compose.project={self._settings.project}"
        listed = self._docker(
            "ps", "--all", "--quiet", "--no-trunc", "--filter", project, "--filter", "label=com.docker.compose.oneoff=False"
        )
        ids = listed.decode().split()
        inspected = json.loads(self._docker("inspect", "--type", "container", *ids)) if ids else []
        found: dict[str, Mapping[str, Any]] = {}
        for container in inspected:
            service = container["Config"]["Labels"].get("com.docker.compose.service")
            if service in found:
                raise ConfigInvalid(f"service {service} has several containers", next_step="give every instance a service of its own")
            if service in self._files:
                found[service] = container
        return found

    def _docker(self, verb: str, *arguments: str, seconds: float | None = None) -> bytes:
        if self._settings.docker is None:
            raise Refused("no container engine can be reached from here", next_step="see docs/docker.md for what is needed", verb=verb)
        passed = {name: os.environ[name] for name in _ENGINE_VARIABLES if name in os.environ}
        return run_program([*self._settings.docker, verb, *arguments], passed, verb=verb, seconds=seconds or self._settings.timeout)


def _run_of(container: Mapping[str, Any]) -> str:
    # A container keeps its id over all its runs.
    return f"{container['Id']}@{container['State']['StartedAt']}"


def _by_answer(name: str, reported: Reported) -> InstanceStatus:
    if reported.state is None:
        return standing(name, InstanceState.UNKNOWN, f"{reported.problem or 'it does not answer'}, and no container engine can be asked")
    return reported.on(standing(name, InstanceState.RUNNING, "it answers"))
