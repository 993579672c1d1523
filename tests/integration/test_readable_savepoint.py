"""A savepoint of a real broker's records, read by strangers: what the producer sent is what they see."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas as pd
from confluent_kafka import Producer

from tests.support.applications.savepoint_steps import publish
from tests.support.applications.small import Small
from tests.support.repository.readable import code_of, row_of

# timestamp, key, value, headers. A producer cannot send a timestamp below 1.
SENT: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
    (1, b"k", b"v", []),
    (2, b"k", None, [("a", b"1"), ("a", b"1"), ("b", None), ("", b""), ("a", b"0")]),
    (1_700_000_000_000, b"", b"", [("\u00fc", b"\xff\x00")]),
    (3, b"\x00\xff", b"\x00" * 100_000, []),
    (4, b"k2", b"", []),
]


def test_what_was_sent_is_what_others_read(small: Small) -> None:
    producer = Producer({"bootstrap.servers": small.recovery.connection.bootstrap_servers, "log_level": 0})
    for timestamp, key, value, headers in SENT:
        producer.produce(small.changelog.topic, value, key, 0, timestamp=timestamp, headers=headers)  # type: ignore[arg-type]
    assert producer.flush(30) == 0
    manifest = small.recovery.savepoints.read(publish(small))
    root = Path(str(small.recovery.config.storage.path))
    files = [str(root / file.key) for tp, file in manifest.files() if tp == small.changelog]
    with duckdb.connect() as database:
        database.execute(f"SET VARIABLE files = {files}")
        found = database.execute(code_of("docs/format.md", "sql", "timestamp_type, key, value"))
        names = [column[0] for column in found.description or []]
        with_duckdb = [row_of(dict(zip(names, row, strict=True))) for row in found.fetchall()]
    with_pandas = [row_of({**row, "headers": row["headers"]}) for row in pd.concat(map(pd.read_parquet, files)).to_dict("records")]
    expected = [(4 + number, stamp, 0, key, value, headers or None) for number, (stamp, key, value, headers) in enumerate(SENT)]
    assert with_duckdb[4:] == expected
    assert with_pandas[4:] == expected
