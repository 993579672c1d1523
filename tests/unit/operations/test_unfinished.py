"""Journals of restores that somebody else wrote into hide no restore that failed, and end no savepoint for good once a person has spoken."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from streams_recovery.core.errors import Damaged, Refused
from streams_recovery.core.repository.journal import CreatedTopic, JournalEntry, Phase, RestoreScope, created_by
from streams_recovery.core.words import new_id
from streams_recovery.operations import unfinished
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.strategies import FromSavepoint, Undo, UpgradeInPlace
from streams_recovery.storage.append_log import AppendLog
from tests.support.examples.restore_plan import PLAN
from tests.support.repository.golden import SECOND, SECOND_AT, OpenGolden

OLD, NEW = new_id(SECOND_AT, "old"), new_id(SECOND_AT + 60_000, "new")
TOPIC = CreatedTopic(topic="golden-totals-changelog", topic_id="x")


def wrote(recovery: RecoveryContext, restore_id: str, *phases: Phase, scope: RestoreScope = RestoreScope.STATE) -> None:
    log = AppendLog(recovery.repository, recovery.layout.journal(restore_id), JournalEntry)
    for phase in phases:
        log.append(JournalEntry(phase=phase, at=SECOND_AT, created=(TOPIC,) if phase is Phase.CREATED else (), scope=scope))


def junk(recovery: RecoveryContext, restore_id: str, number: int) -> str:
    key = f"{recovery.layout.journal(restore_id)}{number:012}.json"
    recovery.repository.create(key, b"junk")
    return key


@pytest.mark.fault("F63")
@pytest.mark.parametrize("phases", [(), (Phase.OPENED, Phase.STOPPED, Phase.SAVED)], ids=["of nothing", "that destroyed nothing"])
def test_a_newer_restore_that_is_dismissed_hides_no_older_one_that_broke_off(golden: OpenGolden, phases: tuple[Phase, ...]) -> None:
    recovery = golden("good", now=SECOND_AT)
    wrote(recovery, OLD, Phase.OPENED, Phase.STOPPED, Phase.SAVED, Phase.DESTROYING)
    wrote(recovery, NEW, *phases)
    junk(recovery, NEW, len(phases) + 1)
    with pytest.raises(Damaged, match=NEW):
        unfinished.refuse_if_unfinished(recovery)
    unfinished.dismiss(recovery, NEW)
    with pytest.raises(Refused, match=f"restore {OLD} of golden failed"):
        unfinished.refuse_if_unfinished(recovery)


@pytest.mark.parametrize("last", [Phase.DESTROYING, Phase.RECOVERED])
def test_one_that_replaced_the_state_ends_the_search(golden: OpenGolden, last: Phase) -> None:
    recovery = golden("good", now=SECOND_AT)
    wrote(recovery, OLD, Phase.OPENED, Phase.DESTROYING)
    wrote(recovery, NEW, Phase.OPENED, last)
    junk(recovery, NEW, 3)
    unfinished.dismiss(recovery, NEW)
    assert unfinished.unfinished_restore(recovery) is None


@pytest.mark.fault("F63")
@pytest.mark.parametrize("behind", [(), (Phase.CLOSED,)], ids=["the newest one", "in between"])
def test_what_restores_have_made_is_known_although_an_entry_cannot_be_read(golden: OpenGolden, behind: tuple[Phase, ...]) -> None:
    recovery = golden("good", now=SECOND_AT)
    wrote(recovery, NEW, Phase.OPENED, Phase.DESTROYING, Phase.CREATED)
    junk(recovery, NEW, 4)
    wrote(recovery, NEW, *behind)
    unfinished.dismiss(recovery, NEW)
    unfinished.refuse_if_unfinished(recovery)
    (entries,) = unfinished.restore_journals(recovery)
    assert [entry.phase for entry in entries][:3] == [Phase.OPENED, Phase.DESTROYING, Phase.CREATED]
    assert created_by(entries) == {TOPIC.topic: {TOPIC.topic_id}}


@pytest.mark.fault("F63")
def test_a_restore_whose_journal_has_a_hole_can_be_dismissed(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT)
    wrote(recovery, NEW, Phase.OPENED, Phase.DESTROYING)
    removed = junk(recovery, NEW, 3)
    wrote(recovery, NEW, Phase.CREATED)
    recovery.repository.delete([removed])
    with pytest.raises(Damaged, match="has no entry 3") as caught:
        unfinished.refuse_if_unfinished(recovery)
    assert caught.value.commands == (f"streams-recovery dismiss golden {NEW}",)
    unfinished.dismiss(recovery, NEW)
    unfinished.refuse_if_unfinished(recovery)
    assert [created_by(entries) for entries in unfinished.restore_journals(recovery)] == [{TOPIC.topic: {TOPIC.topic_id}}]


@pytest.mark.fault("F63")
def test_what_is_added_to_a_restore_that_is_over_changes_nothing(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT)
    wrote(recovery, NEW, Phase.OPENED, Phase.DESTROYING, Phase.CLOSED)
    junk(recovery, NEW, 4)
    unfinished.refuse_if_unfinished(recovery)


@pytest.mark.parametrize("scope", [RestoreScope.TOPICS, RestoreScope.COPIES])
@pytest.mark.parametrize("dismissed", [False, True])
def test_a_restore_of_single_topics_that_is_over_hides_no_older_one_of_the_state(
    golden: OpenGolden, scope: RestoreScope, *, dismissed: bool
) -> None:
    recovery = golden("good", now=SECOND_AT)
    wrote(recovery, OLD, Phase.OPENED, Phase.DESTROYING)
    wrote(recovery, NEW, Phase.OPENED, Phase.CREATED, *(() if dismissed else (Phase.VERIFIED, Phase.CLOSED)), scope=scope)
    if dismissed:
        unfinished.dismiss(recovery, NEW)
    assert unfinished.unfinished_restore(recovery) == OLD


def test_half_loaded_topics_of_the_application_count_and_copies_do_not(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT)
    wrote(recovery, OLD, Phase.OPENED, Phase.CREATED, scope=RestoreScope.TOPICS)
    wrote(recovery, NEW, Phase.OPENED, Phase.CREATED, scope=RestoreScope.COPIES)
    assert unfinished.unfinished_restore(recovery) == OLD
    unfinished.dismiss(recovery, OLD)
    assert unfinished.unfinished_restore(recovery) is None


@pytest.mark.parametrize(
    ("phases", "scope"),
    [((Phase.OPENED, Phase.SAVED), RestoreScope.STATE), ((Phase.OPENED, Phase.CREATED, Phase.CLOSED), RestoreScope.COPIES)],
    ids=["that came to nothing", "of copies"],
)
def test_a_later_restore_hides_no_earlier_one_that_replaced_the_state(
    golden: OpenGolden, phases: tuple[Phase, ...], scope: RestoreScope
) -> None:
    recovery = golden("good", now=SECOND_AT)
    wrote(recovery, NEW, *phases, scope=scope)
    assert unfinished.replaced_since(recovery, SECOND_AT - 1) is None
    wrote(recovery, OLD, Phase.OPENED, Phase.DESTROYING, Phase.CLOSED)
    assert unfinished.replaced_since(recovery, SECOND_AT - 1) == OLD
    assert unfinished.replaced_since(recovery, SECOND_AT) is None


@pytest.mark.parametrize("last", [Phase.CREATED, Phase.CLOSED])
def test_one_that_was_left_half_way_counts_after_a_clock_that_was_ahead_is_set_back(golden: OpenGolden, last: Phase) -> None:
    recovery, ahead = golden("good", now=SECOND_AT + 120_000), new_id(SECOND_AT + 3 * 86_400_000, "ahead")
    wrote(recovery, OLD, Phase.OPENED, Phase.DESTROYING, Phase.CLOSED)
    time.sleep(0.01)
    wrote(recovery, ahead, Phase.OPENED, Phase.DESTROYING, last)
    assert unfinished.unfinished_restore(recovery) == (ahead if last is Phase.CREATED else None)
    time.sleep(0.01)
    wrote(recovery, NEW, Phase.OPENED, Phase.DESTROYING, Phase.CLOSED)
    assert unfinished.unfinished_restore(recovery) is None, "that came behind it, and has replaced what it left"


def test_the_version_that_ran_on_a_state_is_that_of_the_last_restore_before_it_which_deployed_one(golden: OpenGolden) -> None:
    recovery = golden("good")
    before = recovery.savepoints.read(SECOND)
    first, undone, nothing = (new_id(before.captured_at + 60_000 * number, "run") for number in range(3))
    for restore_id, last in ((first, Phase.DEPLOYED), (undone, Phase.DEPLOYED), (nothing, Phase.SAVED)):
        wrote(recovery, restore_id, last)
    saved = replace(
        before, savepoint_id=new_id(before.captured_at, undone), provenance=replace(before.provenance, run_id=undone), parent_id=None
    )
    recovery.safety.publish(saved)
    planned = replace(PLAN, savepoint_id=saved.savepoint_id)
    assert FromSavepoint(reason="").deployed_before(recovery, planned) == undone
    assert Undo(reason="", restore_id=undone).deployed_before(recovery, planned) == first
    assert UpgradeInPlace(reason="").deployed_before(recovery, planned) is None
