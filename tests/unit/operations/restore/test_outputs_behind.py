"""The state of a list of results behind a restore, where the archive that it began from cannot be read any more."""

from __future__ import annotations

from streams_recovery.core.kafka_types import Consistency
from streams_recovery.core.restore.planned import ArchivedState
from streams_recovery.operations.restore.outputs_behind import _state_of
from tests.support.repository.golden import OpenGolden


def test_a_restore_that_set_its_offsets_does_not_end_with_an_archive_that_is_damaged_by_then(golden: OpenGolden) -> None:
    recovery = golden("good")
    newest = recovery.savepoints.latest()
    assert newest is not None
    recovery.repository.create(f"{recovery.layout.archive}000000000001.json", b"{")
    state = ArchivedState(entry=1, at=newest.captured_at + 1)
    found = _state_of(recovery, recovery.savepoints, newest.savepoint_id, state)
    assert (found.savepoint_id, found.consistency) == (newest.savepoint_id, Consistency.AHEAD), "no list is exact with it"
