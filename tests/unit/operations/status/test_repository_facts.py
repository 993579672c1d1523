"""What the monitor reads in a repository: each trace that a run leaves is seen, and strange objects stop nothing."""

from __future__ import annotations

from dataclasses import replace

from streams_recovery.core.kafka_types import Consistency, Profile, QuiesceMode
from streams_recovery.core.repository.journal import JournalEntry, Phase
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.ownership import OwnershipEntry, Role
from streams_recovery.core.repository.retention import DAY_MS, Pin
from streams_recovery.core.restore.point_in_time import QuarantineEntry
from streams_recovery.core.sandbox.drill import DrillEntry
from streams_recovery.core.status.facts import RepositoryFacts, SavepointRun, judge
from streams_recovery.core.status.report import RunKind, newest_exact
from streams_recovery.core.status.rules import RULES
from streams_recovery.core.status.savepoint_detail import savepoint_detail
from streams_recovery.core.topic_holds.log import HoldEntry, HoldPurpose, TopicHold
from streams_recovery.core.words import new_id
from streams_recovery.operations import quiesce_record, unfinished
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.ownership import ownership_log
from streams_recovery.operations.restore.in_place import quarantine_log
from streams_recovery.operations.savepoint.damage import note_lost_files
from streams_recovery.operations.status.look import observe
from streams_recovery.operations.status.repository import repository_facts
from streams_recovery.operations.status.savepoints import list_savepoints, runs
from streams_recovery.operations.status.stored import ArchiveSeen
from streams_recovery.storage.append_log import AppendLog
from tests.support.examples.observed import observed
from tests.support.examples.status_causes import DEFAULTS
from tests.support.repository.golden import FIRST, SECOND, SECOND_AT, OpenGolden, age, checked, root

NOW = SECOND_AT + 600_000
RESTORE = new_id(SECOND_AT, "restore run")


def facts(recovery: RecoveryContext) -> RepositoryFacts:
    return repository_facts(recovery, list_savepoints(recovery, None, None), ArchiveSeen())


def journal(recovery: RecoveryContext, *phases: Phase) -> None:
    log = AppendLog(recovery.repository, recovery.layout.journal(RESTORE), JournalEntry)
    for number, phase in enumerate(phases):
        log.append(JournalEntry(phase=phase, at=SECOND_AT + number * 1000, created=()))


def test_savepoints_are_listed_with_what_their_records_lack(golden: OpenGolden) -> None:
    recovery = golden("good", now=NOW)
    segments = recovery.repository.listed(recovery.layout.segments)
    found = list_savepoints(recovery, None, segments)
    assert [one.savepoint_id for one in found.summaries] == [FIRST, SECOND]
    assert all(one.held_seconds is not None and one.seconds is not None for one in found.summaries)
    assert sum(one.new_bytes or 0 for one in found.summaries) <= sum(file.bytes for file in segments)
    assert [one.expires for one in found.summaries] == [True, False]
    assert found.damaged == ()


def test_the_newest_exact_savepoint_is_the_one_that_a_restore_takes(golden: OpenGolden) -> None:
    found = list_savepoints(golden("good", now=NOW), None, None)
    minimal = [replace(one, profile=Profile.MINIMAL) for one in found.summaries]
    for summaries, expected in (
        (found.summaries, SECOND),
        ((found.summaries[0], minimal[1]), FIRST),
        (minimal, SECOND),
        ([replace(one, consistency=Consistency.AHEAD) for one in found.summaries], None),
    ):
        newest = newest_exact(summaries)
        assert (newest.savepoint_id if newest else None) == expected


def test_a_savepoint_that_says_it_was_taken_in_the_future_is_not_the_newest_and_is_named(golden: OpenGolden) -> None:
    recovery = golden("good", now=NOW)
    found = list_savepoints(recovery, None, None)
    forged = replace(found, summaries=(found.summaries[0], replace(found.summaries[1], captured_at=NOW + 3_600_000)))
    told = repository_facts(recovery, forged, ArchiveSeen())
    assert told.newest is not None
    assert told.newest_exact is not None
    assert (told.newest.savepoint_id, told.newest_exact.savepoint_id, told.ahead) == (FIRST, FIRST, (SECOND,))
    assert facts(recovery).ahead == ()


