"""Stores of every kind as rows, and rows as files that come back."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import duckdb
import pytest

from streams_recovery.core.errors import ConfigInvalid, NotFound, Refused
from streams_recovery.operations import state
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.state import FileFormat
from streams_recovery.serdes.rows import RowCodec
from tests.support.repository.state_repository import FIRST, MINIMAL, SECOND, STORES, T0, Row, by_key, rows_of

SHOWN = [store for store in STORES if store != "empty"]


def told(row: Row, *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def test_keys_and_values_are_what_the_application_wrote(shop: RecoveryContext) -> None:
    totals = by_key(rows_of(shop, "totals"))
    assert totals == {
        "alice": '{"count":100}',
        "carol": '{"count":7}',
        "erin": '{"count":4, "sum": 1.50}',
        "gül": '{"count":5, "sum": 1.50}',
        "zoe": "null",
    }
    numbers = by_key(rows_of(shop, "numbers"))
    assert (numbers[0], numbers[2], math.copysign(1, numbers[3]), math.isnan(numbers[1])) == (1.5, -math.inf, -1.0, True)
    assert json.loads(by_key(rows_of(shop, "accounts"))["alice"]) == {"owner": "alice", "cents": 0, "note": {"string": "née"}}
    assert by_key(rows_of(shop, "raw")) == {b"\xff\x00": b"", b"": b"\x00"}
    assert by_key(rows_of(shop, "held-back")) == {b"k": b"buffered"}


def test_windows_sessions_and_versions_have_columns_of_their_own(shop: RecoveryContext) -> None:
    minutes = {told(row, "key", "window_start", "window_seq", "value", "timestamp") for row in rows_of(shop, "minutes")}
    assert ("carol", T0 + 120_000, 0, 2, T0 + 120_005) in minutes
    assert len(minutes) == 6, "the last one of alice was deleted"
    sessions = sorted(told(row, "key", "window_start", "window_end", "value") for row in rows_of(shop, "sessions"))
    assert sessions == [("alice", T0, T0 + 20, 3), ("bob", T0 + 5, T0 + 5, 1)]
    versions = sorted(told(row, "key", "valid_from", "valid_to", "value") for row in rows_of(shop, "versions"))
    assert [(key, since - T0, until and until - T0, value) for key, since, until, value in versions] == [
        ("alice", 0, 100, "first"),
        ("alice", 100, 200, "second"),
        ("alice", 200, None, "third"),
        ("bob", 0, 50, "only"),
    ]


def test_deleted_keys_are_shown_when_they_are_asked_for(shop: RecoveryContext) -> None:
    assert {row["key"] for row in rows_of(shop, "totals", deleted=True) if row["value"] is None} == {"bob", "dora"}
    (gone,) = [row for row in rows_of(shop, "sessions", deleted=True) if row["value"] is None]
    assert told(gone, "key", "window_end") == ("alice", T0 + 10)


def test_headers_are_rows_too(shop: RecoveryContext) -> None:
    (alice,) = [row for row in rows_of(shop, "totals") if row["key"] == "alice"]
    assert alice["headers"] == [{"key": "trace", "value": b"x"}, {"key": "trace", "value": None}]


@pytest.mark.parametrize("store", SHOWN)
@pytest.mark.parametrize("kind", [FileFormat.PARQUET, FileFormat.JSON])
def test_a_file_holds_the_same_rows(shop: RecoveryContext, tmp_path: Path, store: str, kind: FileFormat) -> None:
    side, rows = state.open_side(shop, store, SECOND), rows_of(shop, store, deleted=True)
    path = tmp_path / f"table.{kind}"
    assert state.write_table(rows, side.form, kind, path) == len(rows) > 0
    back = state.read_table(path, side.form)
    # Documents are compared as such: JSON lines hold them as objects.
    codec = RowCodec(side.form)
    for one, other in zip(rows, back, strict=True):
        assert {**other, "key": 0, "value": 0} == {**one, "key": 0, "value": 0}
        assert codec.name(one)[1:] == codec.name(other)[1:] if store != "versions" else one["key"] == other["key"]
        parts = [("key", side.form.key), ("value", side.form.value)]
        for name, form in parts:
            same = json.loads(one[name]) == json.loads(other[name]) if form.format.document and one[name] is not None else None
            assert same or repr(one[name]) == repr(other[name])


def test_csv_and_the_screen_have_text_only(shop: RecoveryContext, tmp_path: Path) -> None:
    side = state.open_side(shop, "totals", SECOND)
    state.write_table(rows_of(shop, "totals"), side.form, FileFormat.CSV, tmp_path / "t.csv")
    found = duckdb.sql(f"SELECT key, value->>'$.count', timestamp FROM read_csv('{tmp_path / 't.csv'}') WHERE key = 'alice'").fetchall()
    assert found == [("alice", "100", T0 + 60)]
    assert state.in_columns(rows_of(shop, "raw")[0], state.open_side(shop, "raw", SECOND).form)[0] in ("ff00", "")


def test_duckdb_reads_what_is_written(shop: RecoveryContext, tmp_path: Path) -> None:
    for store in ("totals", "minutes", "versions"):
        state.write_table(
            rows_of(shop, store), state.open_side(shop, store, SECOND).form, FileFormat.PARQUET, tmp_path / f"{store}.parquet"
        )
    totals = "SELECT key, (value ->> '$.count')::BIGINT AS n, make_timestamp(timestamp * 1000) AS at FROM '{}' ORDER BY n DESC LIMIT 1"
    (row,) = duckdb.sql(totals.format(tmp_path / "totals.parquet")).fetchall()
    assert (row[0], row[1], row[2].isoformat()) == ("alice", 100, "2026-11-21T00:00:00.060000")
    hours = "SELECT time_bucket(INTERVAL 1 HOUR, make_timestamp(window_start * 1000)) AS hour, sum(value) FROM '{}' GROUP BY ALL"
    assert [int(total) for _, total in duckdb.sql(hours.format(tmp_path / "minutes.parquet")).fetchall()] == [15]
    asof = "SELECT key, value FROM '{}' WHERE valid_from <= {at} AND (valid_to IS NULL OR valid_to > {at}) ORDER BY key"
    for at, expected in ((0, [("alice", "first"), ("bob", "only")]), (60, [("alice", "first")]), (500, [("alice", "third")])):
        assert duckdb.sql(asof.format(tmp_path / "versions.parquet", at=T0 + at)).fetchall() == expected


def test_what_cannot_be_shown_is_refused_by_its_name(shop: RecoveryContext) -> None:
    with pytest.raises(NotFound) as caught:
        state.open_side(shop, "nothing", SECOND)
    known = caught.value.facts["known"]
    assert isinstance(known, list)
    assert (caught.value.facts["store"], known[:2]) == ("nothing", ["totals", "numbers"])
    with pytest.raises(Refused, match="minimal"):
        state.open_side(shop, "totals", MINIMAL)
    undeclared = shop.config.model_copy(update={"stores": {}})
    from dataclasses import replace

    with pytest.raises(Refused, match="is not known") as caught:
        state.open_side(replace(shop, config=undeclared), "totals", SECOND)
    assert caught.value.facts == {"store": "totals"}


@pytest.mark.fault("F20")
def test_each_attempt_of_an_export_has_a_result_of_its_own(shop: RecoveryContext) -> None:
    request = state.ExportRequest(store="totals", savepoint=SECOND, run_id="run", deleted=False, directory=None)
    first, second = (state.begin_export(shop, request).job for _ in range(2))
    assert first.result_key != second.result_key


def test_a_damaged_segment_is_never_shown(shop: RecoveryContext, tmp_path: Path) -> None:
    from streams_recovery.core.errors import Damaged

    path = next((tmp_path / "repository" / "shop" / "segments" / "shop-totals-changelog").rglob("*hour1.parquet"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(Damaged, match="SHA-256"):
        rows_of(shop, "totals")
    assert rows_of(shop, "totals", FIRST)


def test_files_that_are_no_table_are_refused(shop: RecoveryContext, tmp_path: Path) -> None:
    form = state.open_side(shop, "totals", SECOND).form
    path = tmp_path / "t.json"
    for text, why in (
        ("{", "cannot be read"),
        ("[1]\n", "is no object"),
        ('{"key": "a", "valeu": 1}\n', "column valeu"),
        ("\xff", "cannot be read"),
    ):
        path.write_text(text, encoding="latin-1")
        with pytest.raises(ConfigInvalid, match=why):
            state.read_table(path, form)
    with pytest.raises(ConfigInvalid, match="cannot be read"):
        state.read_table(tmp_path / "absent.parquet", form)
    with pytest.raises(ConfigInvalid, match="is there already"):
        state.write_table([], form, FileFormat.JSON, path)


def test_two_moments_are_compared_key_by_key(shop: RecoveryContext) -> None:
    found = state.compare(state.open_side(shop, "totals", FIRST), state.open_side(shop, "totals", SECOND))
    assert {(row["change"], (row["after"] or row["before"])["key"], *row["parts"]) for row in found.rows} == {
        ("changed", "carol", "value", "timestamp"),
        ("removed", "dora"),
        ("added", "zoe"),
    }
    assert (found.counts.before, found.counts.after, found.counts.compared) == (5, 5, 6)
    for store in SHOWN:
        same = state.compare(state.open_side(shop, store, SECOND), state.open_side(shop, store, SECOND))
        assert same.counts.equal, store
        assert same.rows == ()
    none = state.compare(state.open_side(shop, "empty", FIRST), state.open_side(shop, "empty", SECOND))
    assert (none.counts.compared, none.counts.equal) == (0, False)
