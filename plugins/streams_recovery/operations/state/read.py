"""One side to look at: a store's changelog in a savepoint, or as it is on the cluster now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from streams_recovery.config.application import Formats
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.errors import ConfigInvalid, NotFound, Refused
from streams_recovery.core.ids import LATEST, LIVE
from streams_recovery.core.kafka_types import Profile, StoreKind, TopicPartition, TopicRole
from streams_recovery.core.names import store_kind, store_name
from streams_recovery.core.repository.manifest import Manifest, PartitionImage, TopicImage
from streams_recovery.core.state.cells import PLAIN_BYTES, Format, ValueFormat, canonical, from_text
from streams_recovery.core.state.table import READABLE, Entry, Identity, StoreFormat, check_known, newest
from streams_recovery.kafka.reader import RangeReader
from streams_recovery.kafka.workspace import workspace
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.segments.fetch import fetch
from streams_recovery.segments.files import read_segment
from streams_recovery.serdes.rows import Row, RowCodec, entries_of
from streams_recovery.storage.repository import Repository


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSide:
    """A store's changelog. ``manifest`` is None for the one on the cluster; ``read`` gives the entries of a partition in the order of offsets."""

    store: str
    topic: str
    form: StoreFormat
    partitions: tuple[int, ...]
    manifest: Manifest | None
    read: Callable[[int], Iterator[Entry]]

    @property
    def name(self) -> str:
        """The savepoint's id, or that it is the running one."""
        return LIVE if self.manifest is None else self.manifest.savepoint_id


def open_side(recovery: RecoveryContext, store: str, savepoint: str) -> StoreSide:
    """The store in a savepoint (an id, or ``latest`` for the newest with state), or ``live``. Reads no record yet.

    Raises ``NotFound`` without such a savepoint or changelog, ``Refused`` for one without records and for a store of unknown kind, and
    ``ConfigInvalid`` when a schema file cannot be read.
    """
    return _live(recovery, store) if savepoint == LIVE else side_of(recovery, store, chosen(recovery, savepoint))


def tables(side: StoreSide) -> Iterator[dict[Identity, Entry]]:
    """The newest entry of each key, deleted ones included, one partition after the other: memory holds one partition's keys."""
    for number in side.partitions:
        yield newest(side.form.kind, side.read(number))


def table(side: StoreSide) -> dict[Identity, Entry]:
    """All partitions at once: memory holds all keys and values."""
    return {at: entry for one in tables(side) for at, entry in one.items()}


def matching_rows(side: StoreSide, key: str | None, *, deleted: bool) -> Iterator[Row]:
    """The rows of a store, or those of one key as its table shows it. Raises ``ConfigInvalid`` for keys and values that do not have their format."""
    codec = RowCodec(side.form)
    wanted = None if key is None else from_text(side.form.key.format, key)
    document = side.form.key.format.document
    for one in tables(side):
        for row in codec.rows(one, deleted=deleted):
            if wanted is None or (canonical(row["key"]) == canonical(str(wanted)) if document else row["key"] == wanted):
                yield row


def chosen(recovery: RecoveryContext, savepoint: str) -> Manifest:
    """The savepoint of this id, or the newest with state. Raises ``NotFound``."""
    if savepoint != LATEST:
        return recovery.savepoints.read(savepoint)
    found = recovery.savepoints.latest(profile=Profile.FULL)
    if found is None:
        raise NotFound(
            f"{recovery.application_id} has no savepoint with state in {recovery.repository.location}",
            next_step=f"take one first, or look at the running application with --savepoint {LIVE}",
        )
    return found


