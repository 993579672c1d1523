"""The answer to whether a new version of an application can go on with a savepoint, and what it is about. ``topology_comparison`` finds it out. Pure."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import WINDOWED, StoreKind, TopicRole
from streams_recovery.core.lag import Lag
from streams_recovery.core.repository.manifest import Manifest, TopicImage
from streams_recovery.core.words import first_names

# The option by which a person says what may go.
LOSE: Final = "--lose"
# The option by which a person says that a store whose name is only a number is still the same.
SAME: Final = "--same"
# The option by which a person says that they looked at what the check cannot tell.
ALLOW_DOUBT: Final = "--allow-doubt"


class CompatibilityVerdict(enum.StrEnum):
    """Meaning of a finding for the state, the worst last. ``compatible`` ones are worth knowing."""

    COMPATIBLE = "compatible"
    ORPHANED = "topics are orphaned"
    DOUBT = "a person must look"
    RENAME = "rename these stores"
    LOST = "state is lost"

    @property
    def rank(self) -> int:
        """Its place from the best to the worst."""
        return list(CompatibilityVerdict).index(self)


class TopologyDifference(enum.StrEnum):
    """Kind of a finding, as a word that scripts can compare."""

    NEW_STORE = "new-store"
    NEW_INPUT = "new-input"
    SUBTOPOLOGY_MOVED = "subtopology-moved"
    NOT_LOGGED = "not-logged"
    STORE_GONE = "store-gone"
    CHANGELOG_UNUSED = "changelog-unused"
    REPARTITION_GONE = "repartition-gone"
    INPUT_GONE = "input-gone"
    STORE_RENAMED = "store-renamed"
    NUMBER_MOVED = "number-moved"
    NUMBER_REUSED = "number-reused"
    GROUPING_CHANGED = "grouping-changed"
    PARTITIONS_DIFFER = "partitions-differ"
    KIND_CHANGED = "kind-changed"
    UNREAD_LOST = "unread-lost"
    NO_CHANGELOG = "no-changelog"
    LEFT_BEHIND = "left-behind"
    FEED_UNCLEAR = "feed-unclear"
    INPUT_UNCLEAR = "input-unclear"


# What is wrong stays, whatever a person accepts: the new version does not start, or reads what the changelog has.
_STAYS: Final = (
    TopologyDifference.PARTITIONS_DIFFER,
    TopologyDifference.GROUPING_CHANGED,
    TopologyDifference.KIND_CHANGED,
    TopologyDifference.NUMBER_REUSED,
    TopologyDifference.LEFT_BEHIND,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompatibilityFinding:
    """One difference. ``subject`` is the store or topic that it is about, ``candidates`` the stores of the new version that could be it. ``accepted`` is True
    where a person has named the subject as one that may go, or that is still the same.
    """

    verdict: CompatibilityVerdict
    kind: TopologyDifference
    subject: str
    text: str
    remedy: str
    candidates: tuple[str, ...] = ()
    accepted: bool = False

    def __str__(self) -> str:
        return f"{self.text}. Next: {self.remedy}" if self.remedy else self.text

    @property
    def loses(self) -> bool:
        """True when the new version would not have this content, or not as it is."""
        return self.verdict in (CompatibilityVerdict.RENAME, CompatibilityVerdict.LOST)

    @property
    def may_go(self) -> bool:
        """True when a person may say that this content may go. Not for the other findings: that word would not make a version start, and a store that keeps its
        changelog would go on with wrong content.
        """
        return self.loses and self.kind not in _STAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class Compatibility:
    """Result for one savepoint. ``compared`` counts stores, repartition topics and inputs of the savepoint."""

    application_id: str
    savepoint_id: str
    findings: tuple[CompatibilityFinding, ...]
    not_compared: tuple[str, ...]
    compared: Mapping[str, int] = field(default_factory=dict)

    @property
    def verdict(self) -> CompatibilityVerdict:
        """The worst verdict that no person has accepted."""
        return max(
            (found.verdict for found in self.findings if not found.accepted),
            key=lambda one: one.rank,
            default=CompatibilityVerdict.COMPATIBLE,
        )

    @property
    def answer(self) -> str:
        """The verdict as a sentence, with the names that it is about."""
        names = sorted({found.subject for found in self.findings if found.verdict is self.verdict and not found.accepted})
        return {
            CompatibilityVerdict.COMPATIBLE: "compatible",
            CompatibilityVerdict.ORPHANED: f"topics are orphaned: {first_names(names)}",
            CompatibilityVerdict.DOUBT: f"a person must look at {first_names(names)}",
            CompatibilityVerdict.RENAME: f"rename these stores: {first_names(names)}",
            CompatibilityVerdict.LOST: f"state is lost for {first_names(names)}",
        }[self.verdict]

    def accepting(self, names: Collection[str], *, same: Collection[str] = (), doubt: bool = False) -> Compatibility:
        """A result where a person has named what may go, and stores with numbered names that are still the ``same``. ``doubt``: a person has looked at
        what the check cannot tell. Raises ``ConfigInvalid`` for a name that
        nothing is lost of, which is a typing mistake or of another version, and for one whose content would stay and be wrong.
        """
        losable = {found.subject for found in self.findings if found.may_go}
        reused = {found.subject for found in self.findings if found.kind is TopologyDifference.NUMBER_REUSED}
        stays = {
            found.subject: found
            for found in self.findings
            if found.loses and found.kind in _STAYS and found.subject not in reused & set(same)
        }
        if staying := sorted(set(names) & stays.keys()):
            raise ConfigInvalid(
                f"the content of {first_names(staying)} would not go: it stays in the changelog, and is wrong there ({stays[staying[0]].text})",
                next_step=f"give the store another name in the new version, and say {LOSE} of the old one; or {stays[staying[0]].remedy}",
                stays=staying,
            )
        if unknown := sorted(set(names) - losable):
            raise ConfigInvalid(
                f"nothing is lost of {first_names(unknown)}",
                next_step=f"name only what the check says is lost: {first_names(losable) or 'nothing is'}",
                unknown=unknown,
            )
        if unknown := sorted(set(same) - reused):
            raise ConfigInvalid(
                f"nothing says that {first_names(unknown)} may be another store",
                next_step=f"name only stores of {TopologyDifference.NUMBER_REUSED}: {first_names(reused) or 'there are none'}",
                unknown=unknown,
            )
        return replace(
            self,
            findings=tuple(
                replace(
                    found,
                    accepted=(found.may_go and found.subject in names)
                    or (found.kind is TopologyDifference.NUMBER_REUSED and found.subject in same)
                    or (found.verdict is CompatibilityVerdict.DOUBT and doubt),
                )
                for found in self.findings
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFacts:
    """Configuration of a store. ``source`` is the topic that it is restored from in place of a changelog."""

    kind: StoreKind | None = None
    logged: bool = True
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedTopic:
    """A topic of a savepoint. ``unread`` are the records of a repartition topic that were not processed at the cut."""

    name: str
    role: TopicRole
    partitions: int
    kind: StoreKind | None = None
    windowed: bool | None = None
    unread: int = 0


def saved_topics(manifest: Manifest) -> tuple[SavedTopic, ...]:
    """The topics of a savepoint. Its outline is enough."""
    return tuple(_saved(topic) for topic in manifest.topics)


def _saved(topic: TopicImage) -> SavedTopic:
    policy = topic.config.get("cleanup.policy")
    kind = None if topic.store in (None, StoreKind.UNKNOWN) else topic.store
    # Kafka Streams sets "compact,delete" for stores with windows and for no others, and always writes the policy into the topic.
    by_policy = None if policy is None else "delete" in policy and "compact" in policy
    behind = sum(
        Lag(committed=one.committed.offset if one.committed else None, start=one.log_start, stable=one.end, end=one.end).behind
        for one in topic.partitions
    )
    return SavedTopic(
        name=topic.name,
        role=topic.role,
        partitions=len(topic.partitions),
        kind=kind,
        windowed=kind in WINDOWED if kind is not None else by_policy,
        # Offsets count the ends of transactions too. The archived records of such a topic are the unread ones.
        unread=0 if topic.role is not TopicRole.REPARTITION else topic.rows if topic.archived else behind,
    )
