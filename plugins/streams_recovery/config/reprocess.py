"""The ``reprocess`` section: how the past of an application is processed again, interval by interval, by applications of their own beside it."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from streams_recovery.config.fields import ApplicationId, Argv, Cron, Duration, Environment, Integer, LocalPath, Section, Switch, TopicName
from streams_recovery.config.runs import CommandRuns, ProcessInstance, Runs
from streams_recovery.config.sandbox import Sandbox, SandboxProcess, Topics, sandbox_problems

# As long as any name of an interval is.
EXAMPLE: Final = "20261121T120000.000Z"


class Slot(Section):
    """Processes for one interval at a time."""

    instances: Annotated[tuple[ProcessInstance, ...], Field(min_length=1)]


class ReprocessProcess(Section):
    """Processes of the application that reprocesses, a slot for each interval that goes on at the same time. What is not said here is as in
    ``runs.process``; ``environment`` is laid over the one there. ``{interval}`` in it and in ``command`` is the interval's name, ``{slot}`` the slot's number.
    """

    directory: LocalPath
    slots: Annotated[tuple[Slot, ...], Field(min_length=1)]
    environment: Environment = Field(default_factory=dict)
    command: Argv | None = None

    @model_validator(mode="after")
    def _apart(self) -> Self:
        instances = [instance for slot in self.slots for instance in slot.instances]
        for what in ("name", "url", "state_directory"):
            values = [getattr(instance, what) for instance in instances]
            twice = sorted({value for value in values if values.count(value) > 1})
            if twice:
                raise ValueError(f"slots: two instances have the {what} {twice[0]}; they may run at the same time")
        return self


class Reprocess(Section):
    """Reprocessing by backfills. ``schedule`` cuts time (UTC) into intervals; at most ``parallel`` are processed at once. To ``application_id`` and to each
    name in ``topic_map`` the interval is appended. ``lateness``, ``overlap``, ``beyond`` and ``base`` are defaults of a run's own params.
    """

    enabled: Switch = True
    schedule: Cron = "0 0 * * *"
    parallel: Annotated[Integer, Field(ge=1, le=64)] = 1
    application_id: ApplicationId
    topic_map: dict[TopicName, TopicName]
    tables: tuple[TopicName, ...] = ()
    lateness: Duration = "PT1H"
    overlap: Duration = "PT0S"
    beyond: Duration = "PT0S"
    base: Literal["none", "savepoint"] = "none"
    process: ReprocessProcess | None = None
    command: CommandRuns | None = None

    def sandbox(self, interval: str, slot: int) -> Sandbox:
        """What stands beside the application for one interval. Raises ``ValueError`` for a slot that there is not, and for names that become too long."""
        if not 0 <= slot < self.parallel:
            raise ValueError(f"reprocess: there is no slot {slot}, they go from 0 to {self.parallel - 1}")

        def filled(text: str) -> str:
            return text.replace("{interval}", interval).replace("{slot}", str(slot))

        def environment(given: dict[str, str]) -> dict[str, str]:
            return {name: filled(value) for name, value in given.items()}

        process, command = None, None
        if self.process is not None and slot < len(self.process.slots):
            own = self.process
            argv = None if own.command is None else tuple(map(filled, own.command))
            process = SandboxProcess(
                directory=own.directory, instances=own.slots[slot].instances, environment=environment(own.environment), command=argv
            )
        if self.command is not None:
            verbs = {verb: tuple(map(filled, argv)) for verb, argv in self.command if isinstance(argv, tuple)}
            command = self.command.model_copy(update={**verbs, "environment": environment(self.command.environment)})
        return Sandbox(
            section="reprocess",
            application_id=f"{self.application_id}-{interval}",
            topic_map={name: f"{mapped}-{interval}" for name, mapped in self.topic_map.items()},
            process=process,
            command=command,
        )


def reprocess_problems(application_id: str, topics: Topics, runs: Runs, reprocess: Reprocess) -> list[str]:
    """Everything that would let reprocessing touch the application, or two intervals each other."""
    slots = len(reprocess.process.slots) if reprocess.process is not None else reprocess.parallel
    found = [f"reprocess.process.slots: {slots} for {reprocess.parallel} intervals at once"] if slots < reprocess.parallel else []
    found += [
        f"reprocess.topic_map: input {name} has no name of its own, and what is read must end with the interval"
        for name in topics.inputs
        if name not in reprocess.topic_map
    ]
    found += [f"reprocess.tables: {name} is no input" for name in reprocess.tables if name not in topics.inputs]
    for slot in range(min(slots, reprocess.parallel)):
        try:
            problems = sandbox_problems(application_id, topics, runs, reprocess.sandbox(EXAMPLE, slot))
        except ValueError as error:
            problems = [str(error)]
        found += [text for text in problems if text not in found]
    return found
