"""From the ``runs`` section to the application it describes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from streams_recovery.application.command import CommandApplication
from streams_recovery.application.port import StreamsApplication
from streams_recovery.application.process import ProcessApplication
from streams_recovery.application.settings import CommandSettings, ControlPaths, InstanceSettings, ProcessSettings
from streams_recovery.core.errors import ConfigInvalid


class _Runs(Protocol):
    # The shape of config.running.Runs; this ring does not import that one.
    @property
    def kind(self) -> str: ...
    @property
    def process(self) -> Any: ...
    @property
    def command(self) -> Any: ...


def open_application(runs: _Runs, application_id: str) -> StreamsApplication:
    """The application as it is configured to run."""
    if runs.kind == "process":
        return ProcessApplication(_process(runs.process, application_id))
    if runs.kind == "command":
        return CommandApplication(_command(runs.command, application_id))
    raise ConfigInvalid(f"runs.kind {runs.kind!r} is not known", next_step="use process or command")


def _process(section: Any, application_id: str) -> ProcessSettings:
    control = section.control
    return ProcessSettings(
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
        control=ControlPaths(
            health=control.health,
            pause=control.pause,
            resume=control.resume,
            query=control.query,
            close=control.close,
            token_file=control.token_file,
            allow_http=control.allow_http,
        ),
        start_timeout=float(section.start_timeout_seconds),
    )


def _command(section: Any, application_id: str) -> CommandSettings:
    names: Sequence[str] = ("status", "stop", "start", "pause", "resume", "wipe", "query")
    verbs: Mapping[str, tuple[str, ...] | None] = {name: tuple(argv) if (argv := getattr(section, name)) else None for name in names}
    environment = {"APPLICATION_ID": application_id, **section.environment}
    return CommandSettings(verbs=verbs, environment=environment, timeout=float(section.timeout_seconds))
