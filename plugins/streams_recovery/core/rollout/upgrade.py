"""A new version under the same application id: what is planned, and how it is judged while it is watched. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from streams_recovery.core import codec
from streams_recovery.core.approval import hash_of
from streams_recovery.core.errors import ConfigInvalid, Refused
from streams_recovery.core.forms import FieldKind, FormField
from streams_recovery.core.names import internal_role
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.rollout.compatibility import (
    ALLOW_DOUBT,
    LOSE,
    SAME,
    Compatibility,
    CompatibilityFinding,
    CompatibilityVerdict,
    TopologyDifference,
)
from streams_recovery.core.rollout.described import DescribedTopology
from streams_recovery.core.words import milliseconds

# What a form takes; a file may have more.
_LONGEST: Final = 500_000

_MOST_SECONDS: Final = 36_000
UPGRADE_IN_PLACE: Final = FormField(
    name="in_place",
    title="In place",
    kind=FieldKind.SWITCH,
    option_help="Upgrade APP itself, under its own application id: no clone.",
)
TOPOLOGY: Final = FormField(
    name="topology",
    title="Description of the new version",
    kind=FieldKind.DOCUMENT,
    metavar="FILE",
    help="What its Topology#describe() prints. Empty: application.topology_command of the configuration prints it.",
    option_help="What Topology#describe() of the new version prints. Without it: application.topology_command.",
    longest=_LONGEST,
)
BEFORE: Final = FormField(
    name="before",
    title="Description of the version that runs",
    kind=FieldKind.DOCUMENT,
    metavar="FILE",
    help="The same of the version that runs now: more can be compared then. May be empty.",
    option_help="The same of the version that the savepoint is of: more can be compared then.",
    longest=_LONGEST,
)
MAY_GO: Final = FormField(
    name="lose",
    title="What may be lost",
    kind=FieldKind.TOPICS,
    help="Stores and topics whose content may go. Others stop the run before anything happens. One a line.",
    option_help="A store or topic whose content may go. May be given several times.",
    option=LOSE.removeprefix("--"),
    metavar="NAME",
)
STAYS_SAME: Final = FormField(
    name="same",
    title="Numbered stores that are still the same",
    kind=FieldKind.TOPICS,
    help="Stores whose names are only numbers that Kafka Streams gave, and that are the same stores in the new version. One a line.",
    option_help="A store whose name is only a number, and that is still the same. May be given several times.",
    option=SAME.removeprefix("--"),
    metavar="NAME",
)
DOUBT_ALLOWED: Final = FormField(
    name="allow_doubt",
    title="Doubts are looked at",
    kind=FieldKind.SWITCH,
    help="A person has compared the two programs where the check cannot tell whether a store goes on. Without it a doubt stops the run.",
    option_help="Say that a person has looked at each doubt, and the store goes on.",
)
WATCHED_FOR: Final = FormField(
    name="watch",
    title="Watch the new version for",
    help="A duration such as PT10M. Empty: deploy.watch of the configuration.",
    option_help="Watch the new version for this long, such as PT30M. Without it: deploy.watch.",
    pattern="|P.{1,40}",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Limits for watching a new version. ``max_lag`` is how many input records it may be behind, None for any number; it may be behind more for ``patience``
    seconds, but not at the end of the ``seconds``. For ``patience`` seconds an instance may also be at other work than its input, such as a rebalance, and a
    topic that it reads may stay without a commit: the watch takes so much longer then.
    """

    seconds: float
    max_lag: int | None
    patience: float


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChange:
    """An upgrade in place. Those ``findings`` are accepted that a person said may go, or has looked at. ``compared_with`` is the savepoint that the
    check read before anything was stopped. ``topology`` is the hash of the new version's description. ``new_topics`` are the internal topics that the new
    version would make and that no savepoint of the old one has: a way back deletes them. ``wipes`` is True where local state is of no use to it.
    ``roll_back`` is the command that puts the old version there again.
    """

    compared_with: str
    verdict: CompatibilityVerdict
    findings: tuple[CompatibilityFinding, ...]
    not_compared: tuple[str, ...]
    topology: str
    new_topics: tuple[str, ...]
    wipes: bool
    roll_back: tuple[str, ...]
    watch: Watch

    @property
    def worse(self) -> frozenset[str]:
        """Stores and topics that do not go on as they are."""
        return frozenset(one.subject for one in self.findings if one.verdict is not CompatibilityVerdict.COMPATIBLE)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Questions that the check cannot answer, and a person has looked at."""
        return tuple(one.text for one in self.findings if one.verdict is CompatibilityVerdict.DOUBT)

    @property
    def left_inputs(self) -> frozenset[str]:
        """The inputs that the new version reads no more: records that come there are not its work, and the upgrade does not wait for them."""
        return frozenset(one.subject for one in self.findings if one.kind is TopologyDifference.INPUT_GONE)

    @property
    def done(self) -> dict[str, object]:
        """The part that an approval is for: without what is another one after each savepoint, such as whether a topic has records that were not read."""
        return {
            "topology": self.topology,
            "worse": sorted(self.worse),
            "doubts": sorted(self.doubts),
            "new_topics": list(self.new_topics),
            "wipes": self.wipes,
            "roll_back": list(self.roll_back),
            "watch": codec.encode(self.watch),
        }


def version_change(
    application_id: str, manifest: Manifest, new: DescribedTopology, found: Compatibility, *, roll_back: tuple[str, ...], watch: Watch
) -> VersionChange:
    """The upgrade of an application whose state is ``manifest`` when the version ``new`` goes on with it; ``found`` is what the check says of the two, with
    what may go. Raises ``Refused`` where more would be lost.
    """
    if found.verdict is CompatibilityVerdict.DOUBT:
        doubts = [one.text for one in found.findings if one.verdict is found.verdict]
        raise Refused(
            f"whether the new version of {application_id} goes on with its state cannot be told: " + "; ".join(doubts),
            next_step=f"nothing was changed; compare the two programs there, and say that you have ({ALLOW_DOUBT}); the command compatible shows everything",
            verdict=found.verdict.value,
            findings=doubts,
        )
    if found.verdict in (CompatibilityVerdict.RENAME, CompatibilityVerdict.LOST):
        lost = [one for one in found.findings if one.verdict is found.verdict and not one.accepted]
        raise Refused(
            f"the new version of {application_id} cannot go on with its state: {found.answer}. "
            + " ".join(f"({number}) {one.text}." for number, one in enumerate(lost, 1)),
            next_step=f"nothing was changed; {lost[0].remedy}{f'; or say that it may go ({LOSE})' if lost[0].may_go else ''}; the command compatible shows "
            "everything",
            verdict=found.verdict.value,
            findings=[one.text for one in lost],
        )
    named = {f"{application_id}-{name}" for name in (*(f"{store}-changelog" for store in new.homes), *new.read)}
    own = {name for name in named if internal_role(name, application_id) is not None}
    saved = {topic.name for topic in manifest.topics}
    return VersionChange(
        compared_with=found.savepoint_id,
        verdict=found.verdict,
        findings=found.findings,
        not_compared=found.not_compared,
        topology=hash_of(new),
        new_topics=tuple(sorted(own - saved)),
        wipes=any(one.kind is TopologyDifference.SUBTOPOLOGY_MOVED for one in found.findings),
        roll_back=roll_back,
        watch=watch,
    )


def check_worse(approved: VersionChange, now: VersionChange) -> None:
    """Raise ``Refused`` where the state that the old version has left, once it is down, would fare worse under the new one than was approved: a repartition
    topic that goes may have got records since.
    """
    doubts = set(now.doubts) - set(approved.doubts)
    worse = [one for one in now.findings if one.subject in now.worse - approved.worse or one.text in doubts]
    if worse:
        raise Refused(
            f"the state is another one than was compared: {'; '.join(one.text for one in worse)}",
            next_step="nothing was deployed; the old version is started again. Begin the upgrade again, and read its plan",
            findings=[one.text for one in worse],
        )


def watched_for(text: str) -> float:
    """The seconds of a duration such as ``PT10M``. Raises ``ConfigInvalid`` for what is none, for no time at all and for more than a task may take."""
    found = milliseconds(text) / 1000
    if not 0 < found <= _MOST_SECONDS:
        raise ConfigInvalid(
            f"{text!r} is no time or more than 10 hours", next_step="name how long the new version is watched, such as PT10M"
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchLook:
    """One look at a new version, ``at`` seconds after the first one. ``ended`` are instances that are gone or fail, ``busy`` instances at other work than their
    input, each with its own words. ``behind`` are the records that are left in each topic that it reads, ``committed`` the sums of the group's offsets.
    """

    at: float
    ended: tuple[str, ...]
    busy: tuple[str, ...]
    behind: Mapping[str, int]
    committed: Mapping[str, int]


class Restarts:
    """Programs that ended and were started again between two looks, by what counts that: a look in between would have seen no instance that is gone."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], int] = {}

    def more(self, counts: Mapping[tuple[str, str], int]) -> frozenset[tuple[str, str]]:
        """The instances, by name and host, that were started again since they were first seen there. The count of a new pod at another address begins anew."""
        for instance, count in counts.items():
            self._first[instance] = min(count, self._first.get(instance, count))
        return frozenset(instance for instance, count in counts.items() if count > self._first[instance])


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """Result of the looks so far. ``free_at`` and ``near_at`` are when all instances were last at work, and when it was last not too far behind;
    ``moved_at`` is when an offset of each topic was last committed, or nothing was left there. ``failure`` is why the version is no good, None while it is.
    """

    looks: int = 0
    seconds: float = 0.0
    behind: int = 0
    most_behind: int = 0
    committed: dict[str, int] = field(default_factory=dict)
    free_at: float = 0.0
    moved_at: dict[str, float] = field(default_factory=dict)
    near_at: float = 0.0
    failure: str | None = None

    def after(self, look: WatchLook, watch: Watch) -> Watched:
        """With one more look."""
        left = sum(look.behind.values())
        near = watch.max_lag is None or left <= watch.max_lag
        moved = {
            topic: look.at if not behind or look.committed.get(topic) != self.committed.get(topic) else self.moved_at.get(topic, look.at)
            for topic, behind in look.behind.items()
        }
        found = replace(
            self,
            looks=self.looks + 1,
            seconds=look.at,
            behind=left,
            most_behind=max(self.most_behind, left),
            committed=dict(look.committed),
            free_at=self.free_at if look.busy else look.at,
            moved_at=moved,
            near_at=look.at if near else self.near_at,
        )
        return replace(found, failure=self.failure or _failure(found, look, watch))

    def unanswered(self, at: float, why: str, watch: Watch) -> Watched:
        """The watch after a look at which no instance could be asked, ``at`` seconds after the first. Such a look says nothing of the version, and may not
        last.
        """
        waited = at - self.free_at
        failure = f"nobody could be asked for {waited:.0f} s: {why}" if waited >= watch.patience else None
        return replace(self, seconds=at, failure=self.failure or failure)

    def without_an_end(self) -> Watched:
        """The watch with a failure if its time was over before any look could be judged."""
        return replace(self, failure=self.failure or f"no look of {self.looks} found every instance at work at the end of the watch")

    def over(self, watch: Watch) -> bool:
        """True when nothing more is to be seen: it failed, or the time is over and no instance is at other work."""
        return self.failure is not None or (self.looks > 0 and self.seconds >= watch.seconds and self.free_at == self.seconds)


def _failure(found: Watched, look: WatchLook, watch: Watch) -> str | None:
    over, reasons = look.at >= watch.seconds, list[str]()
    if look.ended:
        reasons.append(f"instances ended: {', '.join(look.ended)}")
    if look.at - found.free_at >= watch.patience:
        reasons.append(f"instances were not at work for {look.at - found.free_at:.0f} s: {', '.join(look.busy)}")
    for topic, since in found.moved_at.items():
        if look.at - since >= watch.patience:
            reasons.append(
                f"{look.behind[topic]:,} records of {topic} are left, and nothing was committed there for {look.at - since:.0f} s"
            )
    if watch.max_lag is not None and (look.at - found.near_at >= watch.patience or (over and found.behind > watch.max_lag)):
        reasons.append(f"it is {found.behind:,} records behind, and {watch.max_lag:,} are allowed")
    return "; ".join(reasons) or None
