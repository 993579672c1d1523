"""The label: exact only when every single condition holds.

An application's own word counts; where it has not given it, the configuration does, and that is said.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.application_kind import ApplicationKind
from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import CommittedOffset, Consistency, Guarantee, QuiesceMode, TopicPartition
from streams_recovery.core.named_transactions.cut import NamedCut
from streams_recovery.core.named_transactions.proof import NamedLogCut
from streams_recovery.core.named_transactions.readings import LogTail, NamedReadings
from streams_recovery.core.repository.manifest import PartitionCut
from streams_recovery.core.savepoint.cut import (
    ALONE,
    CLOSED_IN_TIME,
    NONE_WAS_AHEAD,
    Committed,
    CutEvidence,
    InternalEnds,
    Offsets,
    Readings,
    assumptions,
    check_by_names,
    commit_interval,
    ends_by_names,
    internal_by_names,
    judge,
    moved_since,
    of_deletions,
    of_pause,
    of_stop,
    past_end,
    proof,
    proof_by_names,
    purged_tails,
    unread,
)
from tests.support.examples.savepoints import committed, cut

T0, T1, T2 = TopicPartition("in", 0), TopicPartition("log", 0), TopicPartition("log", 1)
READ = Readings(
    committed_before={T0: committed(5)},
    captured_at=1,
    ends={T1: 7, T2: 9},
    last_stable={T1: 7, T2: 9},
    committed_after={T0: committed(5)},
    ends_after={T1: 7, T2: 9},
)
HELD = CutEvidence(
    mode=QuiesceMode.PAUSE, guarantee=Guarantee.AT_LEAST_ONCE, readings=READ, held=True, why_not_held="", writers_transactional=False
)
LIVE = replace(
    HELD,
    mode=QuiesceMode.LIVE,
    guarantee=Guarantee.EXACTLY_ONCE_V2,
    held=False,
    why_not_held="the application was not held",
    writers_transactional=True,
)


def later(offsets: dict[TopicPartition, CommittedOffset | None]) -> CutEvidence:
    """Held, with other offsets in the second read."""
    return replace(HELD, readings=replace(READ, committed_after=offsets))


def moved(**readings: dict[TopicPartition, int]) -> CutEvidence:
    """A live cut with other readings of the logs."""
    return replace(LIVE, readings=replace(READ, **readings))  # type: ignore[arg-type]


@pytest.mark.parametrize("evidence", [HELD, LIVE, replace(HELD, mode=QuiesceMode.STOP)])
def test_exact_needs_no_reason(evidence: CutEvidence) -> None:
    assert judge(evidence) == (Consistency.EXACT, ())


@pytest.mark.fault("F41")
@pytest.mark.parametrize(
    ("evidence", "reason"),
    [
        (later({T0: committed(6)}), "committed offsets moved"),
        (later({T0: committed(5, "other stream time")}), "committed offsets moved"),
        (later({T0: None}), "committed offsets moved"),
        (later({}), "committed offsets moved"),
        (moved(ends_after={T1: 7, T2: 10}), "internal topics were written to while the cut was read: log-1"),
        (moved(last_stable={T1: 8, T2: 9}, ends_after={T1: 8, T2: 9}), "a transaction was open at the end of log-0"),
        (replace(HELD, held=False, why_not_held="resumed during the cut: a"), "resumed during the cut: a, and the changelog writers"),
        (replace(LIVE, writers_transactional=False), "not proven transactional"),
        (replace(LIVE, guarantee=Guarantee.AT_LEAST_ONCE), "not proven transactional"),
        (replace(HELD, readings=replace(READ, committed_before={}, committed_after={})), "no committed offsets were found"),
    ],
)
def test_each_missing_condition_makes_it_ahead_and_is_named(evidence: CutEvidence, reason: str) -> None:
    label, reasons = judge(evidence)
    assert label is Consistency.AHEAD
    assert len(reasons) == 1
    assert reason in reasons[0]


@pytest.mark.fault("F41")
def test_later_readings_that_agree_with_each_other_and_not_with_the_cut_prove_nothing() -> None:
    """As when a punctuation's transaction was open at the cut and has been committed since: no offset moved, and all is still by then."""
    torn = moved(last_stable={T1: 12, T2: 9}, ends_after={T1: 12, T2: 9})
    assert judge(torn)[0] is Consistency.AHEAD
    assert not proof(torn, held_seconds=0.0, attempts=1)[1].still_between_reads


