"""Sandboxes, and the sections ``drill`` and ``reprocess`` that describe them. A sandbox is an application that stands beside another one for a while and is
removed again. It must not touch the other one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Final, Literal, Protocol

from pydantic import AfterValidator, Field

from streams_recovery.config.fields import ApplicationId, Duration, Integer, Section, Switch, TopicName, named
from streams_recovery.config.rules import Cron, Schedule
from streams_recovery.config.runs import IntervalRuns, Runs, SandboxRuns, StartingKind
from streams_recovery.config.runs.kind import StartTexts
from streams_recovery.core.names import internal_examples, internal_role
from streams_recovery.core.savepoint.topology import Topics

# As long as any name of an interval is.
EXAMPLE: Final = "20261121T120000.000Z"


class Sandbox(Section):
    """One of them, described by a ``section`` of the configuration. ``topic_map`` gives every output, and inputs that are to be copied, another name.
    Raises ``ValueError`` for names that Kafka would not take.
    """

    section: str
    application_id: ApplicationId
    topic_map: dict[TopicName, TopicName]
    runs: SandboxRuns

    def runs_as(self, runs: Runs) -> Runs:
        """The ``runs`` section of the sandbox. Raises ``ValueError`` when its section lacks that kind, or no sandbox can run this way."""
        return runs.in_sandbox(self.runs, self.section)

    def where(self, names: Mapping[str, str]) -> Sandbox:
        """The sandbox at a site where topics of the application have these ``names``."""
        return self.model_copy(update={"topic_map": {names.get(topic, topic): own for topic, own in self.topic_map.items()}})


def sandbox_problems(application_id: str, topics: Topics, runs: Runs, sandbox: Sandbox) -> list[str]:
    """Everything that would let a sandbox touch the application that it is of."""
    return [
        *_id_problems(application_id, sandbox),
        *_topic_problems(application_id, topics, sandbox),
        *_start_problems(topics, runs, sandbox),
    ]


class AtSite(Protocol):
    """The shape of ``model.ApplicationConfig``, as it is at one site; that module imports this one."""

    @property
    def topics(self) -> Topics: ...

    @property
    def runs(self) -> Runs: ...


def problems_elsewhere(
    application_id: str, sandbox: Sandbox, home: str, at: Mapping[str, AtSite], names: Mapping[str, Mapping[str, str]]
) -> list[str]:
    """Everything that would let a sandbox whose ``home`` is one site touch the application at other sites: its processes there, and its topics at the sites in
    ``names``. The sandbox may follow the application to these, and has these names of topics there. How it would be started there is checked once it is there.
    """
    found = [
        f"{problem}, at {site}"
        for site in names
        for problem in _topic_problems(application_id, at[site].topics, sandbox.where(names[site]))
    ]
    try:
        scratch = sandbox.runs_as(at[home].runs).chosen
    except ValueError:
        # Said already, of its home.
        return found
    for site, there in at.items():
        own = there.runs.chosen
        if site != home and isinstance(scratch, StartingKind) and isinstance(own, type(scratch)):
            found += [f"{problem}, at {site}" for problem in own.shared_with(scratch, sandbox.section)]
    return found


def _start_problems(topics: Topics, runs: Runs, sandbox: Sandbox) -> list[str]:
    """The part of the problems that is about how the sandbox is started."""
    try:
        own, scratch = runs.starting(sandbox.section), sandbox.runs_as(runs).starting(sandbox.section)
        return [
            *own.shared_with(scratch, sandbox.section),
            *_unknown_names(sandbox, f"{sandbox.section}.{runs.kind}", scratch, topics.outputs),
        ]
    except ValueError as error:
        return [str(error)]


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
    names, declared = Counter(sandbox.topic_map.values()), topics.declared
    if any(topics.reads(name) for name in internal_examples(sandbox.application_id)):
        yield f"topics.input_patterns: they mean internal topics of {sandbox.application_id}, so the application would read them"
    unmapped = [name for name in topics.outputs if name not in sandbox.topic_map]
    if unmapped:
        yield f"{sandbox.section}.topic_map: outputs {', '.join(unmapped)} have no name of their own, so {sandbox.section} would write into them"
    for name in sandbox.topic_map:
        if name not in declared and topics.reads(name):
            yield (
                f"{sandbox.section}.topic_map: {name} is read by pattern, so {sandbox.section} would read the real one whatever is written here; leave it out, "
                "or name it under topics.inputs in place of the pattern"
            )
        elif name not in declared:
            yield f"{sandbox.section}.topic_map: {name} is no topic of this application"
    for name, count in names.items():
        if count > 1:
            yield f"{sandbox.section}.topic_map: {name} would stand for {count} topics"
        if name in declared or topics.reads(name):
            yield f"{sandbox.section}.topic_map: {name} is a topic of the application itself"
        if internal_role(name, application_id) or internal_role(name, sandbox.application_id):
            yield f"{sandbox.section}.topic_map: {name} is the name of an internal topic"


def _unknown_names(sandbox: Sandbox, where: str, scratch: StartingKind, outputs: Iterable[str]) -> Iterable[str]:
    """Names that the started application cannot know, and outputs in production that it is still told of."""
    texts = StartTexts(scratch.start_texts())
    for name in (*sandbox.topic_map.values(), *(() if scratch.knows_application_id else (sandbox.application_id,))):
        if not texts.everywhere(name):
            yield (
                f"{where}: {name} is neither in the environment nor in the command of every instance, so the application could not "
                "know of it and would go on with the name that it has in production"
            )
    for name in outputs:
        if name in sandbox.topic_map and texts.is_one(name):
            yield f"{where}: the environment or the command still names the output {name}"


class Reprocess(IntervalRuns):
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

    def sandbox(self, interval: str, slot: int) -> Sandbox:
        """The sandbox of one interval. Raises ``ValueError`` for a slot that there is not, and for names that become too long."""
        if not 0 <= slot < self.parallel:
            raise ValueError(f"reprocess: there is no slot {slot}, they go from 0 to {self.parallel - 1}")
        return Sandbox(
            section="reprocess",
            application_id=f"{self.application_id}-{interval}",
            topic_map={name: f"{mapped}-{interval}" for name, mapped in self.topic_map.items()},
            runs=self.runs_in(interval, slot),
        )

    def examples(self) -> Iterator[Sandbox]:
        """The sandbox in each slot, for an interval of the longest name. Raises as ``sandbox`` does."""
        return (self.sandbox(EXAMPLE, slot) for slot in range(self.parallel))

    def runs_in(self, interval: str, slot: int) -> SandboxRuns:
        """The sections of its kinds. Raises ``ValueError`` for texts that become too long."""

        def filled(text: str) -> str:
            return text.replace("{interval}", interval).replace("{slot}", str(slot))

        own = {kind: section for kind in IntervalRuns.model_fields if (section := self.section_of(kind)) is not None}
        return SandboxRuns.model_validate({kind: section.in_slot(slot, filled) for kind, section in own.items()})


def reprocess_problems(application_id: str, topics: Topics, runs: Runs, reprocess: Reprocess) -> list[str]:
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
            # The rest is the same in every slot. One message is enough: a mistake is the same in most slots, and there are up to 64.
            if found:
                break
            found += _start_problems(topics, runs, sandbox.model_copy(update={"runs": reprocess.runs_in(EXAMPLE, slot)}))
    except ValueError as error:
        found.append(str(error))
    return found


class Drill(SandboxRuns):
    """A restore that is tried on a schedule, into an application of its own that is removed afterwards. ``topic_map`` gives every output, and inputs
    that are to be copied, another name; ``schedule`` null or ``none`` means only by hand. ``site`` is the one whose cluster it is at, null the one that the
    application belongs to. ``partitions`` are other numbers for topics of the application, of which the drill is a rescale then.
    """

    enabled: Switch = True
    schedule: Schedule = "H 4 * * 6"
    site: Annotated[str, AfterValidator(named("site"))] | None = None
    application_id: ApplicationId
    topic_map: dict[TopicName, TopicName] = Field(default_factory=dict)
    partitions: dict[TopicName, Annotated[Integer, Field(ge=1, le=99_999)]] = Field(default_factory=dict)

    @property
    def numbers(self) -> str:
        """``partitions`` as a person asks for them, empty for an ordinary drill."""
        return " ".join(f"{topic}={number}" for topic, number in self.partitions.items())

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox that it restores into."""
        return Sandbox(section="drill", application_id=self.application_id, topic_map=self.topic_map, runs=self)
