"""``runs.process``: an application whose instances are processes on the machine that runs the tasks, and the sections of its sandboxes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Annotated, Final, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from streams_recovery.config.fields import Argv, Environment, InstanceName, LocalPath, Route, Seconds, Section, Switch, Url
from streams_recovery.config.runs.kind import IntervalSection, StartingKind, StartTexts
from streams_recovery.core.connection import require_encrypted

# What Linux takes as one argument or variable.
_MOST_ARGUMENT: Final = 128 << 10


class Control(Section):
    """The application's own HTTP interface: paths below each instance's ``url``. ``{store}`` stands for a store's name, and ``{key}`` for a key of it as text:
    ``query_key`` says what the key has, ``owner`` which instance has it. The token in ``token_file`` is sent with every request; ``allow_http`` lets plain http
    cross the network. ``close`` closes Kafka Streams and answers ``{"closed": true}`` when that is done.
    """

    health: Route = "/health"
    pause: Route | None = "/pause"
    resume: Route | None = "/resume"
    query: Route | None = "/state/{store}"
    query_key: Route | None = "/state/{store}/{key}"
    owner: Route | None = "/owner/{store}/{key}"
    close: Route | None = None
    token_file: LocalPath | None = None
    allow_http: Switch = False

    def no_pause_because(self, section: str) -> str | None:
        """The reason why instances with this interface, which is ``section``, cannot be paused. None when they can."""
        lacking = [verb for verb in ("pause", "resume") if getattr(self, verb) is None]
        return f"{section} has no {' and no '.join(lacking)}" if lacking else None


class ProcessInstance(Section):
    """One operating system process. ``environment`` is laid over the one of all instances; ``state_directory`` is its ``state.dir``."""

    name: InstanceName
    url: Url
    state_directory: LocalPath
    environment: Environment = Field(default_factory=dict)

    def filled(self, text: str) -> str:
        """``text`` with this instance's ``{name}``, ``{port}`` and ``{state_directory}``. Other braces stay as they are."""
        if "{" not in text:
            return text
        port = urlsplit(self.url).port
        values = {"{name}": self.name, "{state_directory}": self.state_directory, "{port}": "" if port is None else str(port)}
        if len(text) + sum(text.count(placeholder) * len(value) for placeholder, value in values.items()) > _MOST_ARGUMENT:
            raise ValueError(f"{text[:60]!r} has more than {_MOST_ARGUMENT} characters once it is filled for {self.name}")
        for placeholder, value in values.items():
            text = text.replace(placeholder, value)
        return text


def check_addresses(instances: Iterable[ProcessInstance], control: Control) -> None:
    """Raise ``ValueError`` for an instance whose answers the network could read or give, unless that is allowed."""
    for instance in instances:
        require_encrypted(instance.url, allowed=control.allow_http, setting="control.allow_http")


class ProcessRuns(StartingKind):
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
    def start_timeout(self) -> float:
        return float(self.start_timeout_seconds)

    @property
    def stop_timeout(self) -> float:
        return float(self.stop_timeout_seconds)

    @property
    def no_pause_because(self) -> str | None:
        return self.control.no_pause_because("runs.process.control")

    def command_of(self, instance: ProcessInstance) -> list[str]:
        """The program and arguments that start one instance."""
        return [instance.filled(argument) for argument in self.command]

    def environment_of(self, instance: ProcessInstance) -> dict[str, str]:
        """The environment of one instance, besides the variables that it inherits."""
        return {name: instance.filled(value) for name, value in {**self.environment, **instance.environment}.items()}

    def start_texts(self) -> Iterable[Iterable[str]]:
        for one in self.instances:
            yield map(one.filled, (*self.command, *{**self.environment, **one.environment}.values()))

    def reached(self, state: PurePath) -> Iterator[str]:
        for one in self.instances:
            yield f"the instance {one.name} in {self.directory}"
            yield f"the instance at {one.url}"
            yield f"the local state in {one.state_directory / state}"

    def cut_over(self, environment: Mapping[str, str], command: Argv | None) -> Self:
        return self.model_copy(update={"environment": {**self.environment, **environment}, "command": command or self.command})

    def in_sandbox(self, section: SandboxProcess) -> Self:
        """The section for the sandbox. Raises ``ValueError`` for an address that would have to be encrypted."""
        check_addresses(section.instances, self.control)
        changes = {"directory": section.directory, "instances": section.instances}
        return self.model_copy(update=changes).cut_over(section.environment, section.command)

    def shared_with(self, sandbox: Self, section: str) -> Iterable[str]:
        if self.directory == sandbox.directory:
            yield f"{section}.process.directory: it is that of the application itself, whose processes {section} would stop"
        urls = {instance.url for instance in self.instances}
        for instance in sandbox.instances:
            if instance.url in urls:
                yield f"{section}.process.instances: {instance.url} is an instance of the application itself"

    @model_validator(mode="after")
    def _can_be_started(self) -> Self:
        StartTexts(self.start_texts())
        return self

    @model_validator(mode="after")
    def _encrypted(self) -> Self:
        check_addresses(self.instances, self.control)
        return self

    @model_validator(mode="after")
    def _apart(self) -> Self:
        _require_apart(self.instances)
        return self


class SandboxProcess(Section):
    """Processes of the sandbox. What is not said here is as in ``runs.process``; ``environment`` is laid over the one there."""

    directory: LocalPath
    instances: Annotated[tuple[ProcessInstance, ...], Field(min_length=1)]
    environment: Environment = Field(default_factory=dict)
    command: Argv | None = None

    @model_validator(mode="after")
    def _apart(self) -> Self:
        _require_apart(self.instances)
        return self


class Slot(Section):
    """Processes for one interval at a time."""

    instances: Annotated[tuple[ProcessInstance, ...], Field(min_length=1)]


class ReprocessProcess(IntervalSection):
    """Processes of the application that reprocesses, a slot for each interval that goes on at the same time. What is not said here is as in
    ``runs.process``; ``environment`` is laid over the one there. ``{interval}`` in it and in ``command`` is the interval's name, ``{slot}`` the slot's number.
    """

    directory: LocalPath
    slots: Annotated[tuple[Slot, ...], Field(min_length=1)]
    environment: Environment = Field(default_factory=dict)
    command: Argv | None = None

    @property
    def most_slots(self) -> int:
        return len(self.slots)

    def in_slot(self, slot: int, filled: Callable[[str], str]) -> SandboxProcess | None:
        if slot >= len(self.slots):
            return None
        return SandboxProcess(
            directory=self.directory,
            instances=self.slots[slot].instances,
            environment={name: filled(value) for name, value in self.environment.items()},
            command=None if self.command is None else tuple(map(filled, self.command)),
        )

    @model_validator(mode="after")
    def _apart(self) -> Self:
        for what, value in _twice(instance for slot in self.slots for instance in slot.instances):
            raise ValueError(f"slots: two instances have the {what} {value}; they may run at the same time")
        return self


def _require_apart(instances: Iterable[ProcessInstance]) -> None:
    for what, value in _twice(instances):
        raise ValueError(f"instances: two of them have the {what} {value}; each needs its own")


def _twice(instances: Iterable[ProcessInstance]) -> Iterator[tuple[str, str]]:
    """Each kind of value that two of them have in common and must not, with the first such value."""
    every = list(instances)
    for what in ("name", "url", "state_directory"):
        counted = Counter(getattr(instance, what) for instance in every)
        twice = sorted(value for value, count in counted.items() if count > 1)
        if twice:
            yield what, twice[0]
