"""Stores as tables: one side to look at, a store's changelog in a savepoint or as it is on the cluster now; and tables as files. Parquet, JSON lines and CSV
are written, Parquet and JSON lines are read.
"""

from __future__ import annotations

import csv
import enum
import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from streams_recovery.config.application import Formats
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.codec import document
from streams_recovery.core.errors import ConfigInvalid, NotFound, Refused
from streams_recovery.core.kafka_types import Profile, StoreKind, TopicPartition, TopicRole
from streams_recovery.core.names import store_kind, store_name
from streams_recovery.core.repository.manifest import Manifest, PartitionImage, SegmentFile, TopicImage
from streams_recovery.core.state.table import (
    PLAIN_BYTES,
    READABLE,
    Entry,
    Format,
    Identity,
    StoreFormat,
    ValueFormat,
    canonical,
    check_known,
    from_text,
    newest,
)
from streams_recovery.core.words import LATEST, LIVE
from streams_recovery.kafka.reader import RangeReader
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.segments.files import read_segment, workspace
from streams_recovery.segments.queries import fetch
from streams_recovery.serdes.rows import Row, RowCodec, entries_of, schema_of
from streams_recovery.storage.repository import Repository

_ROWS: Final = 10_000


class FileFormat(enum.StrEnum):
    """The format in which a table is written, by the end of a file's name. ``json`` is one object a line."""

    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


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


def _form_of(config: ApplicationConfig, store: str, kind: StoreKind) -> StoreFormat:
    """The format in which the configuration says the store is to be read. Raises ``Refused`` for a store of unknown kind, ``ConfigInvalid``."""
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
    """The format of keys. Raises ``ConfigInvalid`` for a schema file that cannot be read."""
    return _format(declared, declared.key, declared.key_schema)


def value_format(declared: Formats) -> ValueFormat:
    """The format of values. Raises ``ConfigInvalid`` for a schema file that cannot be read."""
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
        form=_form_of(recovery.config, store, kind),
        partitions=tuple(sorted(images)),
        manifest=manifest,
        read=lambda number: _rows(recovery.repository, images[number]),
    )


def batches_in(repository: Repository, files: Iterable[SegmentFile]) -> Iterator[pa.RecordBatch]:
    """The rows of segments, one file after the other."""
    with workspace("a segment is fetched") as directory:
        for file in files:
            fetch(repository, file, directory / "segment.parquet")
            yield from read_segment(directory / "segment.parquet", file, repository.data_keys)


def _rows(repository: Repository, image: PartitionImage) -> Iterator[Entry]:
    for batch in batches_in(repository, image.files()):
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
        form=_form_of(recovery.config, store, kind),
        partitions=tuple(range(found.partitions)),
        manifest=None,
        read=read,
    )


def file_format(path: Path) -> FileFormat:
    """The format of a file. Raises ``ConfigInvalid``."""
    try:
        return FileFormat(path.suffix.removeprefix("."))
    except ValueError:
        raise ConfigInvalid(
            f"the name of {path} does not say what is to be written there",
            next_step=f"give it one of these ends: {', '.join(f'.{one}' for one in FileFormat)}",
        ) from None


def write_table(rows: Iterable[Row], form: StoreFormat, kind: FileFormat, path: Path) -> int:
    """Write rows to a new file and return how many. Raises ``ConfigInvalid`` when the file is there already or cannot be written."""
    try:
        if kind is FileFormat.PARQUET:
            with path.open("xb") as raw:
                return _parquet(rows, form, raw)
        with path.open("x", encoding="utf-8", newline="") as text:
            return write_text(rows, form, kind, text)
    except FileExistsError:
        raise ConfigInvalid(f"{path} is there already", next_step="choose another file; none is overwritten") from None
    except OSError as error:
        raise ConfigInvalid(f"{path} cannot be written: {error.strerror}", next_step="choose another file") from None


