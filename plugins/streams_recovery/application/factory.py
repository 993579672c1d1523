"""From the ``runs`` section to the application it describes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from streams_recovery.application.command import CommandApplication
from streams_recovery.application.kubernetes.application import KubernetesApplication
from streams_recovery.application.kubernetes.settings import KubernetesSettings
from streams_recovery.application.port import StreamsApplication
from streams_recovery.application.process import ProcessApplication
from streams_recovery.application.settings import CommandSettings, ControlPaths, InstanceSettings, ProcessSettings
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kubernetes.workload import WorkloadName


class _Runs(Protocol):
    # The shape of config.runs.Runs; this ring does not import that one.
    @property
    def kind(self) -> str: ...
    @property
    def chosen(self) -> Any: ...


def open_application(runs: _Runs, application_id: str) -> StreamsApplication:
    """The application as it is configured to run."""
    port = PORTS.get(runs.kind)
    if port is None:
        raise ConfigInvalid(f"runs.kind {runs.kind!r} is not known", next_step=f"use {' or '.join(PORTS)}")
    return port(runs.chosen, application_id)


def _control(control: Any) -> ControlPaths:
    return ControlPaths(
        health=control.health,
        pause=control.pause,
        resume=control.resume,
        query=control.query,
        close=control.close,
        token_file=control.token_file,
        allow_http=control.allow_http,
    )


def _process(section: Any, application_id: str) -> StreamsApplication:
    settings = ProcessSettings(
        application_id=application_id,
        directory=Path(section.directory),
        working_directory=Path(section.working_directory or Path.cwd()),
        instances=tuple(
            InstanceSettings(
                name=instance.name,
                url=instance.url,
                command=tuple(section.command_of(instance)),
                environment=section.environment_of(instance),
                state_directory=Path(instance.state_directory),
            )
            for instance in section.instances
        ),
        control=_control(section.control),
        start_timeout=section.start_timeout,
    )
    return ProcessApplication(settings)


def _command(section: Any, application_id: str) -> StreamsApplication:
    names: Sequence[str] = ("status", "stop", "start", "pause", "resume", "wipe", "query")
    verbs: Mapping[str, tuple[str, ...] | None] = {name: tuple(argv) if (argv := getattr(section, name)) else None for name in names}
    environment = {"APPLICATION_ID": application_id, **section.environment}
    return CommandApplication(CommandSettings(verbs=verbs, environment=environment, timeout=float(section.timeout_seconds)))


def _kubernetes(section: Any, application_id: str) -> StreamsApplication:
    plain = (
        "namespace",
        "container",
        "replicas",
        "state_directory",
        "claims",
        "wipe_image",
        "port",
        "kubeconfig",
        "context",
        "argocd_namespace",
    )
    settings = KubernetesSettings(
        application_id=application_id,
        workload=WorkloadName.parse(section.workload),
        record=section.record_name,
        control=_control(section.control),
        start_timeout=section.start_timeout,
        **{name: getattr(section, name) for name in plain},
    )
    return KubernetesApplication(settings)


# From the section of each kind to its port.
PORTS: Final[Mapping[str, Callable[[Any, str], StreamsApplication]]] = {
    "process": _process,
    "command": _command,
    "kubernetes": _kubernetes,
}
