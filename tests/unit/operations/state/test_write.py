"""An edited table becomes a savepoint that is whole, checked and never anybody's default, or nothing at all."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from spark_jobs.transforms.check import check_file
from streams_recovery.core.errors import ConfigInvalid, Damaged, LockHeld, NotFound, RecoveryError, Refused
from streams_recovery.core.kafka_types import Consistency, StoreKind, TopicPartition
from streams_recovery.core.repository.check import FileToCheck
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.operations import maintenance, state
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.strategies import FromSavepoint
from streams_recovery.operations.restore.strategies.from_savepoint import choose
from streams_recovery.operations.state import FileFormat
from tests.support.repository.state_repository import AHEAD, MINIMAL, SECOND, T0, account, by_key, number, rows_of

Row = dict[str, Any]


def write(
    recovery: RecoveryContext, store: str, rows: list[Row], *, base: str = SECOND, dry_run: bool = False, run: str = ""
) -> state.EditSummary:
    request = state.EditRequest(store=store, base=base, run_id=run or uuid.uuid4().hex, requested_by="somebody", reason="a wrong sum")
    return state.write_state(recovery, request, rows, dry_run=dry_run)


def written(recovery: RecoveryContext, store: str, rows: list[Row], **how: Any) -> Manifest:
    done = write(recovery, store, rows, **how)
    assert done.savepoint_id is not None
    return recovery.savepoints.read(done.savepoint_id)


def with_value(rows: list[Row], key: object, value: object) -> list[Row]:
    return [{**row, "value": value} if row["key"] == key else row for row in rows]


def raw(recovery: RecoveryContext, store: str, savepoint: str) -> dict[bytes, bytes | None]:
    return {entry.key: entry.value for one in state.tables(state.open_side(recovery, store, savepoint)) for entry in one.values()}


def asked(savepoint: str) -> FromSavepoint:
    return FromSavepoint(savepoint=savepoint, reason="test")


def ids(recovery: RecoveryContext) -> list[str]:
    return recovery.savepoints.ids()


def test_one_store_is_changed_and_nothing_else(shop: RecoveryContext) -> None:
    source = shop.savepoints.read(SECOND)
    made = written(shop, "totals", with_value(rows_of(shop, "totals"), "alice", '{"count":1}'))
    assert by_key(rows_of(shop, "totals", made.savepoint_id)) == {**by_key(rows_of(shop, "totals")), "alice": '{"count":1}'}
    changed = "shop-totals-changelog"
    assert [topic for topic in made.topics if topic.name != changed] == [topic for topic in source.topics if topic.name != changed]
    assert (made.captured_at, made.committed(), made.parent_id) == (source.captured_at, source.committed(), SECOND)
    assert (made.consistency, made.provenance.requested_by, made.provenance.reason) == (Consistency.EDITED, "somebody", "a wrong sum")
    assert made.proof.reasons == (f"store totals was edited: of {SECOND} 4 keys are as they were, 1 changed, 0 added and 0 removed",)


def test_it_is_taken_by_its_name_and_never_as_the_newest(shop: RecoveryContext) -> None:
    made = written(shop, "totals", with_value(rows_of(shop, "totals"), "alice", "{}"))
    newest = shop.savepoints.latest()
    assert newest is not None
    assert newest.savepoint_id == AHEAD
    assert choose(shop, asked("latest")).manifest.savepoint_id == SECOND
    assert choose(shop, replace(asked("latest"), allow_ahead=True)).manifest.savepoint_id == AHEAD
    assert choose(shop, asked(made.savepoint_id)).manifest == made
    # An edited one does not stand for a damaged base, so that an older one would be taken in silence.
    root = Path(shop.repository.location.path or "")
    for savepoint_id in (MINIMAL, AHEAD):
        (root / shop.layout.manifest(savepoint_id)).unlink()
    (root / shop.layout.manifest(SECOND)).write_bytes(b"torn")
    with pytest.raises(Damaged):
        shop.savepoints.latest()


def test_a_check_finds_it_good_and_expiry_keeps_its_files(shop: RecoveryContext) -> None:
    rows = [row for row in rows_of(shop, "totals") if row["key"] != "gül"]
    made = written(shop, "totals", rows)
    topic = made.topic("shop-totals-changelog")
    assert topic is not None
    looked = 0
    for image in topic.partitions:
        for piece in image.ranges:
            if piece.file is not None:
                wanted = FileToCheck(
                    tp=TopicPartition(topic.name, image.partition), start=piece.start, end=piece.end, file=piece.file, savepoints=()
                )
                assert check_file(shop.repository, shop.layout, wanted).problems == ()
                looked += 1
    assert looked > 0
    later = replace(shop, clock=lambda: T0 + 400 * 86_400_000)
    needed = {file.key for _, file in made.files()}
    planned = maintenance.plan_expiry(later)
    assert made.savepoint_id in {decision.savepoint_id for decision in planned.keep}
    assert needed & {file.key for file in planned.files} == set()


def test_rows_that_say_the_same_keep_the_applications_bytes(shop: RecoveryContext, tmp_path: Path) -> None:
    """JSON with a space and 1.50 in it, Avro with a schema's id: by way of JSON lines, which hold neither."""
    for store, key, value in (("totals", "carol", '{"count":8}'), ("accounts", "bob", '{"owner": "bob", "cents": 5, "note": null}')):
        side, path = state.open_side(shop, store, SECOND), tmp_path / f"{store}.json"
        state.write_table(rows_of(shop, store), side.form, FileFormat.JSON, path)
        made = written(shop, store, with_value(state.read_table(path, side.form), key, value))
        before, after = raw(shop, store, SECOND), raw(shop, store, made.savepoint_id)
        alive = {name: data for name, data in before.items() if data is not None and name != key.encode()}
        assert {name: data for name, data in after.items() if name != key.encode()} == alive
    assert after[b"bob"] == account("bob", 5)
    alice = [row for row in rows_of(shop, "totals", made.savepoint_id) if row["key"] == "alice"]
    assert [(row["headers"], row["timestamp"]) for row in alice] == [
        ([{"key": "trace", "value": b"x"}, {"key": "trace", "value": None}], T0 + 60)
    ]