@given(
    before=st.integers(0, 1),
    after=st.integers(0, 1),
    stable=st.integers(7, 8),
    end=st.integers(7, 8),
)
def test_readings_are_exact_when_the_label_of_a_live_cut_with_transactions_is(before: int, after: int, stable: int, end: int) -> None:
    read = replace(
        READ,
        committed_before={T0: committed(before)},
        committed_after={T0: committed(after)},
        last_stable={T1: stable, T2: 9},
        ends_after={T1: end, T2: 9},
    )
    assert read.exact == (judge(replace(LIVE, readings=read))[0] is Consistency.EXACT)


def test_what_was_read_is_the_reason_and_not_what_was_not_asked() -> None:
    (reason,) = judge(replace(moved(ends_after={T1: 7, T2: 10}), writers_transactional=False))[1]
    assert reason.startswith("internal topics were written to")
    assert len(judge(replace(later({T0: None}), held=False, why_not_held="not held"))[1]) == 2, (
        "never without transactions, and that is said"
    )


def test_reasons_name_a_few_partitions_of_many() -> None:
    many = {TopicPartition("log", number): number for number in range(8)}
    read = replace(READ, ends=many, last_stable=many, ends_after={tp: end + 1 for tp, end in many.items()})
    (reason,) = judge(replace(LIVE, readings=read))[1]
    assert reason.endswith("log-0, log-1, log-2, log-3, log-4 and 3 more")


@pytest.mark.fault("F41")
def test_a_live_at_least_once_cut_is_never_exact_however_still_it_looks() -> None:
    assert judge(replace(LIVE, guarantee=Guarantee.AT_LEAST_ONCE, writers_transactional=True))[0] is Consistency.AHEAD


def test_the_proof_carries_what_was_seen() -> None:
    label, found = proof(later({T0: committed(6)}), held_seconds=0.12345, attempts=3)
    assert label is Consistency.AHEAD
    assert (found.committed_unchanged, found.still_between_reads, found.held_seconds, found.attempts) == (False, True, 0.123, 3)
    assert found.reasons == judge(later({T0: committed(6)}))[1]


@given(start=st.integers(0, 20), commit=st.none() | st.integers(0, 20))
def test_a_tail_is_purged_when_the_log_starts_behind_it(start: int, commit: int | None) -> None:
    part = cut(start=start, end=30, commit=commit)
    lost = commit is not None and any(offset < start for offset in range(commit, 30))
    assert bool(purged_tails({part.tp: part})) == lost


CLOSED = ApplicationKind.KAFKA_STREAMS.dialect.closed


@pytest.mark.fault("F41")
@pytest.mark.parametrize(
    ("reported", "wanted"),
    [
        ({"a": 30_000, "b": 30_000}, 30_000),  # the configuration says 100, and nothing of the last half minute is committed
        ({"a": 50, "b": 70}, 70),
        ({"a": None, "b": None}, 100),
        ({"a": 50, "b": None}, 100),
        ({"a": 300, "b": None}, 300),
        ({}, 100),
    ],
)
def test_a_pause_lasts_as_long_as_the_application_itself_says(reported: dict[str, int | None], wanted: int) -> None:
    assert commit_interval(reported, 100) == wanted


def test_a_pause_does_not_last_as_long_as_an_instance_likes() -> None:
    assert commit_interval({"a": 3_600_000}, 100) == 3_600_000
    with pytest.raises(Refused, match="b reports a commit interval of 3600001 ms") as caught:
        commit_interval({"a": 50, "b": 3_600_001, "c": None}, 100)
    assert caught.value.facts["intervals"] == {"b": 3_600_001}


