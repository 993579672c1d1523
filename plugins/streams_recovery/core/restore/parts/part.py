"""The base of every kind of restore: what it stores beside what all have, what a person reads in its plan, and what in its evidence.

Each kind is a file beside this one. Lines that several kinds have in their plans are below.
"""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol, Self

from streams_recovery.core.escaping import Markdown, code, joined, md, warned
from streams_recovery.core.kafka_types import Consistency, TopicPartition, TopicRole
from streams_recovery.core.repository.journal import RestoreScope
from streams_recovery.core.restore.failover import SiteMove
from streams_recovery.core.restore.planned import ArchivedInput, ArchivedState, PlannedRestore
from streams_recovery.core.restore.point_in_time import MovedOffset
from streams_recovery.core.rollout.upgrade import VersionChange, Watched
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.words import span

# A page that is read before something irreversible should be read to its end.
SHOWN: Final = 40
EMPTY: Final = md("")
TOPICS: Final = (md("| topic | role | partitions | records | bytes | replaces |"), md("|---|---|---:|---:|---:|---|"))
_LABELS: Final = {
    Consistency.DAMAGED: md(
        "This savepoint is `damaged`: state that was missing when it was taken will be missing again, and these stores begin empty."
    ),
    Consistency.AHEAD: md("This savepoint is `ahead`: some input may be counted twice after the restore."),
}


