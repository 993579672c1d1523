"""What a savepoint that failed leaves behind: its segments go only where nothing can publish them any more."""

from __future__ import annotations

import pytest

from streams_recovery.operations.savepoint.begin import _copy_has_failed


@pytest.mark.parametrize(
    ("notes", "failed"),
    [
        ((), False),
        (("copy-plan", "backup-spec"), True),
        (("copy-plan",), False),
        (("copy-plan", "backup-spec", "backup-result"), False),
        (("copy-plan", "backup-spec", "backup-result", "copied"), False),
        (("copy-plan", "copied"), False),
    ],
    ids=["failed before its plan", "its job failed", "nothing was to be copied", "its job ended", "checked", "checked without a job"],
)
def test_segments_go_where_their_copy_has_failed(notes: tuple[str, ...], failed: bool) -> None:
    assert _copy_has_failed(notes.__contains__) is failed
