"""The state of a savepoint in other numbers of partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from streams_recovery.core.codec import LEFT_OUT
from streams_recovery.core.escaping import Markdown, code, md
from streams_recovery.core.kafka_types import TopicPartition, TopicRole
from streams_recovery.core.repository.compaction_proof import RescaledLog
from streams_recovery.core.restore.parts.part import EMPTY, RestoreOutcome, table
from streams_recovery.core.restore.parts.state import StatePart
from streams_recovery.core.restore.planned import PlannedRestore
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.words import first_names

_NUMBERS: Final = (md("| topic | role | partitions | then |"), md("|---|---|---:|---:|"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicNumbers:
    """A topic with the number of partitions that it has, and the one that it gets. ``by`` is the form of its keys, or the partitioner of one's own, that a
    person has named, empty to find out.
    """

    name: str
    role: TopicRole
    old: int
    new: int
    by: str = ""

    @property
    def changes(self) -> bool:
        """True if it gets another number."""
        return self.old != self.new


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescaling:
    """The numbers of all topics that tasks have. Inputs that are ``anew`` are created again under their names, with their unread records, or with ``history``
    with all archived ones; inputs that are ``grown`` have their new number by now, and nothing unread. ``proven_on`` is the savepoint whose records are
    proven to lie where their keys put them before anything is stopped. ``named``: the state is that of this savepoint, and not of the stop. A drill only has
    ``tried`` it: its inputs have other names, and nobody writes to them.
    """

    topics: tuple[TopicNumbers, ...]
    anew: tuple[str, ...]
    grown: tuple[str, ...]
    history: bool
    proven_on: str
    named: bool
    # Once the records are placed: the ends of inputs that are created again, and the proof of each topic, before and after.
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    logs: tuple[RescaledLog, ...] = ()
    tried: bool = False
    # Of a drill, what its job has left: nothing is published.
    result: ArtifactRef | None = None

    @property
    def placed(self) -> tuple[TopicNumbers, ...]:
        """Topics whose records are placed anew."""
        return tuple(one for one in self.topics if one.changes and one.name not in self.grown)


@dataclass(frozen=True, slots=True, kw_only=True)
class RescalePart(StatePart):
    """A rescale: records of a savepoint are placed anew as a savepoint of the same moment, which is restored."""

    KIND: ClassVar = "rescale"
    KEPT: ClassVar = ("rescaled",)
    TITLE: ClassVar = "Rescale"
    rescaled: Rescaling = field(metadata=LEFT_OUT)

    @property
    def placed(self) -> ArtifactRef | None:
        return self.rescaled.result

    @property
    def replaced_ends(self) -> Mapping[TopicPartition, int]:
        return self.rescaled.ends

    def head(self, plan: PlannedRestore) -> list[Markdown]:
        found = self.rescaled
        of = (
            md("of savepoint {}", code(found.proven_on))
            if found.named
            else md("at the moment when it has stopped: nothing is processed twice")
        )
        return [
            md("### Rescale {}", code(plan.application_id)),
            EMPTY,
            md("{} topics get another number of partitions. The state is that {}. Plan {}.", len(found.placed), of, code(plan.hash[:12])),
        ]

    def about(self, _plan: PlannedRestore) -> list[Markdown]:
        found = self.rescaled
        anew = md(
            "**The producers of {} must stand still from the stop to the start, and be started anew then**: the topics are created again under their names, "
            "with {}. A producer that knows the old number goes on with it for minutes, and its records lie where no task looks for their keys.",
            first_names(found.anew),
            "all records that are archived" if found.history else "their unread records only",
        )
        grown = md(
            "{} have their new number by now. Nothing in them may be unread when the application has stopped.", first_names(found.grown)
        )
        return [
            *table(_NUMBERS, [md("| {} | {} | {} | {} |", one.name, one.role, one.old, one.new) for one in found.topics]),
            EMPTY,
            *([anew, EMPTY] if found.anew else []),
            *([grown, EMPTY] if found.grown else []),
            md(
                "Before the stop every record of savepoint {} is proven to lie where Kafka's default partitioner puts its key{}. Otherwise nothing is touched.",
                code(found.proven_on),
                "".join(f"; of {one.name} by {one.by}, as was named" for one in found.topics if one.by),
            ),
            EMPTY,
        ]

    def replaced(self, plan: PlannedRestore) -> list[Markdown]:
        made = [topic.name for topic in plan.create]
        return [
            md(
                "   **Place** the records of {} topics anew, as a savepoint of the same moment. The digests of all keys must be equal.",
                len(self.rescaled.placed),
            ),
            md("3. **Create and load** {} topics: {}.", len(made), first_names(made)),
            md("4. **Verify** every record against that savepoint."),
        ]

    def offsets(self, plan: PlannedRestore) -> list[Markdown]:
        return [md("5. **Set {} committed offsets**: behind what is processed.", len(plan.offsets))]

    def catching_up(self, plan: PlannedRestore) -> Markdown:
        return StatePart.catching_up(self, plan) if self.rescaled.named else md("the unread records are processed")

    def elsewhere(self, _plan: PlannedRestore) -> list[Markdown]:
        if self.rescaled.tried:
            return [EMPTY, md("All of it is removed again.")]
        return [
            EMPTY,
            md(
                "`undo` brings the old numbers back. Once new input has come into topics that were created again, rescale to the old numbers in its place."
            ),
        ]

    def facts(self) -> list[tuple[str, str]]:
        return [("partitions", ", ".join(f"{one.name} {one.old} to {one.new}" for one in self.rescaled.topics if one.changes))]

    def more_facts(self) -> list[tuple[str, str]]:
        return [
            (one.topic, f"{one.keys_after:,} keys with the same newest values before and after, digest {one.digest_after}")
            for one in self.rescaled.logs
        ]

    def outcome(self, restored: RestoreOutcome) -> str:
        return f"rescaled with savepoint {restored.savepoint_id}: {restored.rows:,} records compared, all equal"
