"""The plan of a restore: everything it will create, delete, set and wipe, as a value that is shown before anything happens.

The hash identifies what will be *done*. Observed facts (offsets before, running instances) may change while a person reads the plan; they are shown but do not
count. Every stored plan must pass ``check_plan``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from streams_recovery.core import codec
from streams_recovery.core.approval import hash_of
from streams_recovery.core.errors import Refused
from streams_recovery.core.escaping import Markdown, joined
from streams_recovery.core.kafka_types import TopicPartition, TopicRole
from streams_recovery.core.repository.checked import check_names, check_numbered, check_partitions
from streams_recovery.core.restore.parts import IN_PLAN, RestorePart
from streams_recovery.core.restore.planned import PlannedRestore, check_files
from streams_recovery.core.restore.request import Safeguards

# What a plan does, by the names that an operator knows. The order is part of every approval.
_PARTS: Final = {
    "the application": ("application_id",),
    "the savepoint (`--source`, `--savepoint`)": ("source_application_id", "savepoint_id", "captured_at", "consistency"),
    "what is saved first (`--safety`)": ("safety",),
    "topics that are deleted (`--delete`)": ("delete",),
    "topics that are created, and those that they replace": ("create",),
    "how the input offsets are chosen (`--offsets`)": ("strategy",),
    "the offsets that are set": ("offsets",),
    "the inputs that keep their offsets (`--input-topics`)": ("offsets_kept",),
    "the moment (`--as-of`, `--by`)": ("point",),
    "what is taken out of the inputs (`--in-place`, `--other-group`)": ("in_place",),
    "topics of other applications whose names begin like this one's": ("claimed",),
    "the savepoint of the inputs (`--inputs-from`)": ("inputs_from",),
    "the input that was archived behind the savepoint": ("archived",),
    "the cut behind the savepoint that the state is of": ("state",),
    "the site (`--to`, `--lost`)": ("move",),
    "the command that deploys (`deploy.command`)": ("deploy",),
    "the numbers of partitions (`--partitions`, `--history`)": ("rescaled",),
    "the new version (`--topology`, `--lose`, `--watch`)": ("upgrade",),
    "the single topics (`--topic`, `--as`, `--partition`, `--read-on`)": ("single",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan(PlannedRestore):
    """A whole restore: what all of them have, and the ``part`` that only its kind has."""

    part: RestorePart = field(metadata=IN_PLAN)

    @property
    def text(self) -> Markdown:
        """The plan for people: markdown that reads well on an approval page and in a terminal."""
        return joined(self.part.text(self))

    @property
    def pin(self) -> int | None:
        """See ``PinnedPlan``: the entry of the archive with the cut whose state it is of."""
        return None if self.part.state is None else self.part.state.entry

    @property
    def hash(self) -> str:
        return hash_of(self._done())

    @property
    def parts(self) -> dict[str, object]:
        """See Approvable: what ``hash`` covers. A field that has no name here is not lost."""
        done = self._done()
        named = {name: [done.pop(field, None) for field in fields] for name, fields in _PARTS.items()}
        return {**named, "something else": done}

    def _done(self) -> dict[str, object]:
        done: dict[str, object] = {
            key: value for key, value in codec.encode(self).items() if key not in ("observed", "warnings", "offsets_agree", "evidence")
        }
        done["offsets"] = [codec.encode(item) if item.fixed else str(item.tp) for item in self.offsets]
        return done | {key: codec.encode(value) for key, value in self.part.approved.items()}

    @property
    def compared_with(self) -> str | None:
        """The savepoint that has the records which are loaded, None if none are."""
        return self.savepoint_id or self.part.inputs_from

    @property
    def written_by_others(self) -> frozenset[str]:
        """Inputs and globals that are made and that producers write to: a record in one may be the only copy there is. Copies that end at a moment, and
        single topics under another name, have names that no producer knows.
        """
        if self.part.copies:
            return frozenset()
        return frozenset(step.name for step in self.create if step.role in (TopicRole.INPUT, TopicRole.GLOBAL))


def require_agreement(plan: RestorePlan, safeguards: Safeguards) -> None:
    """Raise ``Refused`` when the plan's offsets disagree with its state and no person has typed that this is intended."""
    if not plan.offsets_agree and safeguards.confirm != plan.application_id:
        raise Refused(
            f"offsets set by {plan.strategy!r} disagree with the state: {'; '.join(plan.warnings)}",
            next_step=f"nothing was changed; use exact, or in a rebuild all inputs, or type the application id {plan.application_id} to confirm it",
            strategy=plan.strategy,
        )


def check_plan(planned: RestorePlan, *, where: str) -> None:
    """Raise ``Damaged`` for a name that is not on the allow-list, a topic or partition that is in the plan twice, and a file that does not belong to
    the application of the savepoint.
    """
    check_names("application id", {planned.application_id, planned.source_application_id}, where=where)
    check_names("topic", [*(topic.name for topic in planned.create), *(topic.name for topic in planned.delete)], where=where)
    for topic in planned.create:
        numbers = [part.partition for part in topic.partitions]
        if topic.name in planned.part.filled:
            check_partitions("partitions", [TopicPartition(topic.name, number) for number in numbers], where=where)
        else:
            check_numbered(topic.name, numbers, where=where)
    check_partitions("offsets", [*(item.tp for item in planned.offsets), *planned.offsets_kept], where=where)
    planned.part.check(planned, where)
    # The drill of a rescale has placed records in its own part of the repository.
    check_files(planned.create, planned.source_application_id, where, also=planned.application_id if planned.part.placed else "")
