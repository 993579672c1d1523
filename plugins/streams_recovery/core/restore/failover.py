"""A restore at another site: what a savepoint becomes on a cluster that has fewer brokers, other names, and inputs that are there already. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from streams_recovery.core.errors import Refused
from streams_recovery.core.forms import FormField
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition, TopicRole
from streams_recovery.core.names import NAME
from streams_recovery.core.repository.manifest import Manifest, TopicImage
from streams_recovery.core.repository.sites import PRIMARY, SeenSite, SiteEntry
from streams_recovery.core.words import first_names

TO: Final = FormField(
    name="to",
    title="Site",
    help=f"Where the application is to run: a site of its configuration, or {PRIMARY}.",
    option_help=f"Where the application is to run: a site of its configuration, or {PRIMARY}.",
    required=True,
    pattern=NAME,
    longest=249,
)
LOST: Final = FormField(
    name="lost",
    title="Site that cannot be reached",
    help="Only where nobody can prove that the application is stopped at the site that it leaves: type the name of that site. What is left there is stopped as "
    "soon as it answers again.",
    option_help="The name of the site that is left, typed, where nobody can prove that the application is stopped there. What is left there is stopped as soon "
    "as it answers again.",
    longest=249,
)
_MIN_IN_SYNC: Final = "min.insync.replicas"


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteMove:
    """A move to another site. ``lost``: the site ``before`` is left on a person's word that it cannot be reached. ``kept`` are inputs that are there
    already, by their names there: the application reads on in them where the same record stands. ``replaced`` are partitions of inputs that are there and are
    made again from the savepoint, which has every record that they hold, in the same order; each with its end, behind which nothing may have come.
    """

    before: str
    to: str
    lost: bool
    kept: tuple[str, ...]
    replaced: dict[TopicPartition, int]


def left_by(entry: SiteEntry | None, to: str, *, application_id: str) -> str:
    """The site that the application leaves. One that is on its way to ``to`` already leaves where it came from. Raises ``Refused`` where it belongs to ``to``
    by now.
    """
    if entry is None or entry.site != to:
        now = PRIMARY if entry is None else entry.site
        if now != to:
            return now
    elif not entry.arrived:
        return entry.before
    raise Refused(
        f"{application_id} belongs to the site {to} already",
        next_step="nothing was changed; to bring it back there, restore it without a change of the site",
        site=to,
    )


def check_left(seen: SeenSite, lost: str) -> bool:
    """True when the site is left on a person's word. Raises ``Refused`` when the site cannot be asked and no person gave that word, and for the word on another
    site.
    """
    if lost not in ("", seen.site):
        raise Refused(
            f"{lost!r} is typed as the site that cannot be reached, and the application leaves {seen.site}",
            next_step="nothing was changed; type the name of the site that is left, or leave it out",
        )
    if seen.unseen and not lost:
        raise Refused(
            f"nobody can prove that the application is stopped at the site {seen.site}: {'; '.join(seen.unseen)}",
            next_step=f"nothing was changed; make it reachable, or stop what runs there and type its name ({seen.site}) as the site that cannot be reached",
            unseen=list(seen.unseen),
        )
    return bool(lost)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """What topics get less of at a site, as a warning. ``in_sync``: how many replicas have a record before it counts as written."""

    text: str
    in_sync: bool


def fewer_replicas(manifest: Manifest, *, factor: int | None, brokers: int | None) -> tuple[Manifest, tuple[Lowered, ...]]:
    """The savepoint with ``factor`` replicas of each topic that a restore creates, those of the savepoint without one, and never more than ``brokers`` where
    these count; and the warnings. A topic that asks for more replicas in sync than it has takes no record, so that setting is lowered as well.
    """
    lowered: list[str] = []
    in_sync: list[str] = []

    def image_of(topic: TopicImage) -> TopicImage:
        wanted = factor or topic.replication_factor
        replicas = wanted if brokers is None else min(wanted, max(1, brokers))
        if replicas < wanted:
            lowered.append(topic.name)
        config = topic.config
        if _number(config.get(_MIN_IN_SYNC)) > replicas and replicas < topic.replication_factor:
            in_sync.append(topic.name)
            config = {**config, _MIN_IN_SYNC: str(replicas)}
        return replace(topic, replication_factor=replicas, config=config)

    topics = tuple(image_of(topic) for topic in manifest.topics)
    warnings = []
    if lowered:
        text = f"{brokers} brokers are up, so topics get that many replicas in place of those that they had: {first_names(lowered)}"
        warnings.append(Lowered(text=text, in_sync=False))
    if in_sync:
        text = f"{_MIN_IN_SYNC} is lowered with the replicas, and must be raised with them later: {first_names(in_sync)}"
        warnings.append(Lowered(text=text, in_sync=True))
    return replace(manifest, topics=topics), tuple(warnings)


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() else 1


def with_places(manifest: Manifest, places: Mapping[TopicPartition, CommittedOffset]) -> Manifest:
    """The savepoint with the committed offsets of inputs as they are at the site already, by their names in the savepoint."""

    def image_of(topic: TopicImage) -> TopicImage:
        if topic.role is not TopicRole.INPUT or TopicPartition(topic.name, 0) not in places:
            return topic
        partitions = tuple(replace(image, committed=places[TopicPartition(topic.name, image.partition)]) for image in topic.partitions)
        return replace(topic, partitions=partitions)

    return replace(manifest, topics=tuple(image_of(topic) for topic in manifest.topics))


def stays(kept: Collection[str], *, before: str) -> tuple[str, ...]:
    """Warning about inputs that stay as they are: the state may have more than they hold."""
    if not kept:
        return ()
    return (
        f"inputs stay as they are, without what was written at {before} alone; the state has that, a rebuild from them has not: {first_names(sorted(kept))}",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Contained:
    """Comparison of a partition with an archive: its ``end``, how many records it has, and how many of them the archive has not, in the same order, from the
    offset ``missing_from`` on.
    """

    end: int
    records: int
    missing: int
    missing_from: int | None


def contained(there: Iterable[tuple[int, bytes]], archived: Iterable[bytes], *, end: int) -> Contained:
    """Look for the records ``there``, by offset and digest, among the ``archived`` ones in this order. Each is looked for behind the one before it, so where
    one is not found, none behind it is.
    """
    records = missing = 0
    missing_from: int | None = None
    rest = iter(archived)
    for offset, digest in there:
        records += 1
        if missing_from is None and not any(one == digest for one in rest):
            missing_from = offset
        missing += missing_from is not None
    return Contained(end=end, records=records, missing=missing, missing_from=missing_from)


def left_behind(manifest: Manifest, names: Mapping[str, str], present: Collection[str], *, before: str, to: str) -> tuple[str, ...]:
    """Warnings about outputs: those that stay at the site that is left, and those that are at ``to`` already and lack what was written
    elsewhere.
    """
    outputs = [topic for topic in manifest.topics if topic.role is TopicRole.OUTPUT]
    there = sorted(names[topic.name] for topic in outputs if names[topic.name] in present)
    gone = sorted(topic.name for topic in outputs if not topic.archived and names[topic.name] not in present)
    warnings = []
    if there:
        warnings.append(
            f"outputs that are at {to} already stay as they are, without what was written at {before} meanwhile: {first_names(there)}"
        )
    if gone:
        warnings.append(
            f"outputs are not in the savepoint, so they begin empty at {to}; what they had stays at {before}: {first_names(gone)}"
        )
    return tuple(warnings)
