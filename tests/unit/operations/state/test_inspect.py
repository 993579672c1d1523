"""Savepoints are compared and looked into for a person, and what was found is stored: without data of the application unless that is allowed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.loader import load_named
from streams_recovery.core import codec
from streams_recovery.core.errors import NotFound
from streams_recovery.core.state.inspection import CompareRequest, Inspection, LookUpRequest, Outcome
from streams_recovery.operations.context import RecoveryContext, open_context
from streams_recovery.operations.state import compare_savepoints, look_up
from streams_recovery.operations.state.inspect import KEPT, newest
from tests.support.applications.key_answers import key_program, write_answers
from tests.support.repository.state_repository import FIRST, MINIMAL, SECOND, STORES, T0, environment


@pytest.fixture
def showing(shop: RecoveryContext, tmp_path: Path) -> Iterator[RecoveryContext]:
    """The same shop, whose configuration allows to show keys and values."""
    path = tmp_path / "shop.yaml"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"access": {"show_values": True}}))
    with open_context(load_named("shop", tmp_path, {}), EnvironmentConnections(environment())) as recovery:
        yield recovery


def compared(recovery: RecoveryContext, *stores: str, other: str = SECOND) -> Inspection:
    request = CompareRequest(savepoint=FIRST, other=other, stores=stores, run_id="manual__1", requested_by="anna")
    return compare_savepoints(recovery, request)


def looked_up(recovery: RecoveryContext, *, store: str = "", key: str | None = None, topic: str = "") -> Inspection:
    request = LookUpRequest(savepoint=SECOND, store=store, key=key, topic=topic, run_id="manual__1", requested_by="anna")
    return look_up(recovery, request)


def stored(recovery: RecoveryContext) -> str:
    return codec.dumps(newest(recovery.repository, recovery.layout)[0]).decode()


def test_numbers_are_stored_and_no_key_unless_that_is_allowed(shop: RecoveryContext) -> None:
    found = compared(shop, "totals")
    assert (found.outcome, found.found.rows, found.has_data) == (Outcome.DIFFERENT, (), False)
    assert "1 changed, 1 added, 1 removed" in found.sentences[0]
    assert newest(shop.repository, shop.layout) == (found,)


def test_the_keys_that_differ_are_stored_where_that_is_allowed(showing: RecoveryContext) -> None:
    found = compared(showing, "totals")
    assert {row[0] for row in found.found.rows} == {"totals"}
    assert len(found.found.rows) == 3
    assert "zoe" in {row[1] for row in found.found.rows}
    assert (found.found.more, found.has_data) == (0, True)


def test_a_savepoint_is_equal_to_itself(shop: RecoveryContext) -> None:
    assert compared(shop, "totals", other=FIRST).outcome is Outcome.EQUAL


def test_a_store_that_only_one_savepoint_has_is_a_difference_whichever_way_they_are_compared(shop: RecoveryContext) -> None:
    missing = sorted(set(STORES) - {"totals"})
    for savepoint, other in ((FIRST, MINIMAL), (MINIMAL, FIRST)):
        found = compare_savepoints(shop, CompareRequest(savepoint=savepoint, other=other, stores=(), run_id="r", requested_by="anna"))
        assert found.outcome is Outcome.DIFFERENT
        assert [one for one in missing if f"{one}: only {FIRST} has this store" not in found.sentences] == []


def test_a_store_that_is_named_and_is_not_there_is_an_error(shop: RecoveryContext) -> None:
    with pytest.raises(NotFound):
        compared(shop, "nothing")
    assert newest(shop.repository, shop.layout) == ()


def test_a_key_and_its_value_are_neither_told_nor_stored(shop: RecoveryContext) -> None:
    found = looked_up(shop, store="totals", key="alice")
    assert (found.outcome, found.sentences, found.has_data) == (Outcome.FOUND, ("1 row",), False)
    assert [secret for secret in ("alice", "count") if secret in stored(shop)] == []


def test_a_key_and_its_value_are_stored_where_that_is_allowed(showing: RecoveryContext) -> None:
    [row] = looked_up(showing, store="totals", key="alice").found.rows
    assert "alice" in row
    assert '{"count":100}' in row


@pytest.fixture
def asking(showing: RecoveryContext, tmp_path: Path) -> Iterator[RecoveryContext]:
    """A shop that runs, and answers queries by key from a file."""
    path = tmp_path / "shop.yaml"
    config = json.loads(path.read_text())
    config["runs"]["command"]["query_keys"] = key_program(tmp_path / "answers.json")
    path.write_text(json.dumps(config))
    with open_context(load_named("shop", tmp_path, {}), EnvironmentConnections(environment())) as recovery:
        yield recovery


@pytest.mark.parametrize(
    ("now", "sentence"),
    [({"count": 100}, "has the same for it"), ({"count": 101}, "has something else for it"), (None, "has no such key")],
)
def test_what_the_running_application_has_is_beside_it(asking: RecoveryContext, tmp_path: Path, now: object, sentence: str) -> None:
    write_answers(tmp_path / "answers.json", {"totals": {} if now is None else {"alice": now}})
    found = looked_up(asking, store="totals", key="alice")
    assert (found.outcome, found.sentences) == (Outcome.FOUND, ("1 row", f"the running application {sentence}"))
    cells = [dict(zip(found.found.columns, row, strict=True)) for row in found.found.rows]
    assert (cells[0]["in"], cells[0]["value"]) == (SECOND, '{"count":100}')
    assert [(one["in"], one["key"], json.loads(one["value"])) for one in cells[1:]] == ([] if now is None else [("live", "alice", now)])


def test_a_key_that_only_the_running_application_has_was_not_found_in_the_savepoint(asking: RecoveryContext, tmp_path: Path) -> None:
    write_answers(tmp_path / "answers.json", {"minutes": {"yan": {"found": True, "windows": [{"start": T0, "end": T0 + 1, "value": 7}]}}})
    found = looked_up(asking, store="minutes", key="yan")
    assert (found.outcome, found.sentences[0]) == (Outcome.NOT_FOUND, "0 rows")
    [row] = [dict(zip(found.found.columns, row, strict=True)) for row in found.found.rows]
    assert (row["in"], row["window_start"], row["value"]) == ("live", str(T0), "7")


def test_why_the_running_application_was_not_asked_is_told(asking: RecoveryContext, tmp_path: Path) -> None:
    write_answers(tmp_path / "answers.json", {})
    found = looked_up(asking, store="totals", key="alice")
    assert found.outcome is Outcome.FOUND
    assert "the running application was not asked: query_keys ended with status 5" in found.sentences[1]
    assert "in" not in found.found.columns


def test_nobody_is_asked_where_values_may_not_be_shown(shop: RecoveryContext, tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    config = json.loads(path.read_text())
    config["runs"]["command"]["query_keys"] = [sys.executable, "-c", f"open({str(tmp_path / 'asked')!r}, 'w')"]
    path.write_text(json.dumps(config))
    with open_context(load_named("shop", tmp_path, {}), EnvironmentConnections(environment())) as recovery:
        assert looked_up(recovery, store="totals", key="alice").sentences == ("1 row",)
    assert not (tmp_path / "asked").exists()


def test_a_key_that_is_not_there_is_an_answer(shop: RecoveryContext) -> None:
    assert looked_up(shop, store="totals", key="nobody").outcome is Outcome.NOT_FOUND


def test_only_the_newest_stay(shop: RecoveryContext) -> None:
    for _ in range(KEPT + 2):
        looked_up(shop, store="totals", key="alice")
    assert len(list(shop.repository.keys(shop.layout.inspections))) == KEPT
