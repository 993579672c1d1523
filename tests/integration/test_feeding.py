"""What comes before an interval is given to its application first, and the interval once that is processed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.core import codec
from streams_recovery.core.errors import ApplicationNotReady, ApplicationRunning, Damaged, PrefixDiffers, Refused
from streams_recovery.core.jobs import JobFailure, failure_key
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.journal import Phase
from streams_recovery.operations import interval, restore
from streams_recovery.operations.context import Workbench
from streams_recovery.operations.restore.open import note
from tests.integration.again import GONE, Again, again_at, configured, read, write
from tests.integration.groups import member
from tests.integration.restoring import load, verified
from tests.integration.small import commit, says


@pytest.fixture
def again(bootstrap: str, tmp_path: Path) -> Iterator[Again]:
    with again_at(bootstrap, tmp_path) as found:
        yield found


def stamps(bench: Workbench, tp: TopicPartition) -> list[int]:
    """The times of a log's records."""
    return [at for _, _, at in read(bench, tp.topic)]


def test_the_interval_is_given_to_an_application_that_has_processed_what_comes_before(again: Again) -> None:
    request = again.request(20, 45)
    request = replace(request, slice=replace(request.slice, lateness=6, overlap=10))
    claimed = again.claim(request)
    bench, ticket = again.given(claimed)
    copy = TopicPartition(bench.config.topics.inputs[0], 0)
    assert stamps(bench, copy) == [10]
    before = verified(bench, ticket)
    assert str(copy) not in {f"{one.topic}-{one.partition}" for one in before.partitions}
    note(bench, ticket, Phase.RECOVERED)
    for too_early in (restore.stop_at_ends, lambda *_: interval.hand_over(bench, ticket, request)):
        with pytest.raises(Refused, match="in phase recovered; this step belongs between fed and closed"):
            too_early(bench, ticket)
    for too_early in (restore.stop_before_interval, restore.plan_feed):
        with pytest.raises(ApplicationNotReady, match=f"behind on {copy} by 1"):
            too_early(bench, ticket)
    with pytest.raises(Refused, match="in phase recovered; this step belongs between fed and closed"):
        restore.finish(bench, ticket, before)

    commit(bench, {copy: 1})
    ended = restore.stop_before_interval(bench, ticket)
    assert (ended.partitions, ended.closed_cleanly) == (1, True)
    with member(bench, bench.application_id, copy.topic), pytest.raises(ApplicationRunning, match="it-member"):
        restore.plan_feed(bench, ticket)
    job = restore.plan_feed(bench, ticket)
    with pytest.raises(Damaged, match=f"{copy} should hold 6 rows; the job wrote 0"):
        restore.check_feed(bench, ticket, None)
    load(bench, job)
    assert stamps(bench, copy) == [10, 20, 20, 30, 40, 40]
    with pytest.raises(Damaged, match="1 of 1 partitions are not proven equal"):
        restore.check_verify_feed(bench, ticket, before, None, None)
    # The same again, as a run that died before it could say so would find it.
    assert replace(restore.stop_before_interval(bench, ticket), seconds=ended.seconds) == ended
    fed = restore.check_feed(bench, ticket, load(bench, restore.plan_feed(bench, ticket)))
    assert (fed.rows, fed.present, stamps(bench, copy)) == (6, 6, [10, 20, 20, 30, 40, 40])
    assert restore.plan_verify_feed(bench, ticket, fed.result).spec is None
    compared = restore.check_verify_feed(bench, ticket, before, fed.result, None)
    assert [one.rows for one in compared.partitions if one.topic == copy.topic] == [6]
    with pytest.raises(Refused, match="belongs between recovered and fed"):
        restore.plan_feed(bench, ticket)
    with pytest.raises(Refused, match="belongs between started and fed"):
        restore.await_recovered(bench, ticket, restore.StartSummary(instances=(), ends={}))
    with pytest.raises(ApplicationNotReady, match=f"behind on {copy} by 5"):
        restore.stop_at_ends(bench, ticket)
    commit(bench, {copy: 6})
    assert restore.stop_at_ends(bench, ticket).partitions == 1
    assert restore.verified_before(bench, ticket) == compared, "for whoever resumes it"
    assert restore.finish(bench, ticket, compared).verdict is restore.Verdict.EQUAL
    interval.remove(bench, ticket, None)