def write_text(rows: Iterable[Row], form: StoreFormat, kind: FileFormat, target: IO[str]) -> int:
    """Rows as JSON lines or CSV; how many."""
    count = 0
    writer = csv.writer(target)
    if kind is FileFormat.CSV:
        writer.writerow(schema_of(form).names)
    for row in rows:
        count += 1
        if kind is FileFormat.CSV:
            writer.writerow([json.dumps(cell) if isinstance(cell, list) else cell for cell in as_json(row, form, nested=False).values()])
        else:
            target.write(json.dumps(as_json(row, form), ensure_ascii=False) + "\n")
    return count


def _parquet(rows: Iterable[Row], form: StoreFormat, target: IO[bytes]) -> int:
    schema, count, source = schema_of(form), 0, iter(rows)
    with pq.ParquetWriter(target, schema, compression="zstd") as writer:
        while several := list(itertools.islice(source, _ROWS)):
            writer.write_batch(pa.RecordBatch.from_pylist(several, schema=schema))
            count += len(several)
    return count


def as_json(row: Row, form: StoreFormat, *, nested: bool = True) -> dict[str, Any]:
    """A row as JSON has it: documents as objects if ``nested``, bytes in hex, numbers that JSON has no word for as text. A deleted key has no value:
    null may be a document.
    """
    documents = {name for name, part in (("key", form.key), ("value", form.value)) if part.format.document and nested}
    shown = {name: cell for name, cell in row.items() if not (nested and name == "value" and cell is None)}
    return {name: document(cell) if name in documents else _json_cell(cell) for name, cell in shown.items()}


def _json_cell(cell: Any) -> Any:
    if isinstance(cell, bytes):
        return cell.hex()
    if isinstance(cell, float) and not math.isfinite(cell):
        return str(cell)
    if isinstance(cell, list):
        return [{name: _json_cell(part) for name, part in header.items()} for header in cell]
    return cell


def in_columns(row: Row, form: StoreFormat) -> list[str]:
    """A row for a terminal. A key that is deleted has no value."""
    return [_short(cell) for cell in as_json(row, form, nested=False).values()]


def _short(cell: Any) -> str:
    if isinstance(cell, list):
        return ", ".join(f"{header['key']}={'null' if header['value'] is None else header['value']}" for header in cell)
    return "" if cell is None else str(cell)


def read_table(path: Path, form: StoreFormat) -> list[Row]:
    """The rows of a Parquet file (``.parquet``) or of JSON lines. Those without a value are deleted keys. Raises ``ConfigInvalid``."""
    try:
        rows = pq.read_table(path).to_pylist() if path.suffix == ".parquet" else list(_json_lines(path, form))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise ConfigInvalid(f"{path} cannot be read as a table: {error}"[:300], next_step="give it as Parquet or as JSON lines") from None
    known = set(schema_of(form).names)
    for row in rows:
        if unknown := sorted(set(row) - known):
            raise ConfigInvalid(f"{path} has a column {unknown[0]}", next_step=f"leave only these: {', '.join(sorted(known))}")
        row.setdefault("value", None)
        if form.kind is StoreKind.WINDOW and row.get("window_seq") is None:
            row["window_seq"] = 0
    return rows


def _json_lines(path: Path, form: StoreFormat) -> Iterator[Row]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                row = document(line)
                if not isinstance(row, dict):
                    raise ValueError(f"{line[:60]!r} is no object")  # caught above, with the other ways to be wrong
                yield {name: _cell_of(name, cell, form) for name, cell in row.items()}


def _cell_of(name: str, cell: Any, form: StoreFormat) -> Any:
    part = {"key": form.key, "value": form.value}.get(name)
    if cell is None:
        return "null" if part is not None and part.format.document else None
    if name == "headers":
        return [{"key": one["key"], "value": None if one.get("value") is None else bytes.fromhex(one["value"])} for one in cell]
    if part is not None and part.format.document:
        return json.dumps(cell, ensure_ascii=False, separators=(",", ":"))
    if part is not None and part.format in (Format.BYTES, Format.DOUBLE) and isinstance(cell, str):
        return from_text(part.format, cell)
    return cell
