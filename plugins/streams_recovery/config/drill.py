"""The ``drill`` section, and the configuration that a drill restores into: the application's own under another id, with outputs of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Protocol

from pydantic import Field

from streams_recovery.config.fields import ApplicationId, Argv, Environment, LocalPath, Schedule, Section, Switch, TopicName
from streams_recovery.config.runs import CommandRuns, ProcessInstance, ProcessRuns, Runs, check_addresses
from streams_recovery.core.names import internal_role


class DrillProcess(Section):
    """Processes of the drill. What is not said here is as in ``runs.process``; ``environment`` is laid over the one there."""

    directory: LocalPath
    instances: Annotated[tuple[ProcessInstance, ...], Field(min_length=1)]
    environment: Environment = Field(default_factory=dict)
    command: Argv | None = None


class Drill(Section):
    """A restore that is tried on a schedule, into an application of its own that is removed afterwards. ``topic_map`` gives every output, and inputs
    that are to be copied, another name; ``schedule`` null or ``none`` means only by hand.
    """

    enabled: Switch = True
    schedule: Schedule = "0 4 * * 6"
    application_id: ApplicationId
    topic_map: dict[TopicName, TopicName] = Field(default_factory=dict)
    process: DrillProcess | None = None
    command: CommandRuns | None = None

    def runs_as(self, runs: Runs) -> Runs:
        """How the drill's application runs. Raises ``ValueError`` when the section for that is missing."""
        if getattr(self, runs.kind) is None:
            raise ValueError(f"drill.{runs.kind} is missing: runs.kind is {runs.kind}, and the drill's application runs the same way")
        if runs.kind == "command":
            return Runs(kind="command", command=self.command)
        return Runs(kind="process", process=_process(runs, self.process))


def _process(runs: Runs, drill: DrillProcess | None) -> ProcessRuns | None:
    own = runs.process
    if own is None or drill is None:
        return None
    check_addresses(drill.instances, own.control)
    changes = {
        "directory": drill.directory,
        "instances": drill.instances,
        "environment": {**own.environment, **drill.environment},
        "command": drill.command or own.command,
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


def drill_problems(application_id: str, topics: Topics, runs: Runs, drill: Drill) -> list[str]:
    """Everything that would let a drill touch the application it is a drill of."""
    found = [*_id_problems(application_id, drill), *_topic_problems(application_id, topics, drill)]
    try:
        scratch = drill.runs_as(runs)
    except ValueError as error:
        return [*found, str(error)]
    outputs = [name for name in topics.outputs if name in drill.topic_map]
    names = [*drill.topic_map.values(), drill.application_id]
    return [*found, *_apart(runs, scratch), *_argument_problems(scratch, names, outputs, drill.application_id)]


def _id_problems(application_id: str, drill: Drill) -> Iterable[str]:
    if clash(application_id, drill.application_id):
        yield (
            f"drill.application_id: {drill.application_id} and {application_id} begin alike, so that internal topics of one could be taken for "
            "the other's; begin it with another word, such as drill-"
        )


def clash(one: str, other: str) -> bool:
    """True when topics of one application id could be taken for those of the other."""
    return one == other or one.startswith(f"{other}-") or other.startswith(f"{one}-")


def _topic_problems(application_id: str, topics: Topics, drill: Drill) -> Iterable[str]:
    names = Counter(drill.topic_map.values())
    unmapped = [name for name in topics.outputs if name not in drill.topic_map]
    if unmapped:
        yield f"drill.topic_map: outputs {', '.join(unmapped)} have no name of their own, so a drill would write into them"
    for name in drill.topic_map:
        if name not in topics.declared:
            yield f"drill.topic_map: {name} is no topic of this application"
    for name, count in names.items():
        if count > 1:
            yield f"drill.topic_map: {name} would stand for {count} topics"
        if name in topics.declared:
            yield f"drill.topic_map: {name} is a topic of the application itself"
        if internal_role(name, application_id) or internal_role(name, drill.application_id):
            yield f"drill.topic_map: {name} is the name of an internal topic"


def _apart(runs: Runs, scratch: Runs) -> Iterable[str]:
    if runs.process is None or scratch.process is None:
        return
    if runs.process.directory == scratch.process.directory:
        yield "drill.process.directory: it is that of the application itself, whose processes the drill would stop"
    urls = {instance.url for instance in runs.process.instances}
    for instance in scratch.process.instances:
        if instance.url in urls:
            yield f"drill.process.instances: {instance.url} is an instance of the application itself"


def _argument_problems(scratch: Runs, names: Iterable[str], outputs: Iterable[str], application_id: str) -> Iterable[str]:
    """Names that the started application cannot know, and outputs in production that it is still told of."""
    if scratch.process is not None:
        process = scratch.process
        texts = [[*process.command_of(one), *process.environment_of(one).values()] for one in process.instances]
    elif scratch.command is not None:
        # The application id is always in the environment of a program.
        texts = [[*scratch.command.start, *scratch.command.environment.values(), application_id]]
    else:
        texts = []
    for name in names:
        if not all(any(name in text for text in given) for given in texts):
            yield (
                f"drill.{scratch.kind}: {name} is neither in the environment nor in the command of every instance, so the application could not "
                "know of it and would go on with the name that it has in production"
            )
    for name in outputs:
        if any(name in given for given in texts):
            yield f"drill.{scratch.kind}: the environment or the command still names the output {name}"