def test_more_than_comes_first_is_made_anew_before_the_start(again: Again) -> None:
    request = again.request(20, 45)
    request = replace(request, slice=replace(request.slice, overlap=10))
    copy = f"again.{again.own.application_id}.in-{request.slice.interval.name}"
    bench, ticket = again.given(again.claim(request), lambda bench: write(bench, copy, [(b"k", b"a stranger's", 1)] * 2))
    assert stamps(bench, TopicPartition(copy, 0)) == [10]
    interval.remove(bench, ticket, None)


def test_an_application_that_did_not_close_is_not_given_the_interval(again: Again) -> None:
    request = again.request(50, 51)
    request = replace(request, slice=replace(request.slice, lateness=10, overlap=50))
    claimed = again.claim(request)
    bench, ticket = again.given(claimed)
    verified(bench, ticket)
    note(bench, ticket, Phase.RECOVERED)
    commit(bench, {TopicPartition(bench.config.topics.inputs[0], 0): 3})
    with (
        configured(again, bench, stop=says([{**GONE[0], "closed_cleanly": False}])) as killed,
        pytest.raises(Damaged, match=r"did not close\. Next: .*process the interval again"),
    ):
        restore.stop_before_interval(killed, ticket)
    entry = again.ended(bench, claimed, ticket, finished=False)
    assert (entry.succeeded, entry.outcome) == (False, "failed after recovered"), "not after it was closed, which its removal did"


def test_with_a_base_that_had_read_all_that_comes_before_nothing_waits(again: Again) -> None:
    request = again.request(30, 45, base="savepoint")
    request = replace(request, slice=replace(request.slice, lateness=10))
    asked = interval.beginning.restore_request(again.own.application_id, request)
    bench = again.scratch(request)
    copy = TopicPartition(bench.config.topics.inputs[0], 0)
    behind = restore.plan(bench, asked)
    assert behind.held_back == {copy: 1}, "20 is behind the state"
    stream = replace(request.slice, tables=(again.small.input.topic,))
    table = restore.plan(bench, replace(asked, slice=stream))
    [item] = [item for item in table.offsets if item.tp == copy]
    assert (item.offset, table.held_back) == (2, {copy: 3}), "10, 20 and 20; the state has two of them"
    everything = replace(table, offsets=tuple(replace(one, offset=3) for one in table.offsets))
    assert everything.held_back == {}


def test_what_an_application_has_read_from_is_never_made_anew(again: Again) -> None:
    request = again.request(50, 51)
    request = replace(request, slice=replace(request.slice, lateness=10, overlap=50))
    bench, ticket = again.given(again.claim(request))
    copy = TopicPartition(bench.config.topics.inputs[0], 0)
    assert stamps(bench, copy) == [10, 20, 20]
    verified(bench, ticket)
    note(bench, ticket, Phase.RECOVERED)
    before = bench.cluster.describe_topics([copy.topic])[copy.topic].topic_id
    commit(bench, {copy: 3})
    restore.stop_before_interval(bench, ticket)
    write(bench, copy.topic, [(b"k", b"a stranger's", 1)])
    job = restore.plan_feed(bench, ticket)
    with pytest.raises(PrefixDiffers) as differs:
        load(bench, job)
    bench.repository.create(failure_key(str(job.result_key)), codec.dumps(JobFailure.of(differs.value)))
    with pytest.raises(Damaged, match=f"{copy} hold records that this restore cannot have written"):
        restore.plan_feed(bench, ticket)
    bench.repository.delete([failure_key(str(job.result_key))])
    write(bench, copy.topic, [(b"k", b"a stranger's", 1)] * 4)
    with pytest.raises(Damaged, match=f"{copy} hold records that this restore cannot have written"):
        restore.plan_feed(bench, ticket)
    assert bench.cluster.describe_topics([copy.topic])[copy.topic].topic_id == before
    interval.remove(bench, ticket, None)


def test_where_nothing_comes_before_an_interval_it_is_given_at_once(again: Again) -> None:
    bench, ticket = again.given(again.claim(again.request(20, 45)))
    copy = TopicPartition(bench.config.topics.inputs[0], 0)
    assert stamps(bench, copy) == [20, 20]
    whole = verified(bench, ticket)
    note(bench, ticket, Phase.RECOVERED)
    assert restore.stop_before_interval(bench, ticket).partitions == 0
    assert restore.plan_feed(bench, ticket).spec is None
    assert restore.check_feed(bench, ticket, None).rows == 0
    assert restore.plan_verify_feed(bench, ticket, None).spec is None
    assert restore.check_verify_feed(bench, ticket, whole, None, None) == whole
    assert restore.phase_of(bench, ticket) is Phase.FED
    interval.remove(bench, ticket, None)
