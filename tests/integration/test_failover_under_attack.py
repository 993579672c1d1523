"""What a forged record, a site that comes and goes, or a run that was overtaken by a failover cannot do to an application at two sites."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streams_recovery.cli import runs
from streams_recovery.cli.runner import Runner
from streams_recovery.core.errors import PlanChanged, RecoveryError, Refused, SparkJobFailed
from streams_recovery.core.jobs.spec import CutBy
from streams_recovery.core.kafka_types import QuiesceMode
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.repository.sites import PRIMARY, Fence, SiteEntry
from streams_recovery.core.restore.point_in_time import AsOf
from streams_recovery.core.restore.request import NO_STATE, Safeguards
from streams_recovery.engine.submitter import Submitter
from streams_recovery.operations import quiesce_record, restore, savepoint, topic_holds
from streams_recovery.operations.restore import load
from streams_recovery.operations.restore.open import note
from streams_recovery.operations.restore.strategies import AsOfMoment, Failover, FromSavepoint
from streams_recovery.operations.savepoint import SavepointRequest
from streams_recovery.workflows.restore import COPY_STATE, KEEP_STATE, OPEN_RESTORE, SAVE_STATE
from tests.support.applications.counting import ZERO, Counting
from tests.support.applications.two_sites import AtTwoSites, belongs_to, two_brokers

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture
def sites(bootstrap: str, tmp_path: Path) -> Iterator[AtTwoSites]:
    with two_brokers(tmp_path, bootstrap) as found:
        yield found


class Failing:
    """Loads nothing."""

    def __init__(self, submitter: Submitter) -> None:
        self.submitter = submitter

    def submit(self, job: Any) -> Any:
        if job.name == "restore":
            raise SparkJobFailed("no executor", next_step="look at its log")
        return self.submitter.submit(job)


def forged(sites: AtTwoSites, site: str, *fenced: str) -> None:
    """An entry that nobody but its writer knows of."""
    with sites.at(PRIMARY).recovery() as recovery:
        fences = tuple(Fence(site=one, cluster_id="", since=1, run="forged") for one in fenced)
        recovery.sites.log.append(
            SiteEntry(site=site, cluster_id="", arrived=True, before=PRIMARY, run="forged", at=1, requested_by="", reason="", fences=fences)
        )


@pytest.mark.deep
def test_an_attempt_that_was_given_up_does_not_hide_what_runs(sites: AtTwoSites, in_session: Submitter) -> None:
    sites.worked("abcab")
    sites.savepoint(in_session)
    sites.start()
    request = Failover(reason="test", to="dr")
    with sites.at("dr").recovery() as recovery:
        planned = restore.plan(recovery, request)
        assert planned.observed.instances
        ticket = restore.open_restore(recovery, request, run_id="test", requested_by="me", approved_hash=planned.hash)
        restore.stop(recovery, ticket)
        assert restore.abandon(recovery, ticket).restarted
        assert restore.plan(recovery, request).observed.instances == planned.observed.instances


@pytest.mark.deep
def test_a_site_that_is_lost_after_an_attempt_needs_the_word_again(sites: AtTwoSites, in_session: Submitter) -> None:
    sites.worked("abcab")
    sites.savepoint(in_session)
    sites.start()
    request = Failover(reason="test", to="dr")
    with sites.at("dr").recovery() as recovery:
        planned = restore.plan(recovery, request)
        ticket = restore.open_restore(recovery, request, run_id="test", requested_by="me", approved_hash=planned.hash)
        restore.stop(recovery, ticket)
        restore.abandon(recovery, ticket)
        sites.end_broker()
        with pytest.raises(Refused, match="nobody can prove"):
            restore.plan(recovery, request)


@pytest.mark.deep
def test_a_failover_that_is_resumed_remembers_the_site_that_it_left(sites: AtTwoSites, in_session: Submitter) -> None:
    sites.worked("abcab")
    sites.savepoint(in_session)
    sites.end_broker()
    with pytest.raises(SparkJobFailed):
        sites.move("dr", Failing(in_session), lost=PRIMARY)
    with sites.recovery() as recovery:
        runner = Runner(recovery=recovery, submitter=in_session, say=print, sleep=lambda _: None)
        runs.resume(runner, "latest", runs.Requester(run_id="again", requested_by="me"), take_over=False, approve=lambda _: True)
        entry = recovery.sites.entry()
        assert entry is not None
        assert (entry.before, len(entry.fences)) == (PRIMARY, 1)


@pytest.mark.deep
def test_a_site_that_was_proven_down_and_then_goes_away_holds_no_resume_up(sites: AtTwoSites, in_session: Submitter) -> None:
    sites.worked("abcab")
    sites.savepoint(in_session)
    with pytest.raises(SparkJobFailed):
        sites.move("dr", Failing(in_session))
    sites.end_broker()
    with sites.recovery() as recovery:
        runner = Runner(recovery=recovery, submitter=in_session, say=print, sleep=lambda _: None)
        runs.resume(runner, "latest", runs.Requester(run_id="again", requested_by="me"), take_over=False, approve=lambda _: True)
    assert belongs_to(sites) == ("dr", True, (PRIMARY,))


@pytest.mark.deep
def test_an_input_that_was_carried_there_again_is_another_plan(sites: AtTwoSites, in_session: Submitter) -> None:
    sites.worked("".join("abcd"[number % 4] for number in range(70)))
    sites.savepoint(in_session)
    there, home = sites.at("dr"), sites.at(PRIMARY)
    rows, stamps = home.rows(sites.input), home.stamps()

    def carry(first: int) -> None:
        with there.recovery() as recovery:
            recovery.cluster.create_topic(sites.input.topic, partitions=1, replication_factor=1, config={"retention.ms": "-1"})
        there.feed("".join(key for key, _ in rows[first:]), at=stamps[first:], values=[value for _, value in rows[first:]])

    carry(10)
    request = Failover(reason="test", to="dr")
    with there.recovery() as recovery:
        planned = restore.plan(recovery, request)
        ticket = restore.open_restore(recovery, request, run_id="test", requested_by="me", approved_hash=planned.hash)
        restore.stop(recovery, ticket)
        begun = restore.save_state(recovery, ticket)
        restore.keep_state(recovery, ticket, begun, None)
        # The mirror begins anew, and carries more than before.
        recovery.cluster.delete_topics([sites.input.topic])
        carry(0)
        with pytest.raises(PlanChanged):
            restore.prepare(recovery, ticket)


@pytest.mark.deep
def test_what_comes_to_an_input_while_a_deletion_is_repeated_is_not_deleted(
    sites: AtTwoSites, in_session: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    sites.worked("abcab")
    sites.savepoint(in_session)
    sites.move("dr", in_session)
    # Home is behind, so nobody can read on there.
    sites.at("dr").feed("cab")
    sites.at("dr").stop()
    sites.at("dr").start()
    sites.savepoint(in_session)
    home = sites.at(PRIMARY)
    request = Failover(reason="test", to=PRIMARY, safeguards=Safeguards(replace=True, confirm=sites.id))
    with home.recovery() as recovery:
        planned = restore.plan(recovery, request)
        ticket = restore.open_restore(recovery, request, run_id="test", requested_by="me", approved_hash=planned.hash)
        restore.stop(recovery, ticket)
        runner = Runner(recovery=recovery, submitter=in_session, say=print)
        assert runner.take((SAVE_STATE, COPY_STATE, KEEP_STATE), {OPEN_RESTORE.name: ticket}).error is None
        note(recovery, ticket, Phase.DESTROYING)  # killed right behind this line

        def fed(*_: Any) -> Any:
            home.feed("q")

        monkeypatch.setattr(load, "set_aside", fed)
        with pytest.raises(PlanChanged):
            restore.prepare(recovery, ticket)
        assert home.end(sites.input) == 6


@pytest.mark.deep
def test_a_run_that_was_overtaken_by_a_failover_touches_nothing(sites: AtTwoSites, in_session: Submitter) -> None:
    sites.worked("abcab")
    sites.savepoint(in_session)
    request = FromSavepoint(reason="test", safeguards=Safeguards(replace=True, confirm=sites.id))
    with sites.recovery() as early:
        planned = restore.plan(early, request)
        sites.move("dr", in_session)
        with pytest.raises(Refused, match="belongs to the site dr"):
            savepoint.begin(early, SavepointRequest(run_id="a", requested_by="me", reason="", mode=None))
        with pytest.raises(Refused, match="belongs to the site dr"):
            restore.open_restore(early, request, run_id="test", requested_by="me", approved_hash=planned.hash)


@pytest.mark.deep
def test_a_savepoint_does_not_leave_an_application_down_for_a_forged_entry(sites: AtTwoSites, in_session: Submitter) -> None:
    section = sites.sections["sites"]
    sites.configure(sites={})
    sites.worked("abcab")
    sites.start()
    forged(sites, "dr")
    with contextlib.suppress(RecoveryError):
        sites.savepoint(in_session)
    assert sites.runs_at() == [PRIMARY]
    sites.configure(sites=section)


@pytest.mark.deep
def test_a_mirrored_input_needs_no_archive_while_the_old_cluster_answers(sites: AtTwoSites, in_session: Submitter) -> None:
    sites.configure(backup={"survive_cluster_loss": False, "consistency": {"mode": "stop"}})
    sites.worked("".join("abcd"[number % 4] for number in range(70)))
    sites.savepoint(in_session)
    there, home = sites.at("dr"), sites.at(PRIMARY)
    rows, stamps = home.rows(sites.input), home.stamps()
    with there.recovery() as recovery:
        for tp in (sites.input, sites.output):
            recovery.cluster.create_topic(tp.topic, partitions=1, replication_factor=1, config={"retention.ms": "-1"})
    there.feed("".join(key for key, _ in rows[10:]), at=stamps[10:], values=[value for _, value in rows[10:]])
    sites.move("dr", in_session)
    assert there.committed() == 60


@pytest.mark.deep
def test_what_a_failover_has_made_under_another_name_is_no_copy_to_be_made_again(sites: AtTwoSites, in_session: Submitter) -> None:
    there = f"primary.{sites.input.topic}"
    program = Counting(bootstrap=sites.dr, directory=sites.directory, id=sites.id).programs("started-dr", source=there)
    site = {"connection": "kafka_dr", "runs": {"kind": "command", "command": program}, "topic_map": {sites.input.topic: there}}
    sites.configure(sites={"dr": site})
    sites.worked("abcab")
    sites.savepoint(in_session)
    sites.move("dr", in_session)
    request = AsOfMoment(
        reason="test",
        savepoint=NO_STATE,
        as_of=AsOf(moment=ZERO + 2000, by=CutBy.TIMESTAMP),
        safeguards=Safeguards(replace=True, delete=(sites.changelog.topic,), confirm=sites.id),
    )
    with sites.recovery() as recovery:
        assert recovery.site == "dr"
        with pytest.raises(Refused, match="holds records and is not the topic of the savepoint"):
            restore.plan(recovery, request)


@pytest.mark.deep
def test_forged_records_stop_nothing_and_start_nothing(sites: AtTwoSites, in_session: Submitter) -> None:
    sites.worked("abcab")
    sites.savepoint(in_session)
    sites.start()
    sites.move("dr", in_session)
    assert sites.runs_at() == ["dr"]
    forged(sites, PRIMARY, "dr")
    with sites.at(PRIMARY).recovery() as recovery:
        quiesce_record.begin(recovery, "forged", QuiesceMode.STOP, ("one",))
    with pytest.raises(Refused, match="runs elsewhere"):
        sites.savepoint(in_session)
    assert sites.runs_at() == ["dr"]


@pytest.mark.deep
def test_holds_at_the_site_that_is_left_stay_on_record(sites: AtTwoSites, in_session: Submitter) -> None:
    # Not long enough ago to expire yet, and too long to be let go by a restore.
    soon = int(time.time() * 1000) - ZERO + 43_200_000
    with sites.recovery() as recovery:
        for tp in (sites.input, sites.output):
            recovery.cluster.delete_topics([tp.topic])
            recovery.cluster.create_topic(tp.topic, partitions=1, replication_factor=1, config={"retention.ms": str(soon)})
    sites.worked("abcab")
    sites.savepoint(in_session)
    sites.move("dr", in_session)
    there = sites.at("dr")
    with there.recovery() as recovery:
        held = {one.hold.topic for one in topic_holds.outstanding(recovery)}
    assert sites.input.topic in held
    sites.savepoint(in_session)
    sites.move(PRIMARY, in_session, replaced=True)
    with there.recovery() as recovery:
        settings = recovery.cluster.describe_topics([sites.input.topic])[sites.input.topic].config
        dr_ids = {t.topic_id for t in recovery.cluster.describe_topics(held).values()}
        on_record = {one.hold.topic for one in topic_holds.outstanding(recovery) if one.hold.topic_id in dr_ids}
    assert settings.get("retention.ms") == str(soon) or sites.input.topic in on_record, settings


@pytest.mark.deep
def test_home_is_saved_before_it_is_replaced_after_a_failover_that_failed(sites: AtTwoSites, in_session: Submitter) -> None:
    sites.worked("abcab")
    sites.savepoint(in_session)
    sites.worked("zz")
    with pytest.raises(SparkJobFailed):
        sites.move("dr", Failing(in_session))
    report = sites.move(PRIMARY, in_session, replaced=True)
    assert report.safety_savepoint