def test_how_far_inputs_were_read_is_looked_up_once(golden: OpenGolden) -> None:
    recovery = golden("good", now=NOW)
    report = observe(recovery, None)
    committed = [savepoint_detail(recovery.savepoints.outline(name)).input_positions() for name in (FIRST, SECOND)]
    assert all(committed)
    assert [one.input_positions for one in report.savepoints] == committed
    known = tuple(replace(one, input_positions={"orders": 7}) for one in report.savepoints)
    again = list_savepoints(recovery, replace(report, savepoints=known), None).summaries
    assert [one.input_positions for one in again] == [{"orders": 7}, {"orders": 7}]


def test_a_pin_is_seen_and_keeps_a_savepoint(golden: OpenGolden) -> None:
    recovery = golden("good", now=NOW)
    unfinished.pin(recovery, FIRST, keep=True, requested_by="me", reason="the last one of the old version")
    first, _ = list_savepoints(recovery, None, None).summaries
    assert (first.pinned, first.expires, first.leaves_at) == (True, False, None)
    unfinished.pin(recovery, FIRST, keep=False, requested_by="?", reason="?")
    age(recovery, days=1, now=NOW)
    first, _ = list_savepoints(recovery, None, None).summaries
    assert (first.pinned, first.expires, first.leaves_at) == (False, False, NOW + 6 * DAY_MS)
    assert facts(recovery).leaving == {FIRST: NOW + 6 * DAY_MS}


def test_a_savepoint_that_cannot_be_read_is_named(golden: OpenGolden) -> None:
    recovery = golden("good", now=NOW)
    (root(recovery) / "savepoints" / SECOND / "manifest.json.zst").write_bytes(b"junk")
    found = facts(recovery)
    assert found.damaged == (SECOND,)
    assert found.newest_exact is not None
    assert found.newest_exact.savepoint_id == FIRST


def test_nothing_is_left_in_a_good_repository(golden: OpenGolden) -> None:
    found = facts(golden("good", now=NOW))
    assert (found.lock, found.restores, found.quiesce, found.holds, found.quarantines) == (None, (), None, (), ())


def test_a_run_that_published_nothing_is_told_from_one_that_works_and_from_one_that_did(golden: OpenGolden) -> None:
    recovery = golden("good", now=NOW)
    ticket = recovery.lock.acquire("savepoint lost", lease_seconds=60, purpose="savepoint of golden")
    during = facts(recovery)
    assert during.last_run == SavepointRun(run="lost", began_at=NOW, over=False, savepoint_id=None)
    assert during.lock is not None
    assert (during.lock.owner, during.lock.since) == ("savepoint lost", NOW)
    recovery.lock.release(ticket)
    after = facts(recovery)
    assert after.lock is None
    assert after.last_run == SavepointRun(run="lost", began_at=NOW, over=True, savepoint_id=None)
    published = recovery.savepoints.summary_of_manifest(SECOND).run_id
    recovery.lock.release(recovery.lock.acquire(f"savepoint {published}", lease_seconds=60, purpose="savepoint of golden"))
    again = facts(recovery).last_run
    assert again is not None
    assert again.savepoint_id == SECOND


def test_a_lock_that_cannot_be_read_is_named_by_its_key(golden: OpenGolden) -> None:
    recovery = golden("good", now=NOW)
    key = f"{recovery.layout.locks}000000000001.json"
    recovery.repository.create(key, b"junk")
    lock = facts(recovery).lock
    assert lock is not None
    assert lock.unreadable == key


def test_a_restore_is_unfinished_running_or_over(golden: OpenGolden) -> None:
    recovery = golden("good", now=NOW)
    journal(recovery, Phase.OPENED, Phase.STOPPED)
    assert facts(recovery).restores == ()
    journal(recovery, Phase.DESTROYING)
    (left,) = facts(recovery).restores
    assert (left.restore_id, left.began_at, left.phase, left.running, left.destroyed) == (RESTORE, SECOND_AT, "destroying", False, True)
    ticket = recovery.lock.acquire("restore run", lease_seconds=60, purpose="restore of golden")
    (under_way,) = facts(recovery).restores
    assert under_way.running
    recovery.lock.release(ticket)
    journal(recovery, Phase.CLOSED)
    assert facts(recovery).restores == ()


def test_a_restore_under_way_that_has_destroyed_nothing_has_a_deadline_too(golden: OpenGolden) -> None:
    recovery = golden("good", now=NOW)
    recovery.lock.acquire("restore run", lease_seconds=60, purpose="restore of golden")
    journal(recovery, Phase.OPENED)
    (found,) = facts(recovery).restores
    assert (found.running, found.destroyed) == (True, False)


