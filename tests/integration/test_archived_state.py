"""Exact cuts that an archiver takes of an application at work, on a real broker: what they hold, when there is none, and restores that begin from them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streams_recovery.core.approval import approval
from streams_recovery.core.archive.log import Archive, ArchiveEvent
from streams_recovery.core.archive.state import at_cut
from streams_recovery.core.archive.tick import JOIN_SECONDS, REPLACED_SECONDS
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.waiting import poll
from streams_recovery.operations import archive, maintenance, restore
from tests.support.applications.archived_work import cut_at, read_keys, work
from tests.support.applications.archiver import Archiver, archiving, with_archive
from tests.support.applications.restore_steps import loaded, opened, saved, verified
from tests.support.applications.savepoint_steps import published
from tests.support.applications.small import Small, asked, lose, rows_of
from tests.support.applications.topic_records import aborted, add_partitions, await_markers, processed, produce, transaction
from tests.support.kafka.cleaner import EAGER, await_cleaner, updated
from tests.support.kafka.topic_settings import alter
from tests.support.repository.golden import checked
from tests.support.spark.session import InSession

pytestmark = pytest.mark.spark


@pytest.fixture
def archived(small: Small) -> Small:
    return with_archive(small, state=True)


def newest(found: Archive, base: Manifest) -> Manifest:
    """The savepoint at the newest cut."""
    cut = at_cut(base, found)
    assert isinstance(cut, Manifest), cut
    return cut


@pytest.mark.deep
def test_a_cut_has_all_that_was_processed_by_then(archived: Small, in_session: InSession) -> None:
    recovery = archived.recovery
    base = published(archived)
    with archiving(recovery, in_session) as beside:
        aborted(recovery, archived.changelog)
        for number in (1, 2, 3):
            work(archived, number)
            found = cut_at(beside, archived)
        there = newest(found, base)
    assert [row["key"] for row in rows_of(recovery, there, archived.changelog)] == [
        b"k0",
        b"k1",
        b"k2",
        b"k3",
        b"k0",
        b"1",
        b"k0",
        b"2",
        b"k0",
        b"3",
    ]
    assert there.committed()[archived.input].offset == 8
    assert [row["key"] for row in rows_of(recovery, there, archived.tail)][-3:] == [b"1", b"2", b"3"]


@pytest.mark.deep
@pytest.mark.fault("F98")
@pytest.mark.parametrize("used", ["by nobody", "now", "since before a hand-over"])
def test_unread_records_of_a_cut_that_an_opened_restore_is_promised_stay_when_they_are_no_cut_of_the_newest_savepoint_any_more(
    archived: Small, in_session: InSession, used: str
) -> None:
    recovery = archived.recovery
    published(archived)
    with archiving(recovery, in_session) as beside:
        work(archived, 1)
        cut = cut_at(beside, archived).cut
        assert cut is not None
        tails = {tail.copied.file.key for tail in cut.tails if tail.copied.file is not None}
        assert tails
        if used != "by nobody":
            assert archive.keep_files(recovery, "a restore") is not None
        if used != "since before a hand-over":
            replaced_an_hour_ago(beside, archived, tails, used)
    if used == "since before a hand-over":
        with archiving(recovery, in_session) as beside:
            replaced_an_hour_ago(beside, archived, tails, used)
    if used != "by nobody":
        assert tails <= archive.archived_files(recovery), "expiry is told of them"


def replaced_an_hour_ago(beside: Archiver, small: Small, tails: set[str], used: str) -> None:
    """A savepoint replaces the cut of these, files are joined behind it, and an hour passes."""
    work(small, 2)
    assert not tails & cut_at(beside, small).keys
    published(small)
    work(small, 3)
    cut_at(beside, small)
    beside.ahead += JOIN_SECONDS + 1
    beside.once(lambda now: now.event is ArchiveEvent.JOINED)
    beside.ahead += REPLACED_SECONDS + 1
    work(small, 4)
    cut_at(beside, small)
    work(small, 5)
    cut_at(beside, small)

    def there() -> set[str]:
        return tails & {file.key for file in small.recovery.repository.listed(small.recovery.layout.segments)}

    if used == "by nobody":
        assert poll(lambda: not there() or None, seconds=20, interval=0.2), "nobody needs them any more"
    else:
        assert there() == tails


@pytest.mark.deep
@pytest.mark.fault("F6")
def test_a_lost_cluster_comes_back_at_the_newest_cut(archived: Small, in_session: InSession) -> None:
    recovery = archived.recovery
    base = published(archived)
    with archiving(recovery, in_session) as beside:
        for number in (1, 2):
            work(archived, number)
        cut_at(beside, archived)
        produce(recovery, archived.input, 3)
        beside.upto(archived.input)
    lose(archived)
    wanted = asked(recovery)
    planned = restore.plan(recovery, wanted)
    assert planned.part.state is not None
    assert base.captured_at < planned.part.state.at == planned.captured_at
    assert "when the archiver took an exact cut behind the savepoint" in planned.text
    assert (planned.observed.records_to_catch_up, restore.plan(recovery, replace(wanted, state_entry=0)).observed.records_to_catch_up) == (
        3,
        6,
    )
    named = restore.plan(recovery, asked(recovery, savepoint=base.savepoint_id))
    assert (named.part.state, named.captured_at) == (None, base.captured_at), "one that is named is meant as it is"
    ticket = opened(recovery, restore.as_approved(wanted, approval(planned)))
    saved(recovery, ticket)
    loaded(recovery, ticket)
    assert verified(recovery, ticket).rows_compared > 0
    restore.set_offsets(recovery, ticket)
    assert read_keys(recovery, archived.changelog) == [b"k0", b"k1", b"k2", b"k3", b"k0", b"1", b"k0", b"2"]
    assert read_keys(recovery, archived.tail) == [b"k1", b"k2", b"k3", b"1", b"2"]
    assert recovery.groups.last_committed(recovery.application_id)[archived.input].offset == 7
    assert recovery.cluster.high_watermarks([archived.input])[archived.input] == 10
    restore.abandon(recovery, ticket)
    lose(archived)
    again = restore.plan(recovery, asked(recovery))
    assert again.part.state is None, "whatever it was made for, what was before it was given up"
    assert any(f"restore {ticket.restore_id} replaced the state since" in warning for warning in again.warnings)


@pytest.mark.deep
def test_what_was_approved_is_restored_whatever_cuts_there_are_since(archived: Small, in_session: InSession) -> None:
    recovery = archived.recovery
    published(archived)
    with archiving(recovery, in_session) as beside:
        work(archived, 1)
        cut_at(beside, archived)
        wanted = asked(recovery, replace=True)
        planned = restore.plan(recovery, wanted)
        assert planned.part.state is not None
        work(archived, 2)
        cut_at(beside, archived)
        later = restore.plan(recovery, wanted)
        assert later.part.state is not None
        assert later.part.state.at > planned.part.state.at
        assert later.hash != planned.hash
        again = restore.plan(recovery, restore.as_approved(wanted, approval(planned)))
    assert again.hash == planned.hash
    ticket = restore.open_restore(recovery, wanted, run_id="r", requested_by="test", approved_hash=approval(planned))
    assert restore.stored_plan(recovery, ticket).part.state == planned.part.state
    restore.stop(recovery, ticket)
    saved(recovery, ticket)
    loaded(recovery, ticket)
    verified(recovery, ticket)
    restore.set_offsets(recovery, ticket)
    assert read_keys(recovery, archived.changelog) == [b"k0", b"k1", b"k2", b"k3", b"k0", b"1"]
    assert recovery.groups.last_committed(recovery.application_id)[archived.input].offset == 6, (
        "the input stays, and is read again from there"
    )
    assert recovery.cluster.high_watermarks([archived.input])[archived.input] == 7
    restore.abandon(recovery, ticket)


@pytest.mark.fault("F70")
def test_what_the_log_cleaner_came_to_first_is_no_state(archived: Small, in_session: InSession) -> None:
    recovery = archived.recovery
    base = published(archived)
    with archiving(recovery, in_session) as beside:
        work(archived, 1)
        before = cut_at(beside, archived)
    alter(recovery.cluster, {archived.changelog.topic: dict(EAGER)})
    updated(recovery, archived.changelog)
    await_cleaner(recovery)
    with archiving(recovery, in_session) as beside:
        produce(recovery, archived.input, 2)
        beside.upto(archived.input)
        work(archived, 2)
        beside.upto(archived.input)
        found = archive.read_archive(recovery)
        assert found.cut == before.cut, "inputs are archived, and the last cut stays"
        assert found.newest[archived.changelog].end == before.newest[archived.changelog].end
    alter(recovery.cluster, {archived.changelog.topic: {"cleanup.policy": "compact", "segment.ms": "604800000"}})
    after = published(archived)
    with archiving(recovery, in_session) as beside:
        work(archived, 3)
        again = cut_at(beside, archived)
    assert newest(before, base).captured_at < after.captured_at < newest(again, after).captured_at


@pytest.mark.fault("F69")
def test_an_open_transaction_keeps_no_input_back(archived: Small, in_session: InSession) -> None:
    recovery = archived.recovery
    published(archived)
    with archiving(recovery, in_session) as beside, transaction(recovery) as producer:
        producer.produce(archived.changelog.topic, b"1", b"k0", archived.changelog.partition)
        producer.flush(30)
        produce(recovery, archived.input, 2)
        found = beside.upto(archived.input)
        assert found.cut is None
        producer.commit_transaction(30)
        await_markers(recovery, [archived.changelog])
        assert cut_at(beside, archived).cut is not None


@pytest.mark.fault("F71")
def test_topics_that_the_savepoint_does_not_know_are_no_part_of_a_cut(archived: Small, in_session: InSession) -> None:
    recovery, name = archived.recovery, archived.recovery.application_id
    base = published(archived)
    with archiving(recovery, in_session) as beside:
        work(archived, 1)
        first = cut_at(beside, archived)
        more = f"{name}-more-changelog"
        recovery.cluster.create_topic(more, partitions=1, replication_factor=1, config={"cleanup.policy": "compact"})
        work(archived, 2)
        assert beside.upto(archived.input).cut == first.cut
        recovery.cluster.delete_topics([more])
        second = cut_at(beside, archived)
        add_partitions(recovery, archived.changelog.topic, 2)
        work(archived, 3)
        assert beside.upto(archived.input).cut == second.cut
        recovery.cluster.delete_topics([archived.changelog.topic])
        produce(recovery, archived.input, 1)
        assert beside.upto(archived.input).cut == second.cut, "inputs are archived whatever becomes of the state"
    assert newest(second, base).committed()[archived.input].offset == 7


def test_there_is_no_cut_of_an_application_that_has_committed_offsets_on_an_output(archived: Small, in_session: InSession) -> None:
    recovery = archived.recovery
    published(archived)
    with archiving(recovery, in_session) as beside:
        work(archived, 1)
        first = cut_at(beside, archived)
        processed(recovery, {}, {archived.output: 1})
        work(archived, 2)
        other = poll(lambda: archive.read_archive(recovery).cut != first.cut or None, seconds=6, interval=0.2)
        assert not other, "what it wrote there since is its input too"


@pytest.mark.deep
def test_a_cut_is_kept_by_whatever_joins_and_removes_files(archived: Small, in_session: InSession) -> None:
    recovery = archived.recovery
    base = published(archived)
    with archiving(recovery, in_session) as beside:
        for number in (1, 2):
            work(archived, number)
            cut_at(beside, archived)
    ended = archive.read_archive(recovery)
    there = newest(ended, base)
    assert [one.file.rows for one in ended.newest[archived.changelog].ranges if one.file is not None] == [4], "joined at the end"
    assert [row["value"] for row in rows_of(recovery, there, archived.changelog)][-2:] == [b"2", b"2"]
    later = replace(recovery, clock=lambda: recovery.clock() + 30 * 86_400_000)
    assert not {file.key for _, file in there.files()} & {*maintenance.plan_expiry(later).files}
    assert ended.keys <= {*recovery.repository.keys(recovery.layout.segments)}
    after = published(archived)
    assert checked(recovery, "full").good
    with archiving(recovery, in_session) as beside:
        beside.once(lambda found: found.runs)
    assert archive.read_archive(recovery).cut is None, "the savepoint is newer"
    assert at_cut(after, ended) is None
