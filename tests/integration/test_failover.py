"""An application goes to another cluster and home again, on two real brokers. What it has counted must be true of its input at each step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streams_recovery.cli import runs
from streams_recovery.cli.runner import Runner
from streams_recovery.core.archive.tick import ARCHIVER_LEASE_SECONDS
from streams_recovery.core.errors import Refused, SparkJobFailed, TargetNotEmpty
from streams_recovery.core.repository.sites import PRIMARY
from streams_recovery.core.restore.parts.move import MovePart
from streams_recovery.engine.submitter import Submitter
from streams_recovery.operations import restore
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.strategies import Failover
from tests.support.applications.archiver import archiving
from tests.support.applications.topic_records import processed
from tests.support.applications.two_sites import AtTwoSites, belongs_to, two_brokers
from tests.support.spark.session import InSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture
def sites(bootstrap: str, tmp_path: Path) -> Iterator[AtTwoSites]:
    with two_brokers(tmp_path, bootstrap) as found:
        yield found


@pytest.mark.deep
def test_it_moves_while_its_cluster_answers_and_is_saved_and_started_where_it_is(sites: AtTwoSites, in_session: Submitter) -> None:
    sites.worked("abcab")
    first = sites.savepoint(in_session)
    sites.start()
    report = sites.move("dr", in_session)
    assert (report.savepoint_id, report.part.move and (report.part.move.before, report.part.move.to, report.part.move.lost)) == (
        first,
        ("primary", "dr", False),
    )
    assert sites.runs_at() == ["dr"]
    assert belongs_to(sites) == ("dr", True, ())
    there = sites.at("dr")
    assert there.state() == there.truth() == {"a": 2, "b": 2, "c": 1}
    there.feed("cab")
    there.stop()
    there.start()
    assert there.state() == there.truth() == {"a": 3, "b": 3, "c": 2}
    # Savepoints follow by themselves, in a chain of their own.
    second = sites.savepoint(in_session)
    with sites.recovery() as recovery:
        saved = recovery.savepoints.read(second)
        assert (saved.parent_id, saved.cluster_id) == (None, recovery.cluster.cluster_id())
    assert sites.runs_at() == ["dr"]
    with pytest.raises(Refused, match="belongs to the site dr"):
        sites.at(PRIMARY).start()
    with pytest.raises(Refused, match="belongs to the site dr already"):
        sites.move("dr", in_session)


@pytest.mark.deep
def test_the_way_home_makes_inputs_again_that_the_savepoint_has_and_no_others(sites: AtTwoSites, in_session: Submitter) -> None:
    sites.worked("abcab")
    sites.savepoint(in_session)
    sites.move("dr", in_session)
    there, home = sites.at("dr"), sites.at(PRIMARY)
    there.feed("cab")
    there.stop()
    there.start()
    sites.savepoint(in_session)
    with pytest.raises(TargetNotEmpty, match=r"the input .* is here already: .*-0 \(5 records\). The savepoint has all of it, and more"):
        sites.move(PRIMARY, in_session)
    # Written at home after it was left: nobody has it.
    home.feed("z")
    with pytest.raises(Refused, match=r"does not have all that it holds \(.*-0: 1 records from offset 5 on\)"):
        sites.move(PRIMARY, in_session, replaced=True)
    assert (sites.runs_at(), home.end(sites.input)) == (["dr"], 6)
    # It is processed where the application runs, and then it is in the savepoint: behind the others, as it is at home.
    there.feed("z", at=home.stamps()[5:])
    there.stop()
    there.start()
    sites.savepoint(in_session)
    # It is not to be here yet. Whatever it does would be neither in the savepoint nor in what is restored.
    (sites.directory / "started").write_text("by hand")
    report = sites.move(PRIMARY, in_session, replaced=True)
    assert (report.part.move and (report.part.move.before, report.part.move.to)) == ("dr", PRIMARY)
    assert (sites.runs_at(), belongs_to(sites)) == ([PRIMARY], (PRIMARY, True, ()))
    assert home.end(sites.input) == 9
    assert home.state() == home.truth() == {"a": 3, "b": 3, "c": 2, "z": 1}
    home.feed("a")
    home.stop()
    home.start()
    assert home.state() == home.truth() == {"a": 4, "b": 3, "c": 2, "z": 1}


@pytest.mark.deep
def test_an_input_that_a_mirror_has_carried_there_is_read_on_where_the_same_record_stands(sites: AtTwoSites, in_session: Submitter) -> None:
    sites.worked("".join("abcd"[number % 4] for number in range(70)))
    sites.savepoint(in_session)
    sites.feed("dcba" * 15)
    there = sites.at("dr")
    with there.recovery() as recovery:
        recovery.cluster.create_topic(sites.input.topic, partitions=1, replication_factor=1, config={"retention.ms": "-1"})
    # It begins somewhere else, and has what came since the savepoint too.
    rows = sites.at(PRIMARY).rows(sites.input)
    there.feed("".join(key for key, _ in rows[10:]), at=sites.at(PRIMARY).stamps()[10:], values=[value for _, value in rows[10:]])
    sites.start()
    report = sites.move("dr", in_session)
    assert report.part.move is not None
    assert report.part.move.kept == (sites.input.topic,)
    assert there.committed() == 120
    assert there.state() == sites.at(PRIMARY).truth(130)
    with there.recovery() as recovery:
        assert recovery.groups.committed(sites.id, [sites.input])[sites.input] is not None


@pytest.mark.way("failover")
def test_beside_a_mirror_the_savepoint_counts_and_no_newer_cut(sites: AtTwoSites, in_session: InSession) -> None:
    """Only the savepoint has the records around an offset, by which its place in what a mirror has carried is found."""
    sites.configure(archive={"enabled": True, "interval": "PT1S", "state": True})
    home, there = sites.at(PRIMARY), sites.at("dr")
    with home.recovery() as recovery:
        recovery.cluster.create_topic(sites.changelog.topic, partitions=1, replication_factor=1, config={"cleanup.policy": "compact"})
        sites.feed("abcd" * 16)
        processed(recovery, {sites.changelog: [(b"a", b"15")]}, {sites.input: 60})
        sites.savepoint(in_session)
        with archiving(recovery, in_session) as beside:
            processed(recovery, {sites.changelog: [(b"a", b"16")]}, {sites.input: 64})
            beside.once(lambda found: found.cut is not None)
    request = Failover(reason="test", to="dr")
    with there.recovery() as recovery:
        alone = restore.plan(recovery, request)
        recovery.cluster.create_topic(sites.input.topic, partitions=1, replication_factor=1, config={"retention.ms": "-1"})
        there.feed("".join(key for key, _ in home.rows(sites.input)), at=home.stamps())
        beside_mirror = restore.plan(recovery, request)
    assert alone.part.state is not None
    assert beside_mirror.part.state is None
    assert beside_mirror.part.move is not None
    assert beside_mirror.part.move.kept == (sites.input.topic,)


@pytest.mark.deep
@pytest.mark.fault("F94")
@pytest.mark.timeout(900)
def test_the_archive_goes_on_at_the_new_site_although_the_archiver_of_the_lost_one_is_still_alive(
    sites: AtTwoSites, in_session: InSession
) -> None:
    sites.configure(archive={"enabled": True, "interval": "PT1S"})
    sites.worked("abcab")
    sites.savepoint(in_session)
    sites.start()
    with sites.at(PRIMARY).recovery() as home, archiving(home, in_session, patience=2, site=PRIMARY) as left:
        sites.feed("ab")
        left.upto(sites.input)
        sites.end_broker()
        report = sites.move("dr", in_session, lost=PRIMARY)
        assert report.part.move is not None
        there = sites.at("dr")
        assert there.end(sites.input) == 7, "what was archived behind the savepoint came along"
        there.feed("cab")
        sites.savepoint(in_session)
        # Its next question where the application belongs: once in a third of its lease, also while nothing succeeds.
        left.ahead += ARCHIVER_LEASE_SECONDS
        assert left.thread is not None
        left.thread.join(60)
        assert not left.thread.is_alive()
        with there.recovery() as recovery, archiving(recovery, in_session, site="dr") as begun:
            begun.upto(sites.input, 60)
            there.feed("c")
            fed = recovery.clock()
            begun.once(lambda found: found.safe_at is not None and found.safe_at >= fed, 60)
            assert recovery.clock() - fed < 60_000, "the recovery point is seconds again"


@pytest.mark.deep
def test_an_input_of_another_content_is_refused(sites: AtTwoSites, in_session: Submitter) -> None:
    sites.worked("abcab")
    sites.savepoint(in_session)
    there = sites.at("dr")
    with there.recovery() as recovery:
        recovery.cluster.create_topic(sites.input.topic, partitions=1, replication_factor=1, config={"retention.ms": "-1"})
    there.feed("xyz")
    with pytest.raises(Refused, match="has no proven place"):
        sites.move("dr", in_session, replaced=True)
    assert there.end(sites.input) == 3


@pytest.mark.deep
def test_a_lost_cluster_is_left_on_a_word_and_what_is_left_there_is_stopped_when_it_answers_again(
    sites: AtTwoSites, in_session: Submitter
) -> None:
    sites.worked("abcab")
    sites.savepoint(in_session)
    sites.start()
    sites.end_broker()
    with pytest.raises(Refused, match="nobody can prove that the application is stopped at the site primary"):
        sites.move("dr", in_session)
    with pytest.raises(Refused, match="'dr' is typed as the site that cannot be reached"):
        sites.move("dr", in_session, lost="dr")
    assert sites.runs_at() == [PRIMARY], "nothing was touched by what was refused"
    assert isinstance(sites.move("dr", in_session, lost=PRIMARY).part, MovePart)
    assert sites.runs_at() == ["dr"]
    assert belongs_to(sites) == ("dr", True, (PRIMARY,))
    assert sites.at("dr").state() == {"a": 2, "b": 2, "c": 1}
    # Its cluster still does not answer: nothing holds the new site up.
    sites.at("dr").stop()
    sites.at("dr").start()
    # Somebody starts it at home as soon as the cluster is back, and it would count the same input again.
    sites.restart()
    (sites.directory / "started").write_text("by hand")
    assert sites.runs_at() == [PRIMARY, "dr"]
    # While it is down where it belongs, nobody can tell which of the two is wanted.
    sites.at("dr").stop()
    sites.savepoint(in_session)
    assert (sites.runs_at(), belongs_to(sites)) == ([PRIMARY], ("dr", True, (PRIMARY,)))
    with pytest.raises(Refused, match=r"runs elsewhere \(primary: one"):
        sites.at("dr").start()
    sites.at(PRIMARY).stop()
    sites.at("dr").start()
    sites.savepoint(in_session)
    assert (sites.runs_at(), belongs_to(sites)) == (["dr"], ("dr", True, ()))


@pytest.mark.deep
def test_what_lives_on_at_a_site_that_answers_again_is_stopped_by_the_next_savepoint(sites: AtTwoSites, in_session: Submitter) -> None:
    sites.worked("abcab")
    sites.savepoint(in_session)
    sites.end_broker()
    sites.move("dr", in_session, lost=PRIMARY)
    sites.restart()
    (sites.directory / "started").write_text("by hand")
    assert sites.runs_at() == [PRIMARY, "dr"]
    sites.savepoint(in_session)
    assert sites.runs_at() == ["dr"]
    assert belongs_to(sites) == ("dr", True, ())


@pytest.mark.deep
def test_a_cluster_that_comes_back_in_the_middle_does_not_run_it_twice(sites: AtTwoSites, in_session: Submitter) -> None:
    sites.worked("abcab")
    sites.savepoint(in_session)
    sites.end_broker()

    class Returning:
        """Runs jobs, and brings the lost site back to life right before the records are loaded."""

        def submit(self, job: Any) -> Any:
            if job.name == "restore":
                sites.restart()
                (sites.directory / "started").write_text("its machine came back too")
            return in_session.submit(job)

    sites.move("dr", Returning(), lost=PRIMARY)
    assert sites.runs_at() == ["dr"]
    assert belongs_to(sites) == ("dr", True, ())
    assert sites.at("dr").state() == sites.at("dr").truth()


@pytest.mark.deep
def test_what_fails_before_it_replaces_anything_goes_on_at_home(sites: AtTwoSites, in_session: Submitter) -> None:
    sites.worked("abcab")
    sites.savepoint(in_session)
    sites.start()
    there = sites.at("dr")
    request = Failover(reason="test", to="dr")
    with there.recovery() as recovery:
        planned = restore.plan(recovery, request)
        ticket = restore.open_restore(recovery, request, run_id="test", requested_by="me", approved_hash=planned.hash)
        restore.stop(recovery, ticket)
        assert sites.runs_at() == []
        newest = next(recovery.sites.log.readable_back())
        assert (newest.site, newest.arrived, recovery.sites.current()) == ("dr", False, PRIMARY)
        assert restore.abandon(recovery, ticket).restarted
    assert sites.runs_at() == [PRIMARY]
    # The run is killed there: the next savepoint brings the application back, at home.
    with there.recovery() as recovery:
        ticket = restore.open_restore(recovery, request, run_id="killed", requested_by="me", approved_hash=planned.hash)
        restore.stop(recovery, ticket)
        recovery.lock.release(ticket.lock)
    assert sites.runs_at() == []
    sites.savepoint(in_session)
    assert sites.runs_at() == [PRIMARY]


@pytest.mark.deep
def test_what_fails_later_is_resumed_at_the_new_site(sites: AtTwoSites, in_session: Submitter) -> None:
    sites.worked("abcab")
    sites.savepoint(in_session)
    sites.start()

    class Failing:
        """Loads nothing."""

        def submit(self, job: Any) -> Any:
            if job.name == "restore":
                raise SparkJobFailed("no executor", next_step="look at its log")
            return in_session.submit(job)

    def failing(recovery: RecoveryContext) -> Runner:
        return Runner(recovery=recovery, submitter=Failing(), say=print, sleep=lambda _: None)

    with sites.at("dr").recovery() as recovery, pytest.raises(SparkJobFailed):
        requester = runs.Requester(run_id="test", requested_by="me")
        runs.restore_in_place(failing(recovery), Failover(reason="test", to="dr"), requester, approve=lambda _: True)
    assert sites.runs_at() == []
    assert belongs_to(sites) == ("dr", False, ())
    with pytest.raises(Refused, match="belongs to the site dr"):
        sites.at(PRIMARY).start()
    with pytest.raises(Refused, match="failed after it had begun to replace topics"):
        sites.savepoint(in_session)
    with sites.recovery() as recovery:
        runner = Runner(recovery=recovery, submitter=in_session, say=print)
        requester = runs.Requester(run_id="again", requested_by="me")
        report = runs.resume(runner, "latest", requester, take_over=False, approve=lambda _: True)
    assert report.part.move is not None
    assert sites.runs_at() == ["dr"]
    assert belongs_to(sites) == ("dr", True, ())
    assert sites.at("dr").state() == sites.at("dr").truth() == {"a": 2, "b": 2, "c": 1}