def test_a_journal_that_cannot_be_read_is_a_restore_that_is_not_over(golden: OpenGolden) -> None:
    recovery = golden("good", now=NOW)
    journal(recovery, Phase.OPENED)
    recovery.repository.create(f"{recovery.layout.journal(RESTORE)}000000000002.json", b"junk")
    (found,) = facts(recovery).restores
    assert found.destroyed
    assert found.problem


def test_the_newest_check_counts_with_its_causes(golden: OpenGolden) -> None:
    recovery = golden("missing-segment", now=NOW)
    assert facts(recovery).check is None
    report = checked(recovery, "structure")
    found = facts(recovery).check
    assert found is not None
    assert found.causes == tuple(cause.value for cause in report.causes) == ("missing-file",)
    assert abs(found.at - NOW) <= 1000


def test_the_newest_drill_counts(golden: OpenGolden) -> None:
    recovery = golden("good", now=NOW)
    log = AppendLog(recovery.repository, recovery.layout.drills, DrillEntry)
    for run, succeeded in (("one", True), ("two", False)):
        log.append(
            DrillEntry(
                run=run,
                requested_by="airflow",
                began_at=NOW,
                restore_id=RESTORE,
                savepoint_id=SECOND,
                plan_hash="x",
                captured_at=SECOND_AT,
                reached=Phase.LOADED,
                rows=1,
                keys_compared=1,
                rpo_seconds=600.0,
                rto_seconds=None,
                succeeded=succeeded,
                left=(),
            )
        )
    found = facts(recovery).drill
    assert found is not None
    assert (found.run, found.succeeded, found.rpo_seconds) == ("two", False, 600.0)
    assert {(one.kind, one.run, one.succeeded) for one in runs(recovery, None, ())} == {
        (RunKind.DRILL, "two", False),
        (RunKind.DRILL, "one", True),
    }


def test_holds_are_seen_by_run_until_they_are_released(golden: OpenGolden) -> None:
    recovery = golden("good", now=NOW)
    topics = (TopicHold(topic="b", topic_id="2"), TopicHold(topic="a", topic_id="1"))
    for kind in ("applied", "released"):
        recovery.hold_log.append(
            HoldEntry(kind=kind, purpose=HoldPurpose.COPY, run="run 1", at=NOW, mark=1, topics=topics, clear=kind == "released")
        )
        assert [(one.run, one.topics) for one in facts(recovery).holds] == ([("run 1", ("a", "b"))] if kind == "applied" else [])


def test_a_quiesce_is_left_until_it_is_ended(golden: OpenGolden) -> None:
    recovery = golden("good", now=NOW)
    quiesce_record.begin(recovery, "run-1", QuiesceMode.PAUSE, ("one",))
    left = facts(recovery).quiesce
    assert left is not None
    assert (left.run, left.mode, left.instances) == ("run-1", "pause", ("one",))
    quiesce_record.end(recovery)
    assert facts(recovery).quiesce is None


def test_a_quarantine_waits_until_it_was_appended_or_given_up(golden: OpenGolden) -> None:
    recovery = golden("good", now=NOW)

    def pin(*, keep: bool) -> None:
        unfinished.pin_log(recovery).append(
            Pin(savepoint_id=SECOND, keep=keep, at=NOW, requested_by="me", reason="later input", restore_id=RESTORE)
        )

    log = quarantine_log(recovery, RESTORE)
    log.append(QuarantineEntry(kind="set-aside", at=NOW, run=RESTORE, savepoint_id=SECOND, moment=SECOND_AT))
    assert facts(recovery).quarantines == ()
    pin(keep=True)
    assert [one.restore_id for one in facts(recovery).quarantines] == [RESTORE]
    pin(keep=False)
    assert facts(recovery).quarantines == ()
    pin(keep=True)
    log.append(QuarantineEntry(kind="appended", at=NOW, run=RESTORE, savepoint_id=SECOND, moment=SECOND_AT))
    assert facts(recovery).quarantines == ()


