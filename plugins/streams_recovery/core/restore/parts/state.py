"""Restores that replace the state: the steps that all of them show, from the stop to the start."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Final

from streams_recovery.core.escaping import Markdown, code, md
from streams_recovery.core.kafka_types import Evidence
from streams_recovery.core.restore.parts.part import EMPTY, SHOWN, TOPICS, PlanPart, deployed, duration, instances, table, warnings
from streams_recovery.core.restore.planned import ArchivedInput, PlannedRestore, TopicToCreate
from streams_recovery.core.restore.request import SafetyPolicy
from streams_recovery.core.words import first_names, moment

_SAFETY: Final = {
    SafetyPolicy.REQUIRED: md("**Save** the present state as a safety savepoint, so that `undo` can restore it."),
    SafetyPolicy.BEST_EFFORT: md("**Try to save** the present state as a safety savepoint. Continue without one if that fails."),
    SafetyPolicy.SKIP: md("**Save nothing**: the present state is lost, and `undo` cannot restore it."),
}
_EVIDENCE: Final = {
    Evidence.STORE: md("the configuration has its store"),
    Evidence.COMMITTED: md("its consumer group has committed offsets on it, or on the repartition topic of the same name"),
    Evidence.NAMED: md("**only because it was named**, in the request or under `topics.owned`"),
    Evidence.RESTORED: md("a restore created it"),
    Evidence.SAVEPOINT: md("a savepoint has it"),
    Evidence.NAME: md("its name"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePart(PlanPart):
    """A restore after which the application goes on with another state than it has now."""

    @abstractmethod
    def head(self, plan: PlannedRestore) -> list[Markdown]:
        """The heading, and what is brought back."""

    def about(self, _plan: PlannedRestore) -> list[Markdown]:
        """What is to be known of the input, before the steps."""
        return about_archive(self.archived)

    def replaced(self, plan: PlannedRestore) -> list[Markdown]:
        """The steps between the safety savepoint and the offsets."""
        return [
            *_deletions(plan),
            md("3. **Create and load** {} topics with {:,} records:", len(plan.create), plan.rows),
            EMPTY,
            *TOPICS,
            *(topic_row(topic, plan) for topic in plan.create),
            EMPTY,
            md("4. **Verify** every record against the savepoint."),
        ]

    def offsets(self, plan: PlannedRestore) -> list[Markdown]:
        """The step that sets them."""
        return [md("5. **Set {} committed offsets**, the inputs' by {}:", len(plan.offsets), code(plan.strategy)), EMPTY, *_offsets(plan)]

    def catching_up(self, plan: PlannedRestore) -> Markdown:
        """What the start waits for."""
        return md("{:,} input records past the savepoint are processed again", plan.observed.records_to_catch_up)

    def elsewhere(self, plan: PlannedRestore) -> list[Markdown]:
        """What becomes of the inputs and outputs."""
        return [EMPTY, _inputs(plan, self.archived)]

    def text(self, plan: PlannedRestore) -> list[Markdown]:
        return [
            *self.head(plan),
            EMPTY,
            *duration(plan),
            *self.about(plan),
            *warnings(plan),
            *_claimed(plan),
            *_evidence(plan),
            md("1. **Stop** {} and prove that they are stopped.", instances(plan)),
            md("2. {}", _SAFETY[plan.safety]),
            *self.replaced(plan),
            *self.offsets(plan),
            EMPTY,
            md("6. **Wipe** the local state of every instance."),
            md("7. {}**Start**, and wait until {}.", deployed(plan), self.catching_up(plan)),
            *self.elsewhere(plan),
        ]


def about_archive(archived: ArchivedInput | None) -> list[Markdown]:
    """How far the input reaches behind the savepoint."""
    if archived is None:
        return []
    return [
        md(
            "Input up to **{}**: {:,} records of inputs and globals were archived behind the savepoint, and are loaded too.",
            moment(archived.safe_at),
            archived.records,
        ),
        EMPTY,
    ]


def source(plan: PlannedRestore) -> Markdown:
    """The application that the savepoint is of, if it is another one."""
    return EMPTY if plan.source_application_id == plan.application_id else md(" of {}", code(plan.source_application_id))


def topic_row(topic: TopicToCreate, plan: PlannedRestore) -> Markdown:
    """One topic that is made, and what it replaces."""
    existing = plan.observed.offsets_replaced.get(topic.name)
    replaced = md("**{:,} offsets**", existing) if existing else md("an empty topic") if topic.replaces else md("nothing")
    return md(
        "| {} | {} | {} | {:,} | {:,} | {} |", topic.name, topic.role, len(topic.partitions), topic.rows, topic.payload_bytes, replaced
    )


def _offsets(plan: PlannedRestore) -> list[Markdown]:
    before = plan.observed.offsets_before
    after = {item.tp: str(item.wanted.offset) for item in plan.offsets} | dict.fromkeys(plan.offsets_kept, "stays")
    rows = [md("| {} | {} | {} |", tp, before.get(tp, "-"), offset) for tp, offset in sorted(after.items())]
    return table([md("| partition | before | after |"), md("|---|---:|---:|")], rows)


def _claimed(plan: PlannedRestore) -> list[Markdown]:
    if not plan.claimed:
        return []
    return [
        md(
            "By their names these could be internal topics of {}. They stay as they are. If one belongs to this application, name its store "
            "under `stores`, or the topic under `topics.owned`, in the configuration.",
            code(plan.application_id),
        ),
        EMPTY,
        md("| topic | why |"),
        md("|---|---|"),
        *(md("| {} | {} |", one.topic, one.why) for one in plan.claimed),
        EMPTY,
    ]


def _evidence(plan: PlannedRestore) -> list[Markdown]:
    """Evidence for the topics that go, the rarest words last, since those are read one by one."""
    by_evidence = {why: [name for name, found in plan.evidence.items() if found is why] for why in Evidence}
    lines = [md("- {}: {}", first_names(names, most=SHOWN), _EVIDENCE[why]) for why, names in by_evidence.items() if names]
    head = md("Why the internal topics that go are taken for those of {}:", code(plan.application_id))
    return [head, EMPTY, *lines, EMPTY] if lines else []


def _deletions(plan: PlannedRestore) -> list[Markdown]:
    if not plan.delete:
        return []
    names = ", ".join(topic.name for topic in plan.delete)
    return [md("   **Delete** {} internal topics that are not in the savepoint: {}.", len(plan.delete), names)]


def _inputs(plan: PlannedRestore, archived: ArchivedInput | None) -> Markdown:
    made = {topic.name for topic in plan.create}
    kept = sorted({item.tp.topic for item in plan.offsets} - made)
    return md(
        "{} Results of input that is processed again are written to the outputs once more.",
        md("The inputs {} stay as they are.", ", ".join(kept))
        if kept
        else md("All inputs come from the savepoint: later input is not in them.")
        if archived is None
        else md(
            "All inputs come from the savepoint and the archive behind it: input that came after {} is not in them.",
            moment(archived.safe_at),
        ),
    )
