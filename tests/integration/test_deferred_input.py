"""What comes before an interval is given to its application first, and the interval once that is processed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.core import codec
from streams_recovery.core.errors import ApplicationNotReady, ApplicationRunning, Damaged, PrefixDiffers, Refused
from streams_recovery.core.jobs.spec import JobFailure, failure_key
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.restore.parts.interval import deferred
from streams_recovery.operations import interval, restore
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.open import note
from streams_recovery.operations.restore.verify import require_verified
from tests.support.applications.reprocessing import GONE, Again, again_at, configured, read, write
from tests.support.applications.restore_steps import load, verified
from tests.support.applications.small import says
from tests.support.applications.topic_records import commit
from tests.support.kafka.consumers import member


@pytest.fixture
def again(bootstrap: str, tmp_path: Path) -> Iterator[Again]:
    with again_at(bootstrap, tmp_path) as found:
        yield found


def stamps(recovery: RecoveryContext, tp: TopicPartition) -> list[int]:
    """The times of a log's records."""
    return [at for _, _, at in read(recovery, tp.topic)]


BEFORE_INPUT = {"phase": "recovered", "at_least": "input-complete", "before": "closed"}


@pytest.mark.deep
def test_the_interval_is_given_to_an_application_that_has_processed_what_comes_before(again: Again) -> None:
    request = again.request(20, 45)
    request = replace(request, slice=replace(request.slice, lateness=6, overlap=10))
    claimed = again.claim(request)
    recovery, ticket = again.given(claimed)
    copy = TopicPartition(recovery.config.topics.inputs[0], 0)
    assert stamps(recovery, copy) == [10]
    before = verified(recovery, ticket)
    assert str(copy) not in {f"{one.topic}-{one.partition}" for one in before.partitions}
    note(recovery, ticket, Phase.RECOVERED)
    for too_early in (restore.drain, lambda *_: interval.publish_results(recovery, ticket, request)):
        with pytest.raises(Refused) as caught:
            too_early(recovery, ticket)
        assert caught.value.facts == BEFORE_INPUT
    for too_early in (restore.drain_before_interval, restore.plan_load_deferred):
        with pytest.raises(ApplicationNotReady, match=f"behind on {copy} by 1"):
            too_early(recovery, ticket)
    with pytest.raises(Refused) as caught:
        restore.finish(recovery, ticket, before)
    assert caught.value.facts == BEFORE_INPUT

    commit(recovery, {copy: 1})
    ended = restore.drain_before_interval(recovery, ticket)
    assert (ended.partitions, ended.closed_cleanly) == (1, True)
    with member(recovery, recovery.application_id, copy.topic), pytest.raises(ApplicationRunning, match="it-member"):
        restore.plan_load_deferred(recovery, ticket)
    job = restore.plan_load_deferred(recovery, ticket)
    with pytest.raises(Damaged) as short:
        restore.check_load_deferred(recovery, ticket, None)
    assert {name: short.value.facts[name] for name in ("topic", "expected", "written")} == {
        "topic": copy.topic,
        "expected": 6,
        "written": 0,
    }
    load(recovery, job)
    assert stamps(recovery, copy) == [10, 20, 20, 30, 40, 40]
    with pytest.raises(Damaged) as unproven:
        restore.check_verify_deferred(recovery, ticket, before, None, None)
    assert (unproven.value.facts["partitions"], unproven.value.facts["compared"]) == ([str(copy)], 1)
    # The same again, as a run that died before it could say so would find it.
    assert replace(restore.drain_before_interval(recovery, ticket), seconds=ended.seconds) == ended
    fed = restore.check_load_deferred(recovery, ticket, load(recovery, restore.plan_load_deferred(recovery, ticket)))
    assert (fed.rows, fed.present, stamps(recovery, copy)) == (6, 6, [10, 20, 20, 30, 40, 40])
    assert restore.plan_verify_deferred(recovery, ticket, fed.result).spec is None
    compared = restore.check_verify_deferred(recovery, ticket, before, fed.result, None)
    assert [one.rows for one in compared.partitions if one.topic == copy.topic] == [6]
    with pytest.raises(Refused, match="belongs between recovered and input-complete"):
        restore.plan_load_deferred(recovery, ticket)
    with pytest.raises(Refused, match="belongs between started and input-complete"):
        restore.await_recovered(recovery, ticket, restore.StartSummary(instances=(), ends={}))
    with pytest.raises(ApplicationNotReady, match=f"behind on {copy} by 5"):
        restore.drain(recovery, ticket)
    commit(recovery, {copy: 6})
    assert restore.drain(recovery, ticket).partitions == 1
    assert require_verified(recovery, ticket) == compared, "for whoever resumes it"
    assert restore.finish(recovery, ticket, compared).verdict is restore.Verdict.EQUAL
    interval.remove(recovery, ticket, None)