def test_the_history_of_runs_has_restores_and_checks(golden: OpenGolden) -> None:
    recovery = golden("good", now=NOW)
    journal(recovery, Phase.OPENED, Phase.DESTROYING)
    checked(recovery, "structure")
    found = {one.kind: one for one in runs(recovery, None, ())}
    assert (found[RunKind.RESTORE].succeeded, found[RunKind.RESTORE].ended_at) == (False, None)
    assert not found[RunKind.RESTORE].running
    ticket = recovery.lock.acquire("restore run", lease_seconds=60, purpose="restore of golden")
    again = next(one for one in runs(recovery, None, facts(recovery).restores) if one.kind is RunKind.RESTORE)
    assert (again.running, again.outcome) == (True, "in phase destroying")
    recovery.lock.release(ticket)
    assert found[RunKind.CHECK].succeeded is True
    journal(recovery, Phase.CLOSED)
    restored = next(one for one in runs(recovery, None, ()) if one.kind is RunKind.RESTORE)
    assert (restored.succeeded, restored.outcome) == (False, "given up")


def owner(recovery: RecoveryContext, application_id: str, role: Role, other: str) -> None:
    log = ownership_log(recovery.repository, Layout(application_id))
    log.append(OwnershipEntry(role=role, other=other, run="cut-over 1", at=SECOND_AT, offsets={}, again={}, tail={}))


def ownership_kinds(recovery: RecoveryContext) -> list[str]:
    seen = replace(observed().repository or facts(recovery), ownership=facts(recovery).ownership)
    return [one.kind for one in judge(RULES, observed(repository=seen, application_id=recovery.application_id), DEFAULTS)]


def test_a_cut_over_that_died_between_its_two_records_is_seen_until_one_of_the_two_is_live(golden: OpenGolden) -> None:
    recovery = golden("good", now=NOW)
    me = recovery.application_id
    assert facts(recovery).ownership is None
    owner(recovery, me, Role.RETIRED, "orders-v2")
    assert ownership_kinds(recovery) == ["outputs-unowned"]
    owner(recovery, "orders-v2", Role.LIVE, me)
    assert ownership_kinds(recovery) == ["retired-runs"], "the example has a member"
    owner(recovery, "orders-v2", Role.STANDBY, me)
    assert ownership_kinds(recovery) == ["outputs-unowned"], "a roll-back that died"
    owner(recovery, me, Role.LIVE, "orders-v2")
    assert ownership_kinds(recovery) == []


def test_of_a_chain_of_upgrades_the_last_one_has_the_outputs(golden: OpenGolden) -> None:
    recovery = golden("good", now=NOW)
    me = recovery.application_id
    owner(recovery, me, Role.RETIRED, "orders-v2")
    owner(recovery, "orders-v2", Role.LIVE, me)
    owner(recovery, "orders-v2", Role.RETIRED, "orders-v3")
    assert ownership_kinds(recovery) == ["outputs-unowned"], "an upgrade that died half way"
    owner(recovery, "orders-v3", Role.LIVE, "orders-v2")
    assert ownership_kinds(recovery) == ["retired-runs"], "the example has a member"
    owner(recovery, "orders-v3", Role.RETIRED, "orders-v2")
    assert ownership_kinds(recovery) == ["outputs-unowned"], "a chain that leads back to itself has no end"


def test_a_record_of_who_writes_the_outputs_that_cannot_be_read_hides_nothing(golden: OpenGolden) -> None:
    recovery = golden("good", now=NOW)
    owner(recovery, recovery.application_id, Role.RETIRED, "../../elsewhere")
    assert ownership_kinds(recovery) == ["outputs-unowned"], "no such application is on record as live"
    recovery.repository.create(f"{recovery.layout.ownership}000000000002.json", b"{")
    found = facts(recovery)
    assert found.newest is not None
    assert ownership_kinds(recovery) == ["outputs-unowned"]


def test_savepoints_that_lack_a_file_are_told_of_once_a_copy_has_noticed_one(golden: OpenGolden) -> None:
    recovery = golden("good", now=NOW)
    shared = next(file.key for tp, file in recovery.savepoints.read(FIRST).files() if "changelog" in tp.topic)
    users = [one for one in (FIRST, SECOND) if shared in {file.key for _, file in recovery.savepoints.read(one).files()}]
    recovery.repository.delete([shared])
    before = facts(recovery).check
    assert before is None or not before.causes, "nobody has looked"
    report = note_lost_files(recovery, "run 3")
    assert [(found.key, list(found.savepoints)) for found in report.findings] == [(shared, users)]
    seen = facts(recovery)
    assert seen.check is not None
    assert (seen.check.causes, list(seen.check.savepoints)) == (("missing-file",), users)
    (told,) = [one for one in judge(RULES, observed(repository={"check": seen.check}), DEFAULTS) if one.kind == "check-failed"]
    assert all(one in told.text for one in users)