def test_duckdb_edits_a_table(shop: RecoveryContext, tmp_path: Path) -> None:
    side = state.open_side(shop, "minutes", SECOND)
    table, edited = tmp_path / "table.parquet", tmp_path / "edited.parquet"
    state.write_table(rows_of(shop, "minutes"), side.form, FileFormat.PARQUET, table)
    change = "SELECT * REPLACE (CASE key WHEN 'carol' THEN 70 ELSE value END AS value) FROM '{}' WHERE key <> 'dora'"
    duckdb.sql(f"COPY ({change.format(table)}) TO '{edited}'")
    done = write(shop, "minutes", state.read_table(edited, side.form))
    assert (done.kept, done.changed, done.added, done.removed) == (4, 1, 0, 1)
    made = done.savepoint_id or ""
    assert by_key(rows_of(shop, "minutes", made)) == {
        **{key: at for at, key in enumerate(["alice", "bob", "carol", "dora", "erin", "gül"]) if key != "dora"},
        "carol": 70,
    }
    log = [
        entry for image in state.open_side(shop, "minutes", made).partitions for entry in state.open_side(shop, "minutes", made).read(image)
    ]
    assert max(entry.timestamp for entry in log) == T0 + 900_000, "the time of the store stays what it was"
    assert {entry.key[:-12] for entry in log if entry.value is None} == {b"alice", b"dora"}


def test_state_is_given_to_a_store_that_has_none(shop: RecoveryContext) -> None:
    done = write(shop, "empty", [{"key": f"k{at}", "value": "v"} for at in range(50)])
    assert (done.added, done.partitioner_seen) == (50, False)
    side = state.open_side(shop, "empty", done.savepoint_id or "")
    assert sorted(len(one) for one in state.tables(side))[0] > 5, "in all partitions"
    again = written(shop, "empty", [{"key": "k1", "value": "w", "timestamp": T0 + 5}], base=done.savepoint_id or "")
    assert [(row["key"], row["value"], row["timestamp"]) for row in rows_of(shop, "empty", again.savepoint_id)] == [("k1", "w", T0 + 5)]
    assert len(again.proof.reasons) == 2


def test_several_edits_of_one_moment_are_told_apart(shop: RecoveryContext) -> None:
    rows = rows_of(shop, "totals")
    one = written(shop, "totals", with_value(rows, "alice", "1"))
    two = written(shop, "sessions", with_value(rows_of(shop, "sessions"), "bob", 9), base=one.savepoint_id)
    assert by_key(rows_of(shop, "totals", two.savepoint_id))["alice"] == "1"
    assert by_key(rows_of(shop, "sessions", two.savepoint_id))["bob"] == 9
    assert raw(shop, "sessions", two.savepoint_id).keys() == raw(shop, "sessions", SECOND).keys()
    assert number(9) in raw(shop, "sessions", two.savepoint_id).values()


def test_a_dry_run_counts_and_writes_nothing(shop: RecoveryContext) -> None:
    before = ids(shop), list(shop.repository.keys("shop/"))
    done = write(shop, "totals", rows_of(shop, "totals")[1:], dry_run=True)
    assert (done.savepoint_id, done.kept, done.removed) == (None, 4, 1)
    assert (ids(shop), list(shop.repository.keys("shop/"))) == before


