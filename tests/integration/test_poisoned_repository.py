"""Somebody who may write to the repository cannot keep an application from its next savepoint, nor from a restore of an older one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from streams_recovery.core.errors import Damaged
from streams_recovery.core.words import is_id, new_id
from streams_recovery.operations import restore
from tests.support.applications.restore_steps import end, loaded, opened, saved, verified
from tests.support.applications.savepoint_steps import publish
from tests.support.applications.small import Small, asked
from tests.support.applications.topic_records import produce
from tests.support.repository.poison import LAST_SECOND, POISONS, poison

pytestmark = pytest.mark.kafka


@pytest.mark.fault("F63")
def test_a_poisoned_newest_manifest_stops_neither_the_next_savepoint_nor_a_restore_of_an_older_one(small: Small) -> None:
    first = publish(small)
    savepoints = Path(str(small.recovery.config.storage.path)) / small.recovery.application_id / "savepoints"
    for name in POISONS:
        newer = new_id(small.recovery.clock() + 3_600_000, "poison")
        bad = poison(savepoints, name, newer)
        with pytest.raises(Damaged, match=newer):
            small.recovery.savepoints.latest()
        taken = publish(small)
        assert taken > newer, "the newest one is the one that was taken last"
        found = small.recovery.savepoints.latest()
        assert found is not None
        assert (found.savepoint_id, found.parent_id) == (taken, None), "nothing is shared with what cannot be read"
        shutil.rmtree(savepoints / taken)
        shutil.rmtree(bad.parent)
    poison(savepoints, "a bomb of lists")
    poison(savepoints, "nothing", LAST_SECOND)
    produce(small.recovery, small.changelog, 3)
    ticket = opened(small.recovery, asked(small.recovery, savepoint=first, replace=True))
    assert saved(small.recovery, ticket).savepoint_id is not None
    assert loaded(small.recovery, ticket) > 0
    assert verified(small.recovery, ticket).partitions
    assert end(small) < 7, "what came after the savepoint is gone"
    restore.abandon(small.recovery, ticket)


@pytest.mark.fault("F63")
def test_strange_objects_everywhere_stop_no_savepoint(small: Small) -> None:
    root = Path(str(small.recovery.config.storage.path)) / small.recovery.application_id
    first = publish(small)
    places = [
        "locks",
        "holds",
        "quiesce-records",
        "pins",
        "restores",
        "restores/x/journal",
        "savepoints",
        "published",
        "expired",
        "offsets",
        "segments",
    ]
    for place in places:
        (root / place).mkdir(parents=True, exist_ok=True)
        for name in ("stray", "000000000001.json.bak", "ü", "a\nb"):
            (root / place / name).write_bytes(b"[" * 1_000)
    (root / "locks" / "self").symlink_to(".")
    second = publish(small)
    assert is_id(second)
    assert small.recovery.savepoints.ids() == [first, second]
    found = small.recovery.savepoints.read(second)
    assert found.parent_id == first
