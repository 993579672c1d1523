"""The demonstration's own question to the evidence: is every partition of every changelog proven?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from embedded.demo.checks import all_proven
from streams_recovery.core.kafka_types import TopicRole
from tests.support.examples.savepoints import image, manifest_of, segment, topic

FULL, BARE = image((segment(0, 10, [1, 2, 3]),)), replace(image(()), partition=1)
MANIFEST = manifest_of(topic((FULL, BARE), name="s-changelog"), topic((FULL,), name="k-repartition", role=TopicRole.REPARTITION))
EQUAL = {"archived_digest": "aa", "restored_digest": "aa"}
ROWS: dict[str, Any] = {"topic": "s-changelog", "partition": 0, "proof": "rows", "rows": 3, **EQUAL}
EMPTY: dict[str, Any] = {"topic": "s-changelog", "partition": 1, "proof": "empty", "rows": 0, **EQUAL}


def test_rows_or_keys_over_all_that_was_saved_and_emptiness_on_both_sides_are_proofs() -> None:
    assert all_proven(MANIFEST, {"partitions": [ROWS, EMPTY]})
    assert all_proven(MANIFEST, {"partitions": [EMPTY, ROWS | {"proof": "keys"}, ROWS | {"topic": "another"}]})


@pytest.mark.parametrize(
    "found",
    [
        [],
        [ROWS],
        [EMPTY],
        [ROWS | {"rows": 2}, EMPTY],
        [ROWS | {"rows": 0, "proof": "empty"}, EMPTY],
        [ROWS | {"restored_digest": "ab"}, EMPTY],
        [ROWS | {"proof": "empty"}, EMPTY],
        [ROWS, EMPTY | {"rows": 1}],
        [ROWS, EMPTY | {"proof": "rows"}],
    ],
)
def test_anything_less_is_none(found: list[dict[str, Any]]) -> None:
    assert not all_proven(MANIFEST, {"partitions": found})


def test_a_savepoint_without_state_proves_nothing() -> None:
    assert not all_proven(manifest_of(topic((BARE,), name="s-changelog")), {"partitions": [EMPTY]})
    assert not all_proven(manifest_of(), {"partitions": [ROWS, EMPTY]})