def refusals(shop: RecoveryContext) -> list[tuple[str, str, list[Row], type[RecoveryError], str]]:
    totals, one = rows_of(shop, "totals"), [{"key": "a", "value": "w"}]
    return [
        ("versions", SECOND, one, Refused, "every row counts"),
        ("held-back", SECOND, [{"key": b"k", "value": b"w"}], Refused, "more than keys and values"),
        ("holey", SECOND, one, Refused, "gap"),
        ("a-subscription-store", SECOND, one, Refused, "foreign-key join"),
        ("odd", SECOND, one, Refused, "default partitioner"),
        ("totals", AHEAD, totals, Refused, "is `ahead`"),
        ("totals", MINIMAL, totals, Refused, "minimal"),
        ("totals", "live", totals, Refused, "running now"),
        ("totals", "20261121T000000Z-00000000ff", totals, NotFound, "there is no savepoint"),
        ("totals", SECOND, totals, Refused, "what the savepoint holds already"),
        ("totals", SECOND, [], Refused, "no row with a value"),
        ("totals", SECOND, [{"key": "alice", "value": None}], Refused, "no row with a value"),
        ("totals", SECOND, [*totals, {"key": "alice", "value": "1"}], ConfigInvalid, "twice"),
        ("totals", SECOND, with_value(totals, "alice", "{"), ConfigInvalid, "cannot be written as json"),
        ("totals", SECOND, [{"value": "1"}], ConfigInvalid, "has no key"),
        ("minutes", SECOND, [{"key": "a", "value": 1, "window_seq": 0}], ConfigInvalid, "has no window_start"),
        ("minutes", SECOND, [{"key": "a", "value": "1", "window_seq": 0, "window_start": T0}], ConfigInvalid, "cannot be written as long"),
        ("totals", SECOND, [{**row, "timestamp": 0} for row in totals], ConfigInvalid, "only those above 0"),
    ]


def test_what_cannot_be_meant_leaves_nothing_behind(shop: RecoveryContext) -> None:
    before = ids(shop)
    for store, base, rows, kind, why in refusals(shop):
        with pytest.raises(kind, match=why):
            write(shop, store, rows, base=base)
    with pytest.raises(ConfigInvalid, match="without a reason"):
        state.write_state(shop, state.EditRequest(store="totals", base=SECOND, run_id="r", requested_by="me", reason=" "), [])
    assert ids(shop) == before
    assert list(shop.repository.keys("shop/locks/")) == []


def test_a_base_that_is_not_what_was_published_is_refused(shop: RecoveryContext) -> None:
    rows, root = rows_of(shop, "totals"), Path(shop.repository.location.path or "")
    segment = next((root / "shop" / "segments" / "shop-raw-changelog").rglob("*hour1.parquet"))
    data = segment.read_bytes()
    segment.unlink()
    with pytest.raises(Damaged, match="not whole") as caught:
        write(shop, "totals", rows[1:])
    assert caught.value.commands == (f"streams-recovery verify shop {SECOND}",)
    segment.write_bytes(data)
    record = root / shop.layout.published(SECOND)
    record.write_text(json.dumps({**json.loads(record.read_text()), "sha256": "0" * 64}))
    with pytest.raises(Damaged, match="not the one that was published"):
        write(shop, "totals", rows[1:])
    assert SECOND in ids(shop)
    assert len(ids(shop)) == 4


def test_it_waits_for_nobody_and_meets_nobody(shop: RecoveryContext) -> None:
    rows = rows_of(shop, "totals")
    ticket = shop.lock.acquire("somebody else", lease_seconds=60, purpose="test")
    with pytest.raises(LockHeld):
        write(shop, "totals", rows[1:])
    shop.lock.release(ticket)
    assert written(shop, "totals", rows[1:]).savepoint_id
    assert shop.lock.holder() is None


def test_keys_that_a_table_cannot_tell_apart_are_refused(shop: RecoveryContext) -> None:
    from streams_recovery.config.application import Store
    from streams_recovery.core.state.table import Format

    one, two = b'{"a": 1}', b'{"a":1}'
    made = written(shop, "raw", [{"key": one, "value": b"x"}, {"key": two, "value": b"y"}])
    stores = {"raw": Store(kind=StoreKind.KEY_VALUE, key=Format.JSON)}
    recovery = replace(shop, config=shop.config.model_copy(update={"stores": stores}))
    with pytest.raises(Refused) as caught:
        write(recovery, "raw", [{"key": '{"a":1}', "value": b"z"}], base=made.savepoint_id)
    assert caught.value.facts == {"store": "raw", "keys": 2, "decoded": 1}
