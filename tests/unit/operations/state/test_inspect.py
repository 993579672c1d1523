"""Savepoints are compared and looked into for a person, and what was found is stored: without data of the application unless that is allowed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams_recovery.cli.connections import EnvironmentConnections
from streams_recovery.config.loader import load_named
from streams_recovery.core import codec
from streams_recovery.core.errors import NotFound
from streams_recovery.core.state.inspection import CompareRequest, Inspection, LookUpRequest, Outcome
from streams_recovery.operations.context import RecoveryContext, open_context
from streams_recovery.operations.state import compare_savepoints, look_up
from streams_recovery.operations.state.inspections import KEPT, newest
from tests.support.repository.state_repository import FIRST, SECOND, environment


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


def test_a_key_that_is_not_there_is_an_answer(shop: RecoveryContext) -> None:
    assert looked_up(shop, store="totals", key="nobody").outcome is Outcome.NOT_FOUND


def test_only_the_newest_stay(shop: RecoveryContext) -> None:
    for _ in range(KEPT + 2):
        looked_up(shop, store="totals", key="alice")
    assert len(list(shop.repository.keys(shop.layout.inspections))) == KEPT