def test_what_a_pause_rests_on_is_said() -> None:
    (said,) = of_pause(Guarantee.AT_LEAST_ONCE, {"b": None, "a": None, "c": 5}, 30_000)
    assert said.startswith("its label assumes that a, b commits every 30000 ms")
    assert of_pause(Guarantee.AT_LEAST_ONCE, {"a": 5}, 30_000) == ()
    assert of_pause(Guarantee.EXACTLY_ONCE_V2, {"a": None}, 30_000) == (), "an open transaction would show"


def test_what_a_stop_rests_on_is_said() -> None:
    (said,) = of_stop(Guarantee.AT_LEAST_ONCE, ["b", "a"], CLOSED)
    assert said.startswith("its label assumes that a, b closed Kafka Streams before it ended")
    assert of_stop(Guarantee.AT_LEAST_ONCE, [], CLOSED) == ()
    assert of_stop(Guarantee.EXACTLY_ONCE_V2, ["a"], CLOSED) == ()


def test_what_shared_files_rest_on_is_said_since_the_first_moment() -> None:
    noon = 1_795_262_400_000
    (said,) = of_deletions({"b": noon, "a": noon + 60_000})
    assert said.startswith("a, b have the records of several savepoints")
    assert "was lowered for a while after 2026-11-21 12:00:00 UTC" in said
    assert of_deletions({"a": noon})[0].startswith("a has the records of several savepoints")
    assert of_deletions({}) == ()


@pytest.mark.fault("F74")
def test_a_program_that_works_at_least_once_is_not_exact_when_paused_whatever_its_configuration_says() -> None:
    shown = replace(HELD, guarantee=Guarantee.EXACTLY_ONCE_V2, not_transactional=(T1,))
    label, (reason,) = judge(shown)
    assert (label, reason) == (
        Consistency.AHEAD,
        "application.guarantee is exactly_once_v2, and log-0 has been written without transactions: the program works at least once",
    )
    closed = replace(shown, mode=QuiesceMode.STOP)
    assert judge(closed)[0] is Consistency.EXACT, "whoever closes commits"
    assert assumptions(closed, left=False) == (ALONE, f"{CLOSED_IN_TIME}: {reason}")


@pytest.mark.fault("F75")
def test_a_label_without_transactions_says_that_nobody_who_was_killed_had_come_further() -> None:
    at_least_once = replace(HELD, guarantee=Guarantee.AT_LEAST_ONCE)
    assert assumptions(at_least_once, left=True) == (ALONE, NONE_WAS_AHEAD)
    assert assumptions(at_least_once, left=False) == (ALONE,), "all input is committed, whoever had read it"
    assert assumptions(replace(HELD, guarantee=Guarantee.EXACTLY_ONCE_V2), left=True) == (ALONE,)
    assert NONE_WAS_AHEAD in assumptions(
        replace(HELD, mode=QuiesceMode.STOP, guarantee=Guarantee.EXACTLY_ONCE_V2, not_transactional=(T1,)), left=True
    )


@pytest.mark.fault("F72")
@pytest.mark.parametrize(
    ("committed_now", "ends", "why"),
    [
        (READ.committed_before, READ.ends, ""),
        (
            READ.committed_before,
            {**READ.ends, T1: READ.ends[T1] + 1},
            "log-0 went on after the cut was read, while the application was held",
        ),
        ({T0: committed(6)}, READ.ends, "offsets were committed after the cut was read, while it was held"),
    ],
)
def test_what_moves_while_the_application_is_held_shows_after_the_copy(committed_now: Committed, ends: Offsets, why: str) -> None:
    assert moved_since(READ, committed_now, ends) == why


def test_input_is_left_where_a_committed_offset_is_below_the_end() -> None:
    part = PartitionCut(tp=T0, log_start=0, last_stable=5, end=5, leader_epoch=0, committed=committed(5))
    assert not unread({T0: part, T1: replace(part, tp=T1, committed=None)})
    assert unread({T0: replace(part, end=6)})


