"""An application that stands beside another one for a while and is removed again: what it needs of its own, and what would let it touch the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Protocol

from pydantic import Field

from streams_recovery.config.fields import ApplicationId, Argv, Environment, LocalPath, Section, TopicName
from streams_recovery.config.runs import CommandRuns, ProcessInstance, ProcessRuns, Runs, check_addresses
from streams_recovery.core.names import internal_role


class SandboxProcess(Section):
    """Processes of the sandbox. What is not said here is as in ``runs.process``; ``environment`` is laid over the one there."""

    directory: LocalPath
    instances: Annotated[tuple[ProcessInstance, ...], Field(min_length=1)]
    environment: Environment = Field(default_factory=dict)
    command: Argv | None = None


class Sandbox(Section):
    """One of them, described by a ``section`` of the configuration. ``topic_map`` gives every output, and inputs that are to be copied, another name.
    Raises ``ValueError`` for names that Kafka would not take.
    """

    section: str
    application_id: ApplicationId
    topic_map: dict[TopicName, TopicName]
    process: SandboxProcess | None
    command: CommandRuns | None

    def runs_as(self, runs: Runs) -> Runs:
        """How it runs. Raises ``ValueError`` when the section for that is missing."""
        if getattr(self, runs.kind) is None:
            raise ValueError(f"{self.section}.{runs.kind} is missing: runs.kind is {runs.kind}, and {self.section} runs the same way")
        if runs.kind == "command":
            return Runs(kind="command", command=self.command)
        return Runs(kind="process", process=_process(runs, self.process))


def _process(runs: Runs, sandbox: SandboxProcess | None) -> ProcessRuns | None:
    own = runs.process
    if own is None or sandbox is None:
        return None
    check_addresses(sandbox.instances, own.control)
    changes = {
        "directory": sandbox.directory,
        "instances": sandbox.instances,
        "environment": {**own.environment, **sandbox.environment},
        "command": sandbox.command or own.command,
    }
    return own.model_copy(update=changes)


class Topics(Protocol):
    """The shape of ``model.Topics``; that module imports this one."""

    @property
    def inputs(self) -> Sequence[str]:
        """Input topics."""

    @property
    def outputs(self) -> Sequence[str]:
        """Output topics."""

    @property
    def declared(self) -> Mapping[str, object]:
        """All of them."""


def sandbox_problems(application_id: str, topics: Topics, runs: Runs, sandbox: Sandbox) -> list[str]:
    """Everything that would let a sandbox touch the application that it is of."""
    found = [*_id_problems(application_id, sandbox), *_topic_problems(application_id, topics, sandbox)]
    try:
        scratch = sandbox.runs_as(runs)
    except ValueError as error:
        return [*found, str(error)]
    outputs = [name for name in topics.outputs if name in sandbox.topic_map]
    names = [*sandbox.topic_map.values(), sandbox.application_id]
    return [*found, *_apart(sandbox.section, runs, scratch), *_unknown_names(sandbox, scratch, names, outputs)]


def _id_problems(application_id: str, sandbox: Sandbox) -> Iterable[str]:
    if clash(application_id, sandbox.application_id):
        yield (
            f"{sandbox.section}.application_id: {sandbox.application_id} and {application_id} begin alike, so that internal topics of one could be taken for "
            f"the other's; begin it with another word, such as {sandbox.section}-"
        )


def clash(one: str, other: str) -> bool:
    """True when topics of one application id could be taken for those of the other."""
    return one == other or one.startswith(f"{other}-") or other.startswith(f"{one}-")


def _topic_problems(application_id: str, topics: Topics, sandbox: Sandbox) -> Iterable[str]:
    names = Counter(sandbox.topic_map.values())
    unmapped = [name for name in topics.outputs if name not in sandbox.topic_map]
    if unmapped:
        yield f"{sandbox.section}.topic_map: outputs {', '.join(unmapped)} have no name of their own, so {sandbox.section} would write into them"
    for name in sandbox.topic_map:
        if name not in topics.declared:
            yield f"{sandbox.section}.topic_map: {name} is no topic of this application"
    for name, count in names.items():
        if count > 1:
            yield f"{sandbox.section}.topic_map: {name} would stand for {count} topics"
        if name in topics.declared:
            yield f"{sandbox.section}.topic_map: {name} is a topic of the application itself"
        if internal_role(name, application_id) or internal_role(name, sandbox.application_id):
            yield f"{sandbox.section}.topic_map: {name} is the name of an internal topic"


def _apart(section: str, runs: Runs, scratch: Runs) -> Iterable[str]:
    if runs.process is None or scratch.process is None:
        return
    if runs.process.directory == scratch.process.directory:
        yield f"{section}.process.directory: it is that of the application itself, whose processes {section} would stop"
    urls = {instance.url for instance in runs.process.instances}
    for instance in scratch.process.instances:
        if instance.url in urls:
            yield f"{section}.process.instances: {instance.url} is an instance of the application itself"


def _unknown_names(sandbox: Sandbox, scratch: Runs, names: Iterable[str], outputs: Iterable[str]) -> Iterable[str]:
    """Names that the started application cannot know, and outputs in production that it is still told of."""
    if scratch.process is not None:
        process = scratch.process
        texts = [[*process.command_of(one), *process.environment_of(one).values()] for one in process.instances]
    elif scratch.command is not None:
        # The application id is always in the environment of a program.
        texts = [[*scratch.command.start, *scratch.command.environment.values(), sandbox.application_id]]
    else:
        texts = []
    for name in names:
        if not all(any(name in text for text in known) for known in texts):
            yield (
                f"{sandbox.section}.{scratch.kind}: {name} is neither in the environment nor in the command of every instance, so the application could not "
                "know of it and would go on with the name that it has in production"
            )
    for name in outputs:
        if any(name in known for known in texts):
            yield f"{sandbox.section}.{scratch.kind}: the environment or the command still names the output {name}"
