"""The ``reprocess`` section: how the past of an application is processed again, interval by interval, by applications of their own beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal

from pydantic import Field

from streams_recovery.config.fields import ApplicationId, Duration, Integer, Switch, TopicName
from streams_recovery.config.rules import Cron
from streams_recovery.config.runs import IntervalRuns, Runs, SandboxRuns
from streams_recovery.config.sandbox import NamedTopics, Sandbox, sandbox_problems, start_problems

# As long as any name of an interval is.
EXAMPLE: Final = "20261121T120000.000Z"


class Reprocess(IntervalRuns):
    """Reprocessing by backfills. ``schedule`` cuts time (UTC) into intervals; at most ``parallel`` are processed at once. To ``application_id`` and to each
    name in ``topic_map`` the interval is appended. ``lateness``, ``leave_late``, ``overlap``, ``beyond`` and ``base`` are defaults of a run's own params.
    """

    enabled: Switch = True
    schedule: Cron = "0 0 * * *"
    parallel: Annotated[Integer, Field(ge=1, le=64)] = 1
    application_id: ApplicationId
    topic_map: dict[TopicName, TopicName]
    tables: tuple[TopicName, ...] = ()
    lateness: Duration = "PT1H"
    leave_late: Switch = False
    overlap: Duration = "PT0S"
    beyond: Duration = "PT0S"
    base: Literal["none", "savepoint"] = "none"

    def sandbox(self, interval: str, slot: int) -> Sandbox:
        """What stands beside the application for one interval. Raises ``ValueError`` for a slot that there is not, and for names that become too long."""
        if not 0 <= slot < self.parallel:
            raise ValueError(f"reprocess: there is no slot {slot}, they go from 0 to {self.parallel - 1}")

        return Sandbox(
            section="reprocess",
            application_id=f"{self.application_id}-{interval}",
            topic_map={name: f"{mapped}-{interval}" for name, mapped in self.topic_map.items()},
            runs=self.runs_in(interval, slot),
        )

    def examples(self) -> Iterator[Sandbox]:
        """What stands beside the application in each slot, for an interval of the longest name. Raises as ``sandbox`` does."""
        return (self.sandbox(EXAMPLE, slot) for slot in range(self.parallel))

    def runs_in(self, interval: str, slot: int) -> SandboxRuns:
        """How it runs. Raises ``ValueError`` for texts that become too long."""

        def filled(text: str) -> str:
            return text.replace("{interval}", interval).replace("{slot}", str(slot))

        own = {kind: section for kind in IntervalRuns.model_fields if (section := self.section_of(kind)) is not None}
        return SandboxRuns.model_validate({kind: section.in_slot(slot, filled) for kind, section in own.items()})


def reprocess_problems(application_id: str, topics: NamedTopics, runs: Runs, reprocess: Reprocess) -> list[str]:
    """Everything that would let reprocessing touch the application, or two intervals each other."""
    own = reprocess.section_of(runs.kind)
    slots = reprocess.parallel if own is None or own.most_slots is None else own.most_slots
    found = [f"reprocess.{runs.kind}.slots: {slots} for {reprocess.parallel} intervals at once"] if slots < reprocess.parallel else []
    found += [
        f"reprocess.topic_map: input {name} has no name of its own, and what is read must end with the interval"
        for name in topics.inputs
        if name not in reprocess.topic_map
    ]
    if topics.input_patterns:
        found.append(
            "reprocess: an input that a pattern means has no name of its own in an interval, and the program would subscribe to the real ones; name the inputs "
            "under topics.inputs, or reprocess into a clone"
        )
    inputs = frozenset(topics.inputs)
    found += [f"reprocess.tables: {name} is no input" for name in reprocess.tables if name not in inputs]
    try:
        sandbox = reprocess.sandbox(EXAMPLE, 0)
        found += sandbox_problems(application_id, topics, runs, sandbox)
        for slot in range(1, min(slots, reprocess.parallel)):
            # The rest is the same in every slot. What is wrong in one of them is enough: it is wrong in most, and there are up to 64.
            if found:
                break
            found += start_problems(topics, runs, sandbox.model_copy(update={"runs": reprocess.runs_in(EXAMPLE, slot)}))
    except ValueError as error:
        found.append(str(error))
    return found