@pytest.mark.fault("F36")
@pytest.mark.parametrize("evidence", [HELD, LIVE, replace(HELD, mode=QuiesceMode.STOP)])
def test_an_offset_behind_the_end_of_its_log_is_not_exact_however_still_all_is(evidence: CutEvidence) -> None:
    """The log was cut back while nobody read on: the state has what it lost, and the offset would skip what comes there later."""
    read: Committed = {T0: committed(5), T1: committed(7), T2: None}
    behind = past_end(read, {T0: 4, T1: 7, T2: 9})
    assert behind == (T0,)
    assert past_end(read, {T0: 5, T1: 8, T2: 9}) == ()
    label, found = proof(replace(evidence, past_end=behind), held_seconds=0.0, attempts=1)
    assert label is Consistency.AHEAD
    assert found.past_end == behind
    assert "the committed offset of in-0 lies behind the end of its log" in found.reasons[0]
    assert proof(evidence, held_seconds=0.0, attempts=1)[1].past_end == ()


@pytest.mark.fault("F36")
@given(lost=st.integers(0, 9), grown=st.integers(0, 20), known=st.booleans(), read=st.integers(0, 10))
def test_an_offset_of_records_that_were_replaced_is_seen_wherever_its_epoch_was_committed(
    lost: int, grown: int, known: bool, read: int
) -> None:
    """A log of 10 records of leader epoch 3, which loses some with an election and gets others."""
    left, now = 10 - lost, 4 if lost else 3
    there: Committed = {T0: CommittedOffset(offset=read, metadata="", leader_epoch=3 if known else None)}
    found = past_end(there, {T0: left + grown}, epochs={T0: now}, epoch_ends={T0: left} if lost else {})
    told = read > left if known else read > left + grown
    assert found == ((T0,) if told else ())
    assert past_end(there, {T0: 99}, epochs={T0: 2}, epoch_ends={T0: None}) == ((T0,) if known else ()), "the log is another one"
    assert past_end(there, {T0: 99}, epochs={T0: 5}, epoch_ends={T0: None}) == (), "the broker cannot tell"


def test_a_cut_by_names_stands_on_logs_that_only_transactions_wrote_and_that_lost_nothing() -> None:
    check_by_names(transactional=True, past_end=())
    with pytest.raises(Refused, match="not proven transactional"):
        check_by_names(transactional=False, past_end=())
    with pytest.raises(Refused, match="in-0 lies behind what its log has left"):
        check_by_names(transactional=True, past_end=(T0,))


def test_an_output_ends_where_the_state_does_if_names_tell_that() -> None:
    names = {T1: NamedLogCut(start=1, end=6, records=4, excluded=()), T2: NamedLogCut(start=8, end=8, records=0, excluded=())}
    named = NamedCut(last={7: 3}, group_end=20, committed={T0: committed(5)}, logs=names, taken_back=())
    tails = {tp: LogTail(start=1, before=7, after=7, ends=9, stable=9, first=0, batches=()) for tp in names}
    readings = NamedReadings(settled=1, end=20, captured_at=1, known={}, later={}, group=(), logs=tails)
    assert internal_by_names(readings, named) == InternalEnds(committed={T0: committed(5)}, ends={T1: 6, T2: 8}, last_stable={T1: 9, T2: 9})
    of_names = proof_by_names(named, TopicPartition("__consumer_offsets", 0), 2)
    assert (of_names.attempts, of_names.assumptions, of_names.names and of_names.names.logs) == (2, (ALONE,), names)
    parts = {tp: replace(cut(end=9), tp=tp) for tp in (T0, T1, T2)}
    assert {tp: part.end for tp, part in ends_by_names(parts, of_names.names).items()} == {T0: 9, T1: 6, T2: 8}
    assert ends_by_names(parts, None) == parts