@pytest.mark.deep
def test_more_than_comes_first_is_made_anew_before_the_start(again: Again) -> None:
    request = again.request(20, 45)
    request = replace(request, slice=replace(request.slice, overlap=10))
    copy = f"again.{again.own.application_id}.in-{request.slice.interval.name}"
    recovery, ticket = again.given(again.claim(request), lambda recovery: write(recovery, copy, [(b"k", b"a stranger's", 1)] * 2))
    assert stamps(recovery, TopicPartition(copy, 0)) == [10]
    interval.remove(recovery, ticket, None)


@pytest.mark.deep
def test_an_application_that_did_not_close_is_not_given_the_interval(again: Again) -> None:
    request = again.request(50, 51)
    request = replace(request, slice=replace(request.slice, lateness=10, overlap=50))
    claimed = again.claim(request)
    recovery, ticket = again.given(claimed)
    verified(recovery, ticket)
    note(recovery, ticket, Phase.RECOVERED)
    commit(recovery, {TopicPartition(recovery.config.topics.inputs[0], 0): 3})
    with (
        configured(again, recovery, stop=says([{**GONE[0], "closed_cleanly": False}])) as killed,
        pytest.raises(Damaged, match="did not close") as caught,
    ):
        restore.drain_before_interval(killed, ticket)
    assert caught.value.facts == {"application_id": recovery.application_id}
    assert "process the interval again" in caught.value.next_step
    entry = again.ended(recovery, claimed, ticket, finished=False)
    assert (entry.succeeded, entry.outcome) == (False, "failed after recovered"), "not after it was closed, which its removal did"


def test_with_a_base_that_had_read_all_that_comes_before_nothing_waits(again: Again) -> None:
    request = again.request(30, 45, base="savepoint")
    request = replace(request, slice=replace(request.slice, lateness=10))
    asked = interval.run.restore_request(again.own.application_id, request)
    recovery = again.scratch(request)
    copy = TopicPartition(recovery.config.topics.inputs[0], 0)
    behind = restore.plan(recovery, asked)
    assert deferred(behind) == {copy: 1}, "20 is behind the state"
    stream = replace(request.slice, tables=(again.small.input.topic,))
    table = restore.plan(recovery, replace(asked, slice=stream))
    [item] = [item for item in table.offsets if item.tp == copy]
    assert (item.wanted.offset, deferred(table)) == (2, {copy: 3}), "10, 20 and 20; the state has two of them"
    everything = replace(table, offsets=tuple(replace(one, wanted=replace(one.wanted, offset=3)) for one in table.offsets))
    assert deferred(everything) == {}


@pytest.mark.deep
def test_what_an_application_has_read_from_is_never_made_anew(again: Again) -> None:
    request = again.request(50, 51)
    request = replace(request, slice=replace(request.slice, lateness=10, overlap=50))
    recovery, ticket = again.given(again.claim(request))
    copy = TopicPartition(recovery.config.topics.inputs[0], 0)
    assert stamps(recovery, copy) == [10, 20, 20]
    verified(recovery, ticket)
    note(recovery, ticket, Phase.RECOVERED)
    before = recovery.cluster.describe_topics([copy.topic])[copy.topic].topic_id
    commit(recovery, {copy: 3})
    restore.drain_before_interval(recovery, ticket)
    write(recovery, copy.topic, [(b"k", b"a stranger's", 1)])
    job = restore.plan_load_deferred(recovery, ticket)
    with pytest.raises(PrefixDiffers) as differs:
        load(recovery, job)
    recovery.repository.create(failure_key(str(job.result_key)), codec.dumps(JobFailure.of(differs.value)))
    with pytest.raises(Damaged) as strange:
        restore.plan_load_deferred(recovery, ticket)
    assert strange.value.facts == {"partitions": [str(copy)]}
    recovery.repository.delete([failure_key(str(job.result_key))])
    write(recovery, copy.topic, [(b"k", b"a stranger's", 1)] * 4)
    with pytest.raises(Damaged) as strange:
        restore.plan_load_deferred(recovery, ticket)
    assert strange.value.facts == {"partitions": [str(copy)]}
    assert recovery.cluster.describe_topics([copy.topic])[copy.topic].topic_id == before
    interval.remove(recovery, ticket, None)


@pytest.mark.deep
def test_where_nothing_comes_before_an_interval_it_is_given_at_once(again: Again) -> None:
    recovery, ticket = again.given(again.claim(again.request(20, 45)))
    copy = TopicPartition(recovery.config.topics.inputs[0], 0)
    assert stamps(recovery, copy) == [20, 20]
    whole = verified(recovery, ticket)
    note(recovery, ticket, Phase.RECOVERED)
    assert restore.drain_before_interval(recovery, ticket).partitions == 0
    assert restore.plan_load_deferred(recovery, ticket).spec is None
    assert restore.check_load_deferred(recovery, ticket, None).rows == 0
    assert restore.plan_verify_deferred(recovery, ticket, None).spec is None
    assert restore.check_verify_deferred(recovery, ticket, whole, None, None) == whole
    assert restore.phase_of(recovery, ticket) is Phase.INPUT_COMPLETE
    interval.remove(recovery, ticket, None)
