"""How an application is stopped, started, held and asked: the ``runs`` section."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from streams_recovery.config.fields import Argv, Environment, InstanceName, Integer, LocalPath, Route, Section, Switch, Url
from streams_recovery.core.http_address import require_encrypted

Seconds = Annotated[Integer, Field(ge=1, le=86_400)]


class Control(Section):
    """The application's own HTTP interface: paths below each instance's ``url``. ``{store}`` in ``query`` stands for a store's name. The token in
    ``token_file`` is sent with every request; ``allow_http`` lets plain http cross the network. ``close`` closes
    Kafka Streams and answers ``{"closed": true}`` when that is done.
    """

    health: Route = "/health"
    pause: Route | None = "/pause"
    resume: Route | None = "/resume"
    query: Route | None = "/state/{store}"
    close: Route | None = None
    token_file: LocalPath | None = None
    allow_http: Switch = False


class ProcessInstance(Section):
    """One operating system process. ``environment`` is laid over the one of all instances; ``state_directory`` is its ``state.dir``."""

    name: InstanceName
    url: Url
    state_directory: LocalPath
    environment: Environment = Field(default_factory=dict)

    def filled(self, text: str) -> str:
        """``text`` with this instance's ``{name}``, ``{port}`` and ``{state_directory}``. Other braces stay as they are."""
        port = urlsplit(self.url).port
        values = {"{name}": self.name, "{state_directory}": self.state_directory, "{port}": "" if port is None else str(port)}
        for placeholder, value in values.items():
            text = text.replace(placeholder, value)
        return text


def check_addresses(instances: Iterable[ProcessInstance], control: Control) -> None:
    """Raise ``ValueError`` for an instance whose answers the network could read or give, unless that is allowed."""
    for instance in instances:
        require_encrypted(instance.url, allowed=control.allow_http, setting="control.allow_http")


class ProcessRuns(Section):
    """Processes on the machine that runs the tasks. ``directory`` keeps pid files and logs.

    ``{name}``, ``{port}`` and ``{state_directory}`` in ``command`` and in values of ``environment`` stand for those of the instance.
    """

    directory: LocalPath
    command: Argv
    working_directory: LocalPath | None = None
    environment: Environment = Field(default_factory=dict)
    instances: Annotated[tuple[ProcessInstance, ...], Field(min_length=1)]
    control: Control = Control()
    start_timeout_seconds: Seconds = 120
    stop_timeout_seconds: Seconds = 60

    @property
    def no_pause_because(self) -> str | None:
        """Why it cannot be paused, None when it can."""
        lacking = [verb for verb in ("pause", "resume") if getattr(self.control, verb) is None]
        return f"runs.process.control has no {' and no '.join(lacking)}" if lacking else None

    def command_of(self, instance: ProcessInstance) -> list[str]:
        """The program and arguments that start one instance."""
        return [instance.filled(argument) for argument in self.command]

    def environment_of(self, instance: ProcessInstance) -> dict[str, str]:
        """What one instance finds in its environment besides what it inherits."""
        return {name: instance.filled(value) for name, value in {**self.environment, **instance.environment}.items()}

    @model_validator(mode="after")
    def _encrypted(self) -> Self:
        check_addresses(self.instances, self.control)
        return self

    @model_validator(mode="after")
    def _apart(self) -> Self:
        for what in ("name", "url", "state_directory"):
            values = [getattr(instance, what) for instance in self.instances]
            twice = sorted({value for value in values if values.count(value) > 1})
            if twice:
                raise ValueError(f"instances: two of them have the {what} {twice[0]}; each needs its own")
        return self


class CommandRuns(Section):
    """Programs that do what is asked, as argument lists, never through a shell. A verb left out is a thing the application cannot do."""

    status: Argv
    stop: Argv
    start: Argv
    wipe: Argv
    pause: Argv | None = None
    resume: Argv | None = None
    query: Argv | None = None
    environment: Environment = Field(default_factory=dict)
    timeout_seconds: Seconds = 120

    @property
    def no_pause_because(self) -> str | None:
        """Why it cannot be paused, None when it can."""
        return "runs.command has no pause and no resume" if self.pause is None else None

    @model_validator(mode="after")
    def _both_ways(self) -> Self:
        if (self.pause is None) != (self.resume is None):
            raise ValueError("pause and resume go together: what was paused has to go on")
        return self


class Runs(Section):
    """Which way it runs. Sections of ways not chosen are checked but unused, so that a variable can choose between them."""

    kind: Literal["process", "command"]
    process: ProcessRuns | None = None
    command: CommandRuns | None = None

    @property
    def no_pause_because(self) -> str | None:
        """Why the application cannot be paused the way it runs, None when it can."""
        chosen = self.process if self.kind == "process" else self.command
        return None if chosen is None else chosen.no_pause_because

    @model_validator(mode="after")
    def _chosen(self) -> Self:
        if getattr(self, self.kind) is None:
            raise ValueError(f"kind is {self.kind}, so the section {self.kind} is needed")
        return self
