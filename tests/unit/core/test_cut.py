"""The label: exact only when every single condition holds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.cut import Evidence, Reading, judge, proof, purged_tails
from streams_recovery.core.model import Consistency, Guarantee, QuiesceMode, TopicPartition
from tests.unit.core.values import committed, cut

T0, T1 = TopicPartition("in", 0), TopicPartition("log", 0)
STILL = Reading(last_stable={T1: 7}, high_watermark={T1: 7})
HELD = Evidence(
    mode=QuiesceMode.PAUSE,
    guarantee=Guarantee.AT_LEAST_ONCE,
    committed_before={T0: committed(5)},
    committed_after={T0: committed(5)},
    first=STILL,
    second=STILL,
    held=True,
    why_not_held="",
    writers_transactional=False,
)
LIVE = replace(
    HELD,
    mode=QuiesceMode.LIVE,
    guarantee=Guarantee.EXACTLY_ONCE_V2,
    held=False,
    why_not_held="the application was not held",
    writers_transactional=True,
)


@pytest.mark.parametrize("evidence", [HELD, LIVE, replace(HELD, mode=QuiesceMode.STOP)])
def test_exact_needs_no_reason(evidence: Evidence) -> None:
    assert judge(evidence) == (Consistency.EXACT, ())


@pytest.mark.fault("F41")
@pytest.mark.parametrize(
    ("evidence", "reason"),
    [
        (replace(HELD, committed_after={T0: committed(6)}), "committed offsets moved"),
        (replace(HELD, committed_after={T0: committed(5, "other stream time")}), "committed offsets moved"),
        (replace(HELD, committed_after={T0: None}), "committed offsets moved"),
        (replace(HELD, committed_after={}), "committed offsets moved"),
        (replace(HELD, second=Reading(last_stable={T1: 8}, high_watermark={T1: 8})), "internal topics moved"),
        (replace(HELD, first=(r := Reading(last_stable={T1: 6}, high_watermark={T1: 7})), second=r), "a transaction was open"),
        (replace(HELD, held=False, why_not_held="resumed during the cut: a"), "resumed during the cut: a, and the changelog writers"),
        (replace(LIVE, writers_transactional=False), "not proven transactional"),
        (replace(LIVE, guarantee=Guarantee.AT_LEAST_ONCE), "not proven transactional"),
        (replace(HELD, committed_before={}, committed_after={}), "no committed offsets were found"),
    ],
)
def test_each_missing_condition_makes_it_ahead_and_is_named(evidence: Evidence, reason: str) -> None:
    label, reasons = judge(evidence)
    assert label is Consistency.AHEAD
    assert len(reasons) == 1
    assert reason in reasons[0]


@pytest.mark.fault("F41")
def test_a_live_at_least_once_cut_is_never_exact_however_still_it_looks() -> None:
    assert judge(replace(LIVE, guarantee=Guarantee.AT_LEAST_ONCE, writers_transactional=True))[0] is Consistency.AHEAD


def test_the_proof_carries_what_was_seen() -> None:
    label, found = proof(replace(HELD, committed_after={T0: committed(6)}), held_seconds=0.12345, attempts=3)
    assert label is Consistency.AHEAD
    assert (found.committed_unchanged, found.still_between_reads, found.held_seconds, found.attempts) == (False, True, 0.123, 3)
    assert found.reasons == judge(replace(HELD, committed_after={T0: committed(6)}))[1]


@given(start=st.integers(0, 20), commit=st.none() | st.integers(0, 20))
def test_a_tail_is_purged_when_the_log_starts_behind_it(start: int, commit: int | None) -> None:
    part = cut(start=start, end=30, commit=commit)
    lost = commit is not None and any(offset < start for offset in range(commit, 30))
    assert bool(purged_tails({part.tp: part})) == lost
