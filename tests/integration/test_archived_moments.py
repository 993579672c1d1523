"""Restores to a moment that begin from the cut that an archiver took before it, on a real broker."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from streams_recovery.core.approval import approval
from streams_recovery.core.archive.log import ArchiveEvent
from streams_recovery.core.archive.tick import JOIN_SECONDS
from streams_recovery.core.jobs.spec import CutBy
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.journal import JournalEntry, Phase
from streams_recovery.core.restore.point_in_time import AsOf
from streams_recovery.core.words import new_id
from streams_recovery.operations import archive, maintenance, restore
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.unfinished import journal_of
from tests.support.applications.archived_work import cut_at, read_keys, work
from tests.support.applications.archiver import archiving, with_archive
from tests.support.applications.restore_steps import loaded, opened, saved, verified
from tests.support.applications.savepoint_steps import published
from tests.support.applications.second_application import second_application
from tests.support.applications.small import Small, asked
from tests.support.applications.topic_records import produce
from tests.support.spark.session import InSession

pytestmark = pytest.mark.spark


def test_a_moment_between_two_looks_has_the_state_of_the_look_before_it(small: Small, in_session: InSession) -> None:
    first = with_archive(small, state=True)
    recovery = first.recovery
    base = published(first)
    cuts, moments = [], []
    with archiving(recovery, in_session) as beside:
        for number in (1, 2, 3):
            work(first, number)
            found = cut_at(beside, first).cut
            assert found is not None
            cuts.append(found.captured_at)
            moments.append(apart(recovery))
        # It is not processed by the look behind it.
        produce(recovery, first.input, 1)
        moments.append(apart(recovery))
        work(first, 5)
        cut_at(beside, first)
        beside.upto(first.input)
    assert archive.read_archive(recovery).newest[first.changelog].files == 1, "joined across the ends of cuts"
    source = recovery.application_id
    with second_application(first) as other:
        copy = TopicPartition(f"{first.input.topic}.past", 0)
        store = TopicPartition(first.changelog.topic.replace(source, other.application_id), 0)
        unread = TopicPartition(first.tail.topic.replace(source, other.application_id), 0)

        def request(at: int, **more: object) -> restore.RestoreRequest:
            return asked(other, source=source, as_of=AsOf(moment=at, by=CutBy.TIMESTAMP), **more)

        plans = [restore.plan(other, request(at)) for at in moments]
        # The newest of several looks at one state.
        states = [planned.part.state.at if planned.part.state is not None else 0 for planned in plans]
        assert all(at >= cut for at, cut in zip(states, [*cuts, cuts[-1]], strict=True))
        read = {one.cut.captured_at: one.cut.inputs[0].committed for one in archive.kept_cuts(recovery)}
        assert [known.offset for at in states if (known := read[at]) is not None] == [6, 7, 8, 8]
        assert [planned.observed.records_to_catch_up for planned in plans] == [0, 0, 0, 1]
        assert {planned.savepoint_id for planned in plans} == {base.savepoint_id}
        assert "when the archiver took an exact cut behind the savepoint" in plans[0].text
        before = restore.plan(other, request(moments[3], state_entry=0))
        assert (before.part.state, before.observed.records_to_catch_up) == (None, 5), "from the savepoint, which had left one"
        named = restore.plan(other, request(moments[3], savepoint=base.savepoint_id))
        assert named.part.state is None, "one that is named is meant as it is"
        journal_of(recovery, new_id(moments[3], "another")).append(JournalEntry(phase=Phase.DESTROYING, at=moments[3], created=()))
        since = restore.plan(other, request(moments[3]))
        assert (since.part.state, since.observed.records_to_catch_up) == (None, 5), "a restore has given up what was at the cuts"
        wanted = restore.as_approved(request(moments[1]), approval(plans[1]))
        ticket = opened(other, wanted)
        assert restore.plan(other, wanted.pinned(other, plans[1])).hash == plans[1].hash, "as a resume plans it, and before that restore"
        assert restore.stored_plan(other, ticket).hash == plans[1].hash
        saved(other, ticket)
        loaded(other, ticket)
        assert verified(other, ticket).rows_compared > 0
        restore.set_offsets(other, ticket)
        assert read_keys(other, store) == [b"k0", b"k1", b"k2", b"k3", b"k0", b"1", b"k0", b"2"]
        assert read_keys(other, unread) == [b"k1", b"k2", b"k3", b"1", b"2"]
        assert other.groups.last_committed(other.application_id)[copy].offset == 7
        assert other.cluster.high_watermarks([copy])[copy] == 7
        restore.abandon(other, ticket)


def apart(recovery: RecoveryContext) -> int:
    """A moment that no record is near: clients may round their clock."""
    time.sleep(0.1)
    found = recovery.clock()
    time.sleep(0.1)
    return found


@pytest.mark.deep
def test_cuts_are_kept_until_a_newer_savepoint_and_a_join_behind_it(small: Small, in_session: InSession) -> None:
    archived = with_archive(small, state=True)
    recovery = archived.recovery
    published(archived)
    with archiving(recovery, in_session) as beside:
        for number in (1, 2):
            work(archived, number)
            cut_at(beside, archived)
    kept = list(archive.kept_cuts(recovery))
    assert len(kept) >= 2
    assert [one.cut.captured_at for one in kept] == sorted((one.cut.captured_at for one in kept), reverse=True)
    tails = {key for one in kept for key in one.cut.keys}
    later = replace(recovery, clock=lambda: recovery.clock() + 30 * 86_400_000)
    assert tails
    assert not tails & {*maintenance.plan_expiry(later).files}, "expiry is told of them"
    with archiving(recovery, in_session) as beside:
        beside.once(lambda found: found.runs)
        published(archived)
        assert len(list(archive.kept_cuts(recovery))) >= len(kept), "a moment between the last two savepoints has them"
        work(archived, 3)
        cut = cut_at(beside, archived).cut
        beside.ahead += JOIN_SECONDS + 1
        beside.once(lambda found: found.event is ArchiveEvent.JOINED)
    assert cut is not None
    assert {one.cut.captured_at for one in archive.kept_cuts(recovery)} == {*archive.read_archive(recovery).looks}
    assert min(archive.read_archive(recovery).looks) <= cut.captured_at
    assert max(one.cut.captured_at for one in kept) < min(archive.read_archive(recovery).looks), (
        "those behind the savepoint before are gone"
    )
