"""The sections ``restore``, ``clone`` and ``deploy``: bringing savepoints back, replacing an application by its clone, and the version that is started."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

from pydantic import AfterValidator, Field

from streams_recovery.config.fields import (
    Argv,
    AsSection,
    ConfigurationName,
    Duration,
    Environment,
    Integer,
    Moment,
    Seconds,
    Section,
    TopicName,
    accepted_by,
    default_of,
)
from streams_recovery.config.rules import OffsetRule
from streams_recovery.config.runs import Runs, StartingKind
from streams_recovery.config.runs.kind import StartTexts
from streams_recovery.core.savepoint.topology import Topics
from streams_recovery.core.waiting import RateLimits


class Restore(Section):
    """Defaults of every restore. A run's own parameters go before them. ``topic_map`` gives topics of a savepoint, other than internal ones, the names
    they have for this application: a clone's outputs, or copies of inputs. Topics that are created have ``replication_factor`` replicas, as many as in the
    savepoint without it.
    """

    consumer_group_strategy: OffsetRule = "exact"
    time_window_end: Moment | None = None
    throttle: Annotated[RateLimits, AsSection(RateLimits)] = default_of(RateLimits)
    stall_timeout_seconds: Seconds = 120
    catch_up_timeout_seconds: Seconds = 900
    producers_still_seconds: Seconds = 30
    topic_map: dict[TopicName, TopicName] = Field(default_factory=dict)
    replication_factor: Annotated[Integer, Field(ge=1, le=100)] | None = None


class CutOver(Section):
    """Changes once the clone is live: ``environment`` is laid over the one in ``runs``, ``command`` is the program in place of the one there
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
        """The ``runs`` section with the real outputs. Raises ``ValueError`` when it runs in a way in which no clone can."""
        return runs.cut_over(self.cut_over.environment, self.cut_over.command)


def _watched_for(text: str) -> float:
    # It has to do with two topologies, and only a configuration with this section asks.
    from streams_recovery.core.rollout.upgrade import watched_for  # noqa: PLC0415

    return watched_for(text)


class Deploy(Section):
    """A program that every restore and every upgrade in place runs before it starts the application, as an argument list, never through a shell. It makes the
    version that is to run be there, and returns when it is. It may be run again: a restore that is resumed runs it once more. ``roll_back`` is the same for the
    version that runs now: an upgrade that fails is taken back by it.

    A new version is watched for as long as ``watch`` says, and may be ``max_lag`` input records behind, any number when it is not set.
    """

    command: Argv
    # The step that starts an application may take half an hour.
    timeout_seconds: Annotated[Integer, Field(ge=1, le=1_500)] = 600
    roll_back: Argv | None = None
    watch: Annotated[Duration, AfterValidator(accepted_by(_watched_for))] = "PT10M"
    max_lag: Annotated[Integer, Field(ge=0)] | None = None


def real_outputs(topics: Topics, topic_map: Mapping[str, str]) -> dict[str, str]:
    """The real names by the clone's own."""
    return {own: real for real, own in topic_map.items() if own in topics.outputs}


def clone_problems(name: str, topics: Topics, topic_map: Mapping[str, str], runs: Runs, clone: Clone) -> list[str]:
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
    read = sorted(name for name in {*topic_map.values()} if name in topics.globals or topics.reads(name))
    if read:
        found.append(f"clone: it reads {', '.join(read)} in place of what {clone.of} reads, so it could never replace it")
    try:
        beside, live = runs.starting("clone"), clone.runs_live(runs).starting("clone")
    except ValueError as error:
        return [*found, str(error)]
    return [
        *found,
        *_argument_problems(beside, real, real.values(), "runs"),
        *_argument_problems(live, real.values(), real, "clone.cut_over"),
    ]


def _argument_problems(runs: StartingKind, names: Iterable[str], others: Iterable[str], where: str) -> Iterable[str]:
    """Outputs that a started instance would not know of, and those that it is still told of."""
    given = StartTexts(runs.start_texts())
    for name in names:
        if not given.everywhere(name):
            yield f"{where}: the output {name} is neither in the environment nor in the command of every instance, so it would not be written"
    for name in others:
        if given.is_one(name):
            yield f"{where}: the environment or the command of an instance names the output {name}"
