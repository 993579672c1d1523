"""The ``clone`` section: of which application this one is a clone, and how it is started once it writes that one's outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Protocol

from pydantic import Field

from streams_recovery.config.fields import Argv, ConfigurationName, Environment, Integer, Section
from streams_recovery.config.runs import Runs


class CutOver(Section):
    """What is different once the clone is live: ``environment`` is laid over the one in ``runs``, ``command`` is the program in place of the one there
    (``runs.process.command``, or ``runs.command.start``).
    """

    environment: Environment = Field(default_factory=dict)
    command: Argv | None = None


class Clone(Section):
    """The application that runs beside the one configured as ``of`` and can replace it. ``max_lag`` is how many input records it may be behind at a
    cut-over. The names of its own outputs, and what each stands for, are in ``restore.topic_map``.
    """

    of: ConfigurationName
    max_lag: Annotated[Integer, Field(ge=0, le=10**12)] = 10_000
    cut_over: CutOver = CutOver()

    def runs_live(self, runs: Runs) -> Runs:
        """How it runs with the real outputs."""
        process, command = runs.process, runs.command
        if process is not None:
            environment = {**process.environment, **self.cut_over.environment}
            process = process.model_copy(update={"environment": environment, "command": self.cut_over.command or process.command})
        if command is not None:
            environment = {**command.environment, **self.cut_over.environment}
            command = command.model_copy(update={"environment": environment, "start": self.cut_over.command or command.start})
        return Runs(kind=runs.kind, process=process, command=command)


class _Topics(Protocol):
    # The shape of model.Topics; that module imports this one.
    @property
    def inputs(self) -> Sequence[str]: ...
    @property
    def outputs(self) -> Sequence[str]: ...
    @property
    def globals(self) -> Sequence[str]: ...


def real_outputs(topics: _Topics, topic_map: Mapping[str, str]) -> dict[str, str]:
    """The real names by the clone's own."""
    return {own: real for real, own in topic_map.items() if own in topics.outputs}


def clone_problems(name: str, topics: _Topics, topic_map: Mapping[str, str], runs: Runs, clone: Clone) -> list[str]:
    """Everything that would let a clone write where it must not, or keep it from ever taking over."""
    found = [f"clone.of: {name} cannot be a clone of itself"] if clone.of == name else []
    real = real_outputs(topics, topic_map)
    unmapped = [output for output in topics.outputs if output not in real]
    if unmapped:
        found.append(
            f"clone: restore.topic_map says for no topic that its name is {', '.join(unmapped)}, so nothing is known to cut over to"
        )
    own = [output for output, other in real.items() if output == other]
    if own:
        found.append(f"clone: {', '.join(own)} would be written by {clone.of} and by {name}")
    read = sorted({*topics.inputs, *topics.globals} & set(topic_map.values()))
    if read:
        found.append(f"clone: it reads {', '.join(read)} in place of what {clone.of} reads, so it could never replace it")
    return [
        *found,
        *_argument_problems(runs, real, real.values(), "runs"),
        *_argument_problems(clone.runs_live(runs), real.values(), real, "clone.cut_over"),
    ]


def _argument_problems(runs: Runs, names: Iterable[str], others: Iterable[str], where: str) -> Iterable[str]:
    """Outputs that a started instance would not know of, and those that it is still told of."""
    given = _texts(runs)
    for name in names:
        if not all(any(name in text for text in texts) for texts in given):
            yield f"{where}: the output {name} is neither in the environment nor in the command of every instance, so it would not be written"
    for name in others:
        if any(name in texts for texts in given):
            yield f"{where}: the environment or the command of an instance names the output {name}"


def _texts(runs: Runs) -> list[list[str]]:
    if runs.kind == "process" and runs.process is not None:
        return [[*runs.process.command_of(one), *runs.process.environment_of(one).values()] for one in runs.process.instances]
    if runs.command is not None:
        return [[*runs.command.start, *runs.command.environment.values()]]
    return []
