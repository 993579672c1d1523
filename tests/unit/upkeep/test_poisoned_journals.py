"""Journals of restores that somebody else wrote into hide no restore that broke off, and end no savepoint for good once a person has spoken."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streams_recovery.core.errors import Damaged, Refused
from streams_recovery.core.ids import new_id
from streams_recovery.core.repository.journal import CreatedTopic, JournalEntry, Phase, created_by
from streams_recovery.operations import unfinished
from streams_recovery.operations.context import Workbench
from streams_recovery.storage.append_log import NumberedLog
from tests.unit.upkeep.test_expire import T0

OpenGolden = Callable[..., Workbench]
OLD, NEW = new_id(T0, "old"), new_id(T0 + 60_000, "new")
TOPIC = CreatedTopic(topic="golden-totals-changelog", topic_id="x")


def wrote(bench: Workbench, restore_id: str, *phases: Phase) -> None:
    log = NumberedLog(bench.repository, bench.layout.journal(restore_id), JournalEntry)
    for phase in phases:
        log.append(JournalEntry(phase=phase, at=T0, created=(TOPIC,) if phase is Phase.CREATED else ()))


def junk(bench: Workbench, restore_id: str, number: int) -> str:
    key = f"{bench.layout.journal(restore_id)}{number:012}.json"
    bench.repository.create(key, b"junk")
    return key


@pytest.mark.fault("F63")
@pytest.mark.parametrize("phases", [(), (Phase.OPENED, Phase.STOPPED, Phase.SAVED)], ids=["of nothing", "that destroyed nothing"])
def test_a_newer_restore_that_is_dismissed_hides_no_older_one_that_broke_off(golden: OpenGolden, phases: tuple[Phase, ...]) -> None:
    bench = golden("good", now=T0)
    wrote(bench, OLD, Phase.OPENED, Phase.STOPPED, Phase.SAVED, Phase.DESTROYING)
    wrote(bench, NEW, *phases)
    junk(bench, NEW, len(phases) + 1)
    with pytest.raises(Damaged, match=NEW):
        unfinished.refuse_if_unfinished(bench)
    unfinished.dismiss(bench, NEW)
    with pytest.raises(Refused, match=f"restore {OLD} of golden broke off"):
        unfinished.refuse_if_unfinished(bench)


@pytest.mark.parametrize("last", [Phase.DESTROYING, Phase.RECOVERED])
def test_one_that_replaced_the_state_ends_the_search(golden: OpenGolden, last: Phase) -> None:
    bench = golden("good", now=T0)
    wrote(bench, OLD, Phase.OPENED, Phase.DESTROYING)
    wrote(bench, NEW, Phase.OPENED, last)
    junk(bench, NEW, 3)
    unfinished.dismiss(bench, NEW)
    assert unfinished.unfinished_restore(bench) is None


@pytest.mark.fault("F63")
@pytest.mark.parametrize("behind", [(), (Phase.CLOSED,)], ids=["the newest one", "in between"])
def test_what_restores_have_made_is_known_although_an_entry_cannot_be_read(golden: OpenGolden, behind: tuple[Phase, ...]) -> None:
    bench = golden("good", now=T0)
    wrote(bench, NEW, Phase.OPENED, Phase.DESTROYING, Phase.CREATED)
    junk(bench, NEW, 4)
    wrote(bench, NEW, *behind)
    unfinished.dismiss(bench, NEW)
    unfinished.refuse_if_unfinished(bench)
    (entries,) = unfinished.restore_journals(bench)
    assert [entry.phase for entry in entries][:3] == [Phase.OPENED, Phase.DESTROYING, Phase.CREATED]
    assert created_by(entries) == {TOPIC.topic: {TOPIC.topic_id}}


@pytest.mark.fault("F63")
def test_a_restore_whose_journal_has_a_hole_can_be_dismissed(golden: OpenGolden) -> None:
    bench = golden("good", now=T0)
    wrote(bench, NEW, Phase.OPENED, Phase.DESTROYING)
    removed = junk(bench, NEW, 3)
    wrote(bench, NEW, Phase.CREATED)
    bench.repository.delete([removed])
    with pytest.raises(Damaged, match=f"has no entry 3.*streams-recovery dismiss golden {NEW}"):
        unfinished.refuse_if_unfinished(bench)
    unfinished.dismiss(bench, NEW)
    unfinished.refuse_if_unfinished(bench)
    assert [created_by(entries) for entries in unfinished.restore_journals(bench)] == [{TOPIC.topic: {TOPIC.topic_id}}]


@pytest.mark.fault("F63")
def test_what_is_added_to_a_restore_that_is_over_changes_nothing(golden: OpenGolden) -> None:
    bench = golden("good", now=T0)
    wrote(bench, NEW, Phase.OPENED, Phase.DESTROYING, Phase.CLOSED)
    junk(bench, NEW, 4)
    unfinished.refuse_if_unfinished(bench)
