"""From the ``runs`` section to the application it describes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch
from pathlib import Path
from typing import Final

from streams_recovery.application.command import CommandApplication
from streams_recovery.application.kubernetes.application import KubernetesApplication
from streams_recovery.application.kubernetes.settings import KubernetesSettings
from streams_recovery.application.port import StreamsApplication
from streams_recovery.application.process import ProcessApplication
from streams_recovery.application.settings import CommandSettings, ControlPaths, InstanceSettings, ProcessSettings
from streams_recovery.config.runs import CommandRuns, Kind, KubernetesRuns, ProcessRuns, Runs
from streams_recovery.config.runs.process import Control
from streams_recovery.core.kubernetes.workload import WorkloadName

_VERBS: Final[Sequence[str]] = ("status", "stop", "start", "pause", "resume", "wipe", "query")


def open_application(runs: Runs, application_id: str) -> StreamsApplication:
    """The application as it is configured to run."""
    return open_section(runs.chosen, application_id)


@singledispatch
def open_section(section: Kind, application_id: str) -> StreamsApplication:
    """The port of a section of ``runs``. Each kind is registered below."""
    raise TypeError(f"{type(section).__name__} has no port, so {application_id} cannot be opened")


def _control(control: Control) -> ControlPaths:
    return ControlPaths(
        health=control.health,
        pause=control.pause,
        resume=control.resume,
        query=control.query,
        close=control.close,
        token_file=control.token_file,
        allow_http=control.allow_http,
    )


@open_section.register
def _process(section: ProcessRuns, application_id: str) -> ProcessApplication:
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


@open_section.register
def _command(section: CommandRuns, application_id: str) -> CommandApplication:
    verbs: Mapping[str, tuple[str, ...] | None] = {name: tuple(argv) if (argv := getattr(section, name)) else None for name in _VERBS}
    environment = {"APPLICATION_ID": application_id, **section.environment}
    return CommandApplication(CommandSettings(verbs=verbs, environment=environment, timeout=float(section.timeout_seconds)))


@open_section.register
def _kubernetes(section: KubernetesRuns, application_id: str) -> KubernetesApplication:
    settings = KubernetesSettings(
        application_id=application_id,
        namespace=section.namespace,
        workload=WorkloadName.parse(section.workload),
        container=section.container,
        replicas=section.replicas,
        record=section.record_name,
        state_directory=section.state_directory,
        claims=section.claims,
        wipe_image=section.wipe_image,
        port=section.port,
        control=_control(section.control),
        kubeconfig=section.kubeconfig,
        context=section.context,
        argocd_namespace=section.argocd_namespace,
        start_timeout=section.start_timeout,
    )
    return KubernetesApplication(settings)
