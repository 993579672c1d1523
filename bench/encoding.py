"""What a segment costs and how large it is, by level of zstd, size of a page and size of a row group: JSON, binary records like Avro's, and noise.

    PYTHONPATH=plugins:. .venv/bin/python bench/encoding.py [--megabytes 96] [--rounds 3]

Prints processor time and bytes for each, the settings that segments have first, and ratios to them. It asserts nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from streams_recovery.segments import files
from streams_recovery.segments.schema import SEGMENT_SCHEMA

ROWS_OF_A_BATCH = 20_000
WORDS = ("open", "paid", "sent", "lost", "back", "hold")
MB = 1 << 20
# Level, page and row group in MB. The first is what segments have.
SETTINGS = ((3, 8, 32), (1, 8, 32), (6, 8, 32), (9, 8, 32), (3, 1, 32), (3, 2, 32), (3, 32, 32), (3, 8, 8), (3, 8, 64), (3, 8, 128))


def json_value(rnd: random.Random, at: int) -> bytes:
    """A small document."""
    found = {"id": at, "customer": rnd.randrange(50_000), "state": rnd.choice(WORDS), "amount": rnd.randrange(10**6) / 100, "at": at * 7}
    return json.dumps(found).encode()


def binary_value(rnd: random.Random, at: int) -> bytes:
    """The facts of ``json_value`` as numbers, as Avro or Protobuf write them."""
    return struct.pack("<bIqIBdq", 0, 17, at, rnd.randrange(50_000), rnd.randrange(6), rnd.randrange(10**6) / 100, at * 7) + b"note" * 4


def noise(rnd: random.Random, _at: int) -> bytes:
    """Nothing to find in it: encrypted, or compressed before."""
    return rnd.randbytes(150)


def batches(value: Callable[[random.Random, int], bytes], size: int) -> list[pa.RecordBatch]:
    """Records of so many bytes in all, as a reader hands them over."""
    rnd, made, held, at = random.Random(5), [], 0, 0  # noqa: S311  # no secret
    while held < size:
        values = [value(rnd, number) for number in range(at, at + ROWS_OF_A_BATCH)]
        keys = [b"customer-%06d" % rnd.randrange(50_000) for _ in values]
        at += len(values)
        stamps = [1_700_000_000_000 + 7 * number + rnd.randrange(5) for number in range(at - len(values), at)]
        columns = [pa.array(range(at - len(values), at), pa.int64()), pa.array(stamps), pa.array([0] * len(values), pa.int8())]
        columns += [pa.array(keys, pa.binary()), pa.array(values, pa.binary()), pa.nulls(len(values), SEGMENT_SCHEMA.field("headers").type)]
        made.append(pa.record_batch(columns, schema=SEGMENT_SCHEMA))
        held += made[-1].nbytes
    return made


def measured(rows: list[pa.RecordBatch], setting: tuple[int, int, int], rounds: int) -> tuple[float, int]:
    """Median processor time of writing them in seconds, and the bytes of the file."""
    level, page, group = setting
    files.PAGE_BYTES, files.ROW_GROUP_BYTES = page * MB, group * MB  # type: ignore[misc]  # nobody else is in this process
    seconds, size = [], 0
    with tempfile.TemporaryDirectory() as directory:
        for number in range(rounds):
            path, began = Path(directory) / f"{number}.parquet", time.process_time()
            files.write_segment(rows, path, compression_level=level)
            seconds.append(time.process_time() - began)
            size = path.stat().st_size
    return statistics.median(seconds), size


def main() -> None:
    """Measure every setting on every kind of data."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    table = Table("data", "level", "page, MB", "row group, MB", "µs/record", "ratio", "MB stored", "ratio")
    for name, value in (("JSON", json_value), ("binary", binary_value), ("noise", noise)):
        rows = batches(value, asked.megabytes * MB)
        records, first = sum(map(len, rows)), measured(rows, SETTINGS[0], asked.rounds)
        for setting in SETTINGS:
            seconds, size = first if setting == SETTINGS[0] else measured(rows, setting, asked.rounds)
            figures = (f"{seconds / records * 1e6:.2f}", f"{seconds / first[0]:.2f}", f"{size / 1e6:.1f}", f"{size / first[1]:.3f}")
            table.add_row(name, *map(str, setting), *figures)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