def changelog_of(manifest: Manifest, store: str) -> TopicImage:
    """The changelog of a store. Raises ``NotFound`` naming the stores there are, ``Refused`` for one without its records."""
    topic = manifest.topic(f"{manifest.application_id}-{store}-changelog")
    if topic is None or topic.role is not TopicRole.CHANGELOG:
        known = [store_name(one.name, manifest.application_id) for one in manifest.topics if one.role is TopicRole.CHANGELOG]
        raise NotFound(
            f"savepoint {manifest.savepoint_id} has no changelog of a store {store}; it has {', '.join(known) or 'none'}",
            next_step="choose one of those; a table that Kafka Streams restores from its input topic has no changelog",
            store=store,
            known=known,
        )
    if not topic.archived:
        raise Refused(
            f"savepoint {manifest.savepoint_id} is minimal: it has no records of {topic.name}",
            next_step="choose a savepoint with profile full",
            store=store,
        )
    return topic


def form_of(config: ApplicationConfig, store: str, kind: StoreKind) -> StoreFormat:
    """How the configuration says the store is to be read. Raises ``Refused`` for a store of unknown kind, ``ConfigInvalid``."""
    check_known(store, kind)
    declared = config.stores.get(store)
    if declared is None or kind not in READABLE:
        return StoreFormat(kind=kind, key=PLAIN_BYTES, value=PLAIN_BYTES)
    return StoreFormat(
        kind=kind,
        key=key_format(declared),
        value=value_format(declared),
    )


def key_format(declared: Formats) -> ValueFormat:
    """How keys are read. Raises ``ConfigInvalid`` for a schema file that cannot be read."""
    return _format(declared, declared.key, declared.key_schema)


def value_format(declared: Formats) -> ValueFormat:
    """How values are read. Raises ``ConfigInvalid`` for a schema file that cannot be read."""
    return _format(declared, declared.value, declared.value_schema)


def _format(declared: Formats, wanted: Format | None, schema: str | None) -> ValueFormat:
    if schema is None:
        return ValueFormat(format=wanted or Format.BYTES)
    try:
        text = Path(schema).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigInvalid(
            f"schema file {schema} cannot be read: {error}", next_step="correct the path; relative ones count from the configuration file"
        ) from None
    return ValueFormat(format=Format.AVRO, schema=text, confluent=declared.wire_format == "confluent")


def side_of(recovery: RecoveryContext, store: str, manifest: Manifest) -> StoreSide:
    """The store in a savepoint, published or not. Raises as ``open_side`` does."""
    topic = changelog_of(manifest, store)
    kind = store_kind(topic.name, manifest.application_id, topic.config, recovery.config.store_kind(store))
    images = {image.partition: image for image in topic.partitions}
    return StoreSide(
        store=store,
        topic=topic.name,
        form=form_of(recovery.config, store, kind),
        partitions=tuple(sorted(images)),
        manifest=manifest,
        read=lambda number: _rows(recovery.repository, images[number]),
    )


def _rows(repository: Repository, image: PartitionImage) -> Iterator[Entry]:
    with workspace("a segment is fetched") as directory:
        for file in image.files():
            fetch(repository, file, directory / "segment.parquet")
            for batch in read_segment(directory / "segment.parquet", file):
                yield from entries_of(batch, image.partition)


def _live(recovery: RecoveryContext, store: str) -> StoreSide:
    topic = f"{recovery.application_id}-{store}-changelog"
    found = recovery.cluster.describe_topics([topic]).get(topic)
    if found is None:
        raise NotFound(f"there is no topic {topic} on the cluster", next_step="check the store's name and application.id", topic=topic)
    # Its settings may be those of a hold, so they prove no kind.
    kind = store_kind(topic, recovery.application_id, {}, recovery.config.store_kind(store))
    logs = [TopicPartition(topic, number) for number in range(found.partitions)]
    starts, ends = recovery.cluster.log_starts(logs), recovery.cluster.last_stable_offsets(logs)

    def read(number: int) -> Iterator[Entry]:
        tp = logs[number]
        with RangeReader(recovery.connection, tp, starts[tp], ends[tp]) as reader:
            for batch in reader:
                yield from entries_of(batch, number)

    return StoreSide(
        store=store,
        topic=topic,
        form=form_of(recovery.config, store, kind),
        partitions=tuple(range(found.partitions)),
        manifest=None,
        read=read,
    )
