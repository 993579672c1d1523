"""Tables as files: Parquet, JSON lines and CSV out, Parquet and JSON lines in."""

from __future__ import annotations

import csv
import enum
import itertools
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from streams_recovery.core.bounded_json import document
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import StoreKind
from streams_recovery.core.state.cells import Format, from_text
from streams_recovery.core.state.table import StoreFormat
from streams_recovery.serdes.rows import Row, schema_of

_ROWS: Final = 10_000


class FileFormat(enum.StrEnum):
    """How a table is written. ``json`` is one object a line."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


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
            writer.writerow([_flat(cell) for cell in as_json(row, form, nested=False).values()])
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


def _flat(cell: Any) -> Any:
    return json.dumps(cell) if isinstance(cell, list) else cell


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
