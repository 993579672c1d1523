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
    cross the network. ``close`` closes Kafka Streams and answers ``{"closed": true}`` when that is done. Without
    ``health`` its group says whether it works.
    """

    health: Route | None = "/health"
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


NO_ENDPOINTS: Final = Control(health=None, pause=None, resume=None, query=None, query_key=None, owner=None)
"""Of a program that nobody can ask."""


class ProcessInstance(Section):
    """One operating system process. ``environment`` is laid over the one of all instances; ``state_directory`` is its ``state.dir``. One without a ``url`` has
    no HTTP interface, and its state is read off the consumer group. In ``pid_file`` its program writes its pid: so it is found where it was not started from
    here.
    """

    name: InstanceName
    url: Url | None = None
    state_directory: LocalPath
    pid_file: LocalPath | None = None
    environment: Environment = Field(default_factory=dict)

    def filled(self, text: str) -> str:
        """``text`` with this instance's ``{name}``, ``{port}`` and ``{state_directory}``. Other braces stay as they are."""
        if "{" not in text:
            return text
        port = None if self.url is None else urlsplit(self.url).port
        values = {"{name}": self.name, "{state_directory}": self.state_directory, "{port}": "" if port is None else str(port)}
        if len(text) + sum(text.count(placeholder) * len(value) for placeholder, value in values.items()) > _MOST_ARGUMENT:
            raise ValueError(f"{text[:60]!r} has more than {_MOST_ARGUMENT} characters once it is filled for {self.name}")
        for placeholder, value in values.items():
            text = text.replace(placeholder, value)
        return text


def check_addresses(instances: Iterable[ProcessInstance], control: Control) -> None:
    """Raise ``ValueError`` for an instance whose answers the network could read or give, unless that is allowed."""
    for instance in instances:
        if instance.url is None:
            continue
        require_encrypted(instance.url, allowed=control.allow_http, setting="control.allow_http")


class ProcessRuns(StartingKind):
    """Processes on the machine that runs the tasks. ``directory`` keeps pid files and logs.

    ``{name}``, ``{port}`` and ``{state_directory}`` in ``command``, ``running_as`` and in values of ``environment`` stand for those of the instance.
    ``running_as`` is the exact command line of a running instance: by that one is found which was not started from here.
    """

    directory: LocalPath
    command: Argv
    running_as: Argv | None = None
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
        if silent := self.silent:
            return f"instances without a url have nothing that could be asked to pause: {', '.join(silent)}"
        return self.control.no_pause_because("runs.process.control")

    @property
    def silent(self) -> list[str]:
        """The instances without an HTTP interface."""
        return [one.name for one in self.instances if one.url is None]

    @property
    def control_of_all(self) -> Control:
        """The interface that every instance has: what one of them cannot be asked, none is."""
        verbs = ("pause", "resume", "query", "query_key", "owner", "close")
        return self.control.model_copy(update=dict.fromkeys(verbs)) if self.silent else self.control

    def running_as_of(self, instance: ProcessInstance) -> list[str] | None:
        """The command line that one instance is found by, None if it is not."""
        return None if self.running_as is None else [instance.filled(argument) for argument in self.running_as]

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
            if one.url is not None:
                yield f"the instance at {one.url}"
            if one.pid_file is not None:
                yield f"the process in {one.pid_file}"
            if (argv := self.running_as_of(one)) is not None:
                yield f"the process with the command line {' '.join(argv)}"
            yield f"the local state in {one.state_directory / state}"

    def cut_over(self, environment: Mapping[str, str], command: Argv | None) -> Self:
        changes = {"environment": {**self.environment, **environment}, "command": command or self.command}
        # Another program has another command line.
        return self.model_copy(update=changes if command is None else {**changes, "running_as": None})

    def in_sandbox(self, section: SandboxProcess) -> Self:
        """The section for the sandbox. Raises ``ValueError`` for an address that would have to be encrypted."""
        check_addresses(section.instances, self.control)
        # What runs there is started from here: found by a command line it could be the application itself.
        changes = {"directory": section.directory, "instances": section.instances, "running_as": None}
        return self.model_copy(update=changes).cut_over(section.environment, section.command)

    def shared_with(self, sandbox: Self, section: str) -> Iterable[str]:
        if self.directory == sandbox.directory:
            yield f"{section}.process.directory: it is that of the application itself, whose processes {section} would stop"
        own = {value for one in self.instances for value in (one.url, one.pid_file) if value is not None}
        for instance in sandbox.instances:
            for value in own.intersection((instance.url, instance.pid_file)):
                yield f"{section}.process.instances: {value} is an instance of the application itself"

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
        lines = Counter(tuple(self.running_as_of(one) or ()) for one in self.instances)
        if self.running_as is not None and max(lines.values()) > 1:
            raise ValueError(
                "running_as: two instances have one command line, by which nobody could tell them apart; put {name}, {port} or {state_directory} into it, or "
                "give each a pid_file"
            )
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
    for what in ("name", "url", "state_directory", "pid_file"):
        counted = Counter(value for instance in every if (value := getattr(instance, what)) is not None)
        twice = sorted(value for value, count in counted.items() if count > 1)
        if twice:
            yield what, twice[0]