class RestoreOutcome(Protocol):
    """A restore that is over, as far as a part tells of it."""

    @property
    def savepoint_id(self) -> str | None:
        """See RestoreFacts."""

    @property
    def rows(self) -> int:
        """Records that were compared."""

    @property
    def offsets(self) -> int:
        """Committed offsets that were set."""

    @property
    def watched(self) -> Watched | None:
        """What came of watching a new version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPart(ABC):
    """The part of a restore's plan and evidence that depends on its kind. Its fields are stored among those of the plan; the evidence has those that are named
    in ``KEPT``. In a stored plan it is known by the first of these, which is not null.
    """

    KIND: ClassVar[str]
    KEPT: ClassVar[tuple[str, ...]] = ()
    # The heading of the evidence.
    TITLE: ClassVar[str] = "Restore"
    # What the evidence says in place of a savepoint.
    NO_SAVEPOINT: ClassVar[str] = "none: the state was built again from the input"
    # True where the steps took the application down, and how long each took counts.
    TIMED: ClassVar[bool] = True

    @classmethod
    def is_stored(cls, stored: Mapping[str, Any]) -> bool:
        """True for a stored plan, or evidence, of this kind."""
        return stored.get(cls.KEPT[0]) is not None

    @abstractmethod
    def text(self, plan: PlannedRestore) -> list[Markdown]:
        """The plan for people, in the order in which it would be carried out."""

    @property
    def approved(self) -> Mapping[str, object]:
        """Fields of which an approval covers something else than their whole value."""
        return {}

    def check(self, _plan: PlannedRestore, _where: str) -> None:
        """Raise ``Damaged`` for what this software never writes."""
        return

    @property
    def scope(self) -> RestoreScope:
        """The state, or topics beside it."""
        return RestoreScope.STATE

    @property
    def loads(self) -> bool:
        """True when records are loaded, and have to be compared with those of a savepoint."""
        return True

    @property
    def copies(self) -> bool:
        """True when its inputs have names that no producer knows."""
        return False

    @property
    def placed(self) -> ArtifactRef | None:
        """What a job has left that placed the records anew for a drill, None in any other restore."""
        return None

    @property
    def inputs_from(self) -> str | None:
        """The savepoint whose archived inputs, globals and outputs are loaded before state is built from them, None if all of them are there."""
        return None

    @property
    def archived(self) -> ArchivedInput | None:
        """The input behind the savepoint with which inputs go on, None if they do not."""
        return None

    def with_archived(self, _archived: ArchivedInput | None) -> Self:
        """The same, with what was found in the archive behind the savepoint; itself where nothing is looked for there."""
        return self

    def settings(self, _role: TopicRole) -> dict[str, str]:
        """Settings of topics of this role that are made, in place of those of the savepoint."""
        return {}

    @property
    def state(self) -> ArchivedState | None:
        """The cut behind the savepoint that the state is of, None if it is of the savepoint."""
        return None

    @property
    def archive(self) -> str | None:
        """The savepoint whose archive the inputs are taken from, None if they are not cut."""
        return None

    @property
    def moved(self) -> tuple[MovedOffset, ...]:
        """Offsets of other groups that are set."""
        return ()

    @property
    def filled(self) -> Mapping[str, str]:
        """Topics that are there already and of which only partitions are loaded, with the id that each must have."""
        return {}

    @property
    def begins(self) -> Mapping[TopicPartition, int]:
        """The ends of the partitions that are loaded of these."""
        return {}

    @property
    def wipes_noted(self) -> bool:
        """True when local state notes offsets of a log that is gone, and the application is not started."""
        return False

    @property
    def with_state(self) -> bool:
        """True when the application begins with state that is loaded."""
        return True

    @property
    def move(self) -> SiteMove | None:
        """The sites that the application leaves and goes to, None if it stays."""
        return None

    @property
    def replaced_ends(self) -> Mapping[TopicPartition, int]:
        """Inputs that are there and are deleted, with the end that each must still have then: the savepoint has all below."""
        return {}

    @property
    def new_version(self) -> VersionChange | None:
        """The version that goes on with the state that is there, None if the same one does."""
        return None

    def headline(self, verdict: Markdown, _restored: RestoreOutcome) -> list[Markdown]:
        """What the evidence says first."""
        return [verdict]

    def facts(self) -> list[tuple[str, str]]:
        """Names and values in the evidence, below the savepoint."""
        return []

    def more_facts(self) -> list[tuple[str, str]]:
        """Names and values in the evidence, below the offsets that were set."""
        return []

    def state_before(self, safety_savepoint: str | None) -> str:
        """What became of the state that was there."""
        return md("safety savepoint {}", code(safety_savepoint)) if safety_savepoint else "not saved"

    def outcome(self, restored: RestoreOutcome) -> str:
        """The last line on a terminal."""
        return f"restored from {restored.savepoint_id}: {restored.rows:,} records compared, all equal"

    def way_home(self, _name: str) -> tuple[str, ...]:
        """The command that takes the application of this name home, empty where an undo leads back."""
        return ()


def instances(plan: PlannedRestore) -> Markdown:
    """The instances that are stopped."""
    names = plan.observed.instances
    return md("{} running instances ({})", len(names), ", ".join(names)) if names else md("all instances (none is running now)")


def deployed(plan: PlannedRestore) -> Markdown:
    """What is deployed before the start, if anything is."""
    return md("**Deploy** by {}. ", code(shlex.join(plan.deploy))) if plan.deploy else EMPTY


def warnings(plan: PlannedRestore) -> list[Markdown]:
    """The label of the savepoint, where it needs one, and all warnings."""
    about = [_LABELS[plan.consistency]] if plan.consistency in _LABELS else []
    return warned([*about, *plan.warnings])


def duration(plan: PlannedRestore) -> list[Markdown]:
    """How long it is expected to take."""
    expected = plan.observed.estimate
    if expected is None:
        return []
    steps = ", ".join(f"{step} {span(seconds)}" for step, seconds in expected.seconds.items())
    basis = (
        f"measured in the last {expected.measured} restores and drills"
        if expected.measured
        else "from default rates: none was measured here yet"
    )
    return [md("Estimated time: **{}** ({}), {}.", span(expected.total), steps, basis), EMPTY]


def table(head: Sequence[Markdown], rows: Sequence[Markdown]) -> list[Markdown]:
    """The first rows below the two lines of ``head``, and how many more there are."""
    more, columns = len(rows) - SHOWN, head[0].count("|") - 1
    rest = [md("| {} more, all of them in the plan as JSON{}", more, joined([md(" |")] * columns, EMPTY))] if more > 0 else []
    return [*head, *rows[:SHOWN], *rest]
