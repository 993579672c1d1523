"""The numbers of partitions of an application's topics when some of them get others: which topics have to follow, by Kafka Streams' own rules. Pure.

Topics whose records meet in one store are placed alike. A changelog has as many partitions as its subtopology has tasks, which is the most that any of its
sources has. A repartition topic has as many as what it is placed with, else as the most upstream of it, unless the program sets its number: then it stays.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from streams_recovery.core.errors import ConfigInvalid, Refused
from streams_recovery.core.forms import FieldKind, FormField
from streams_recovery.core.kafka_types import KeyForm, TopicRole
from streams_recovery.core.names import NAME
from streams_recovery.core.repository.manifest import TopicImage
from streams_recovery.core.rescale.placement import RescaledTopic
from streams_recovery.core.rescale.values import merged_metadata, stream_time
from streams_recovery.core.restore.parts.rescale import TopicNumbers
from streams_recovery.core.rollout.compatibility import SavedTopic, StoreFacts
from streams_recovery.core.rollout.described import DescribedTopology, NodeKind, Subtopology, TopologyNode, matched
from streams_recovery.core.rollout.upgrade import TOPOLOGY
from streams_recovery.core.words import first_names, span

_NUMBER: Final = rf"{NAME}=[0-9]{{1,5}}"
PARTITIONS: Final = FormField(
    name="partitions",
    title="New numbers of partitions",
    help="A topic and its new number, such as orders-in=24; several with spaces between them. Inputs, and repartition topics as the program calls them.",
    option_help="A topic and its new number, such as orders-in=24: an input, or a repartition topic as the program calls it. Repeatable.",
    metavar="TOPIC=NUMBER",
    pattern=rf"| *{_NUMBER}( +{_NUMBER})* *",
    longest=100_000,
)
_FORMS: Final = tuple(str(form) for form in KeyForm if form is not KeyForm.OWN)
_PLACED_BY: Final = rf"{NAME}=[A-Za-z0-9_.-]{{1,100}}"
PLACED_BY: Final = FormField(
    name="placed_by",
    title="What decides where records lie",
    help="Only for topics of which the proof cannot tell it: a topic and the form of its keys, such as totals=window, or your own partitioner.",
    option_help="A topic or store, and the form of its keys, such as totals=window, or the entry point of a partitioner of one's own. Only where the proof "
    "cannot tell it. Repeatable.",
    metavar="TOPIC=FORM",
    pattern=rf"| *{_PLACED_BY}( +{_PLACED_BY})* *",
    longest=100_000,
)
HISTORY: Final = FormField(
    name="history",
    title="Keep records that were read",
    kind=FieldKind.SWITCH,
    help="Inputs that are created again get all records that are archived, and not the unread ones only.",
    option_help="Give inputs that are created again all records that are archived, and not the unread ones only.",
)
DESCRIBED: Final = replace(
    TOPOLOGY,
    title="Description of the program",
    option_help="What Topology#describe() of the program prints. Without it: application.topology_command, else a running instance (GET /topology).",
)
_DESCRIBE: Final = (
    "hand over what Topology#describe() prints (option --topology), set application.topology_command to a program that prints it, or let instances answer "
    "GET /topology"
)


def new_numbers(
    application_id: str, saved: Sequence[SavedTopic], wanted: Sequence[str], topology: DescribedTopology | None
) -> tuple[TopicNumbers, ...]:
    """The inputs, repartition topics and changelogs of ``saved`` with their numbers. ``wanted`` are numbers that a person asks for, as ``orders-in=24``; a
    repartition topic is called as the program does, or by its whole name.

    Raises ``ConfigInvalid`` for what is no such number, ``Refused`` for topics that cannot be changed by themselves, for those that have to move too and are
    not named, and where the description of the topology would be needed or is another version's.
    """
    known = {one.name: one for one in saved if one.role in (TopicRole.INPUT, TopicRole.REPARTITION, TopicRole.CHANGELOG)}
    asked = _asked(application_id, known, wanted)
    rules = None if topology is None else _Rules(application_id=application_id, saved=known, topology=topology)
    old = {name: one.partitions for name, one in known.items()} | ({} if rules is None else rules.grown(asked))
    new = _all_alike(known, asked) if rules is None else rules.new(asked, old)
    found = tuple(
        TopicNumbers(name=name, role=one.role, old=old[name], new=new.get(name, old[name])) for name, one in sorted(known.items())
    )
    if not any(one.changes for one in found):
        raise Refused(f"every topic of {application_id} would keep its number of partitions", next_step="ask for another number")
    return found


def check_as_saved(savepoint_id: str, saved: Iterable[SavedTopic], there: Mapping[str, int]) -> None:
    """Raise ``Refused`` where a topic has another number of partitions ``there`` than in the newest savepoint: an earlier rescale is younger than that. Inputs
    may have been grown. Topics that are gone are passed over.
    """
    other = {
        one.name: (one.partitions, number)
        for one in saved
        if one.role in (TopicRole.REPARTITION, TopicRole.CHANGELOG) and (number := there.get(one.name, one.partitions)) != one.partitions
    }
    if other:
        named = first_names([f"{name} has {now} and had {then}" for name, (then, now) in other.items()])
        raise Refused(
            f"topics have other numbers of partitions than in savepoint {savepoint_id}, the newest exact one: {named}",
            next_step="nothing was changed; take a savepoint first",
            topics=sorted(other),
        )


def check_sources(
    application_id: str,
    saved: Iterable[SavedTopic],
    topology: DescribedTopology | None,
    stores: Mapping[str, StoreFacts],
    *,
    anew: Collection[str],
    grown: Collection[str],
    history: bool,
) -> None:
    """Raise ``Refused`` where stores that are restored from an input in place of a changelog (``topology.optimization``) would lose what was read of it: those
    that say so, and those without a changelog that do not say that they are not logged.
    """
    logs, lost = {one.name for one in saved}, set(grown) | (set() if history else set(anew))
    fed = {name: frozenset((facts.source,)) for name, facts in stores.items() if facts.source is not None}
    if topology is not None:
        silent = (one for one in topology.homes if f"{application_id}-{one}-changelog" not in logs and stores.get(one, StoreFacts()).logged)
        fed |= {store: frozenset[str]().union(*topology.feeds(store)) for store in silent if store not in fed}
    found = {store: topics & lost for store, topics in sorted(fed.items()) if topics & lost}
    if found:
        names = first_names([f"{store} from {first_names(sorted(topics))}" for store, topics in found.items()])
        again = "have all archived records placed (option --history)"
        far = "an input that was grown has its records where the old number puts them: rebuild the state from the input"
        raise Refused(
            f"stores without a changelog are restored from inputs that change, and would lose what was read of these: {names}",
            next_step=f"nothing was changed; {far if any(topics & set(grown) for topics in found.values()) else again}. A store that is not logged is declared "
            "so (stores.<name>.logged: false)",
            stores=list(found),
        )


def stream_time_warnings(topics: Iterable[TopicImage], numbers: Iterable[TopicNumbers]) -> tuple[str, ...]:
    """What may be dropped as late: a new partition begins with the latest stream time of the old ones whose keys it gets. Raises ``Refused`` for metadata of
    offsets that cannot be joined.
    """
    images, found = {topic.name: topic.partitions for topic in topics}, []
    for one in to_place(one for one in numbers if one.changes):
        # An input that was grown has partitions by now that there were none of.
        metadata = [part.committed.metadata if part.committed else "" for part in images[one.name]][: one.old]
        # All new partitions of a class get it of the same old ones.
        joined = [[metadata[at] for at in one.sources(number)] for number in range(one.classes)] if len(metadata) == one.old else []
        for several in joined:
            merged_metadata(several)
        times = [[time for text in several if (time := stream_time(text)) is not None] for several in joined]
        apart = max((max(known) - min(known) for known in times if known), default=0)
        if apart:
            found.append(
                f"partitions of {one.name} that are joined were up to {span(apart / 1000)} apart in stream time: windows of the earlier ones close that much "
                "sooner, and records that come late for them are dropped"
            )
    return tuple(found)


def to_place(numbers: Iterable[TopicNumbers], *, history: bool = False) -> tuple[RescaledTopic, ...]:
    """These topics as work: by the form or the partitioner that a person has named for each. With ``history`` the records that were read are placed too."""
    forms = {str(form): form for form in KeyForm}
    return tuple(
        RescaledTopic(
            name=one.name,
            old=one.old,
            new=one.new,
            form=forms.get(one.by),
            own=one.by if one.by and one.by not in forms else None,
            history=history,
        )
        for one in numbers
    )


def with_placing(application_id: str, numbers: Sequence[TopicNumbers], named: Sequence[str]) -> tuple[TopicNumbers, ...]:
    """The numbers with the forms and partitioners that a person has named, as ``totals=window``; a topic is called as the program does, or its store. Raises
    ``ConfigInvalid`` for what is no such thing, and for a topic that is not placed anew.
    """
    found = {one.name: one for one in numbers}
    for one in named:
        name, _, by = one.rpartition("=")
        whole = next((full for full in _names(application_id, name) if full in found and found[full].changes), None)
        if whole is None or not re.fullmatch(_PLACED_BY, one) or found[whole].by or by == KeyForm.OWN:
            placed = first_names(sorted(full for full, topic in found.items() if topic.changes))
            raise ConfigInvalid(
                f"{one[:80]!r} does not say what decides where the records of a topic lie that is placed anew",
                next_step=f"write TOPIC=FORM, each topic once: one of {placed}, and one of {', '.join(_FORMS)}, or your own partitioner's name",
            )
        found[whole] = replace(found[whole], by=by)
    return tuple(found.values())


def _asked(application_id: str, known: Mapping[str, SavedTopic], wanted: Sequence[str]) -> dict[str, int]:
    asked: dict[str, int] = {}
    for one in wanted:
        name, _, number = one.rpartition("=")
        if not re.fullmatch(_NUMBER, one) or int(number) == 0:
            raise ConfigInvalid(
                f"{one[:80]!r} is no number of partitions", next_step="name a topic and its new number, such as orders-in=24"
            )
        changeable = [full for full, topic in known.items() if topic.role is not TopicRole.CHANGELOG]
        whole = next((full for full in _names(application_id, name) if full in changeable), None)
        if whole is None:
            raise Refused(
                f"{name} is neither an input nor a repartition topic of {application_id}: changelogs follow these, and other topics keep their numbers",
                next_step=f"name one of {first_names(changeable) or 'them; the savepoint has none'}",
                topic=name,
            )
        if whole in asked:
            raise ConfigInvalid(f"{whole} is named twice", next_step="give each topic one number", topic=whole)
        asked[whole] = int(number)
    if not asked:
        raise ConfigInvalid("no number of partitions is asked for", next_step="name a topic and its new number, such as orders-in=24")
    return asked


def _names(application_id: str, name: str) -> Iterator[str]:
    yield from (name, f"{application_id}-{name}", f"{application_id}-{name}-repartition", f"{application_id}-{name}-changelog")


def _all_alike(known: Mapping[str, SavedTopic], asked: Mapping[str, int]) -> dict[str, int]:
    """Without a description: all inputs get one number, and everything else, which had theirs, follows."""
    inputs = {name for name, one in known.items() if one.role is TopicRole.INPUT}
    if len({one.partitions for one in known.values()}) == 1 and len(set(asked.values())) == 1 and inputs == asked.keys():
        return dict.fromkeys(known, next(iter(asked.values())))
    raise Refused(
        "which topics have to follow cannot be told from the savepoint: that takes inputs that all get one number, and topics that all have one now",
        next_step=_DESCRIBE,
        topics=sorted(known),
    )


@dataclass(frozen=True, kw_only=True)
class _Group:
    """Topics that are placed alike, and the ``stores`` in which their records meet."""

    topics: tuple[str, ...]
    stores: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class _Rules:
    application_id: str
    saved: Mapping[str, SavedTopic]
    topology: DescribedTopology

    def grown(self, asked: Mapping[str, int]) -> dict[str, int]:
        """Inputs that have the number asked for by now, each with the one by which the stores behind it were filled."""
        found: dict[str, int] = {}
        for home in self.topology.tasked:
            logs = {one.partitions for store in home.stores if (one := self.saved.get(self._changelog(store))) is not None}
            if len(logs) == 1:
                found |= {topic: max(logs) for topic in self.read(home) if asked.get(topic) == self.saved[topic].partitions}
        return found

    def new(self, asked: Mapping[str, int], old: Mapping[str, int]) -> dict[str, int]:
        """The number of each topic that tasks have. Raises ``Refused``."""
        self._check_old(old)
        fixed = {name: number for name, number in old.items() if self.saved[name].role is TopicRole.INPUT} | dict(asked)
        numbers = dict.fromkeys(old, 0) | fixed
        for group in self.groups:
            self._check_together(group, fixed, asked)
        # Each round goes one repartition topic further down. They begin with none: in a circle, as of a foreign-key join, an old number would stay.
        for _ in range(len(self.groups) + 1):
            for group in self.groups:
                numbers |= dict.fromkeys(group.topics, self._number(group, numbers, fixed, old))
        found = {name: number for name, number in numbers.items() if number} | self._changelogs(numbers)
        self._check_stores(found, old)
        return found

    def _check_stores(self, numbers: Mapping[str, int], old: Mapping[str, int]) -> None:
        """Records of a store lie as its own topics do, in as many partitions as its subtopology has tasks: these numbers must be one where either changes."""
        wrong = []
        for group in self.groups:
            for log in filter(self.saved.__contains__, map(self._changelog, group.stores)):
                before, after = ((known[group.topics[0]], known[log]) for known in (old, numbers))
                if before != after and (len(set(before)) > 1 or len(set(after)) > 1):
                    wrong.append(
                        f"{log} has {before[1]} partitions and would have {after[1]}, where its records lie as those of {first_names(group.topics)} do, in "
                        f"{before[0]} and then in {after[0]}"
                    )
        if wrong:
            raise Refused(
                f"a store cannot be placed anew because its subtopology reads topics of several numbers: {first_names(wrong)}",
                next_step="give all topics that this subtopology reads one number; where they have several now, rebuild the application with the new number",
                problems=wrong,
            )

    def _number(self, group: _Group, numbers: Mapping[str, int], fixed: Mapping[str, int], old: Mapping[str, int]) -> int:
        named = [fixed[topic] for topic in group.topics if topic in fixed]
        if named:
            return max(named)
        own = old[group.topics[0]]
        # One that differs from the rule has its number from the program.
        return self._upstream(group, numbers) if self._upstream(group, old) == own else own

    def _upstream(self, group: _Group, numbers: Mapping[str, int]) -> int:
        return max((numbers[topic] for name in group.topics for home in self._writers(name) for topic in self.read(home)), default=0)

    def _writers(self, name: str) -> Iterable[Subtopology]:
        return (
            home
            for home in self.topology.tasked
            if any(name == self.full(topic) for node in home.of(NodeKind.SINK) for topic in node.topics)
        )

    def _changelogs(self, numbers: Mapping[str, int]) -> dict[str, int]:
        changelogs = {self._changelog(store): home for store, home in self.topology.homes.items()}
        return {name: max(numbers[topic] for topic in self.read(home)) for name, home in changelogs.items() if name in self.saved}

    def _changelog(self, store: str) -> str:
        return f"{self.application_id}-{store}-changelog"

    def _check_old(self, old: Mapping[str, int]) -> None:
        """A description of another version would lead the wrong topics along."""
        wrong = [
            f"{name} has {old[name]} partitions and not {number}"
            for name, number in sorted(self._changelogs(old).items())
            if number != old[name]
        ]
        wrong += [
            f"{first_names(group.topics)} meet in {first_names(group.stores)} and differ in their numbers"
            for group in self.groups
            if len({old[topic] for topic in group.topics}) > 1
        ]
        if wrong:
            raise Refused(
                f"the description does not fit the savepoint: {first_names(wrong)}",
                next_step="describe the version that the savepoint is of; and where a store is fed by topics of several numbers, it cannot be placed anew",
                problems=wrong,
            )

    def _check_together(self, group: _Group, fixed: Mapping[str, int], asked: Mapping[str, int]) -> None:
        named = {topic: fixed[topic] for topic in group.topics if topic in fixed}
        if len(set(named.values())) > 1:
            wanted = max(asked[topic] for topic in named if topic in asked)
            options = " ".join(f"--partitions {topic}={wanted}" for topic in sorted(named))
            raise Refused(
                f"these meet in {first_names(group.stores)}, so all of them have to move: "
                + ", ".join(f"{topic} would have {number}" for topic, number in sorted(named.items())),
                next_step=f"give them one number: {options}",
                topics=sorted(named),
            )

    def full(self, topic: str) -> str:
        """The topic's name on the cluster: a description calls repartition topics without the application id."""
        return topic if topic in self.saved else f"{self.application_id}-{topic}"

    def read(self, home: Subtopology) -> list[str]:
        """The topics that a subtopology reads."""
        return [topic for node in home.of(NodeKind.SOURCE) for topic in self._topics(node)]

    def _topics(self, source: TopologyNode) -> list[str]:
        inputs = [name for name, one in self.saved.items() if one.role is TopicRole.INPUT]
        found = source.topics if source.pattern is None else matched(source.pattern, inputs)
        names = [] if found is None else [self.full(topic) for topic in sorted(found)]
        if not names or not all(name in self.saved for name in names):
            what = source.pattern or first_names([name for name in found or () if self.full(name) not in self.saved])
            raise Refused(
                f"the description reads {what}, and the savepoint does not say what that is",
                next_step="describe the version that the savepoint is of, and name all inputs in the configuration (topics.inputs)",
                topics=names,
            )
        return names

    @cached_property
    def groups(self) -> list[_Group]:
        """The topics of all subtopologies, those that meet in stores together."""
        return [group for home in self.topology.tasked for group in self._groups_of(home)]

    def _groups_of(self, home: Subtopology) -> Iterator[_Group]:
        together = [({name}, set[str]()) for name in self.read(home)]
        for node in home.nodes:
            if node.stores:
                above = {name for one in home.above(node) if one.kind is NodeKind.SOURCE for name in self._topics(one)}
                together.append((above, set(node.stores)))
        joined: list[tuple[set[str], set[str]]] = []
        for one in together:
            met = [other for other in joined if other[0] & one[0] or other[1] & one[1]]
            joined = [other for other in joined if other not in met]
            joined.append((one[0].union(*(other[0] for other in met)), one[1].union(*(other[1] for other in met))))
        for topics, stores in joined:
            if topics:
                yield _Group(topics=tuple(sorted(topics)), stores=tuple(sorted(stores)))
