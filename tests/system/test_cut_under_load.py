"""Cuts of a running application under load, every way of holding it: a label `exact` is never false, and is given where it can be."""

from __future__ import annotations

import itertools
import random
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace

import pytest
from _pytest.mark import ParameterSet

from streams_recovery.core.errors import NotExact
from streams_recovery.core.kafka_types import CommittedOffset, Consistency, QuiesceMode, TopicPartition
from streams_recovery.core.repository.manifest import CutProof
from streams_recovery.core.savepoint.cut import Committed
from streams_recovery.core.waiting import poll
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.savepoint.values import CutDraft, DraftTopic
from tests.support.applications.small import with_policy
from tests.support.kafka.open_transactions import transactions_without_gap
from tests.support.stack.oracle import Read, problems
from tests.support.stack.savepoints import cut_of
from tests.support.stack.stage import Stage, stage

RATE = 800.0
# So many looks at a busy at-least-once application each find every end stable.
LOOKS = 20
EXACTLY_ONCE, AT_LEAST_ONCE = "exactly_once_v2", "at_least_once"
pytestmark = [pytest.mark.system, pytest.mark.timeout(3600)]


def guarantees(*each_time: str) -> pytest.MarkDecorator:
    """A test under both guarantees. Those that are not named here belong to the deep tests: a stage costs half a minute, and each moment ten seconds."""
    both = [under(one, deep=one not in each_time) for one in (EXACTLY_ONCE, AT_LEAST_ONCE)]
    return pytest.mark.parametrize("under_load", both, indirect=True, scope="module")


def under(guarantee: str, *more: object, deep: bool) -> ParameterSet:
    return pytest.param(guarantee, *more, marks=[pytest.mark.deep] if deep else [], id="-".join(map(str, (guarantee, *more))))


# The mode that each guarantee is held by in each run of the tests; the deep tests have all of them, at fifty moments.
HELD = {EXACTLY_ONCE: QuiesceMode.PAUSE, AT_LEAST_ONCE: QuiesceMode.STOP}


@pytest.fixture(scope="module")
def under_load(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Two instances that commit every 200 ms and tick every 250 ms."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("STREAMS_RECOVERY_COMMIT_INTERVAL_MS", "200")
        environment.setenv("ORDER_PROCESSING_TICK_MS", "250")
        with stage(tmp_path_factory.mktemp("stage"), guarantee=request.param) as on, on.generator.trickle(RATE):
            yield on


def judged(on: Stage, mode: QuiesceMode, moments: int, patience: Sequence[int] = (1,)) -> tuple[list[CutProof], int]:
    """Cuts at seeded moments, each ``exact`` one compared with the truth. ``patience`` has numbers of attempts, taken in turn. Returns all proofs and how
    many were exact.
    """
    benches = [with_policy(on.recovery, attempts=attempts, require="ahead_allowed") for attempts in patience]
    dice = random.Random(f"{mode} {on.stack.guarantee}")
    proofs, exact, read = [], 0, Read(on.recovery)
    for number, recovery in zip(range(moments), itertools.cycle(benches), strict=False):
        on.await_running()
        time.sleep(dice.uniform(0.2, 1.5))
        draft = cut_of(recovery, mode, f"{mode}-{number}")
        proofs.append(draft.proof)
        found = problems(recovery, draft, read)
        sys.stdout.write(
            f"{on.stack.guarantee} {mode} {number}: {draft.consistency} after {draft.proof.attempts} attempts, held {draft.proof.held_seconds} s, "
            f"tails {sum(t.copied.file.rows for t in draft.tails if t.copied.file)}, {found or 'true'}\n"
        )
        if draft.consistency is Consistency.EXACT:
            exact += 1
            assert found == [], "a cut that is not exact was labelled so"
    return proofs, exact


@pytest.mark.fault("F41")
@pytest.mark.parametrize(
    ("under_load", "mode", "moments"),
    [
        under(guarantee, mode, moments, deep=(mode, moments) != (HELD[guarantee], 3))
        for guarantee in HELD
        for mode in (QuiesceMode.PAUSE, QuiesceMode.STOP)
        for moments in (3, 50)
    ],
    indirect=["under_load"],
    scope="module",
)
def test_a_held_application_gives_exact_cuts(under_load: Stage, mode: QuiesceMode, moments: int) -> None:
    proofs, exact = judged(under_load, mode, moments)
    assert exact == moments, [proof.reasons for proof in proofs]


@pytest.mark.fault("F41")
@pytest.mark.parametrize("moments", [3, pytest.param(50, marks=pytest.mark.deep)])
@guarantees(EXACTLY_ONCE)
def test_a_live_application_gives_exact_cuts_only_where_transactions_prove_them(under_load: Stage, moments: int) -> None:
    if under_load.stack.guarantee == "at_least_once":
        proofs, exact = judged(under_load, QuiesceMode.LIVE, moments)
        assert exact == 0
        assert all("not proven transactional" in " ".join(proof.reasons) for proof in proofs)
        return
    # By the names of its transactions one moment is as good as another.
    proofs, exact = judged(under_load, QuiesceMode.LIVE, moments, patience=(5,))
    assert exact == moments, [proof.reasons for proof in proofs]
    assert [proof for proof in proofs if proof.names is None or proof.held_seconds] == []


@pytest.mark.deep
@guarantees(EXACTLY_ONCE)
def test_a_live_savepoint_is_tried_until_it_is_exact_or_the_application_is_held_after_all(under_load: Stage) -> None:
    transactional = under_load.stack.guarantee == "exactly_once_v2"
    recovery = with_policy(under_load.recovery, attempts=1_000 if transactional else 2, fallback="none" if transactional else "pause")
    before = under_load.await_running()
    draft = cut_of(recovery, QuiesceMode.LIVE, "patient")
    assert draft.consistency is Consistency.EXACT
    assert draft.proof.mode is (QuiesceMode.LIVE if transactional else QuiesceMode.PAUSE)
    assert problems(recovery, draft) == []
    assert under_load.await_running() == before


@pytest.mark.deep
@guarantees(AT_LEAST_ONCE)
def test_a_live_savepoint_that_must_be_exact_and_is_not_is_refused(under_load: Stage) -> None:
    """Nothing proves a live cut under at-least-once. Under exactly-once a transaction is open at each look, whose end is written after the cut's."""
    transactional = under_load.stack.guarantee == "exactly_once_v2"
    recovery = with_policy(under_load.recovery, attempts=2)
    under_load.await_running()
    log = TopicPartition(f"{recovery.application_id}-order-totals-changelog", 0)
    with transactions_without_gap(under_load.stack.bootstrap, log) if transactional else nullcontext(), pytest.raises(NotExact) as caught:
        cut_of(recovery, QuiesceMode.LIVE, "impatient")
    assert under_load.held() == []
    assert caught.value.facts["attempts"] == 2
    assert caught.value.facts["reasons"]
    assert "mode pause" in caught.value.next_step


def changed(draft: CutDraft, topic: str, committed: dict[int, CommittedOffset | None]) -> CutDraft:
    """The draft with other committed offsets on one topic."""

    def other(found: DraftTopic) -> DraftTopic:
        if found.name != topic:
            return found
        return replace(found, partitions=tuple(replace(cut, committed=committed[cut.tp.partition]) for cut in found.partitions))

    return replace(draft, topics=tuple(other(found) for found in draft.topics))


def committed_later(recovery: RecoveryContext, topic: DraftTopic) -> dict[int, CommittedOffset | None]:
    """Committed offsets of each partition after that of the draft."""
    then = {cut.tp: cut.committed.offset for cut in topic.partitions if cut.committed}

    def moved() -> Committed | None:
        now = recovery.groups.committed(recovery.application_id, list(then))
        return now if all(found is not None and found.offset > then[tp] for tp, found in now.items()) else None

    now = poll(moved, seconds=180, interval=0.2)
    assert now is not None, "the application committed nothing after the cut"
    return {tp.partition: found for tp, found in now.items()}


def cut_with_unread_sales(on: Stage, recovery: RecoveryContext) -> CutDraft:
    """A cut with unread records of the topic behind ``product-sales``: at most moments there are some."""
    for number in range(10):
        on.await_running()
        draft = cut_of(recovery, QuiesceMode.PAUSE, f"broken-{number}")
        if any(tail.copied.file for tail in draft.tails if tail.tp.topic.endswith("-by-product-repartition")):
            return draft
    raise AssertionError("nothing was ever unread")


@pytest.mark.fault("F46", "F47")
@guarantees(AT_LEAST_ONCE)
def test_the_oracle_sees_a_protocol_that_is_broken(under_load: Stage) -> None:
    recovery = with_policy(under_load.recovery, attempts=1, require="ahead_allowed")
    draft = cut_with_unread_sales(under_load, recovery)
    assert problems(recovery, draft) == []
    orders = next(topic for topic in draft.topics if topic.name == "orders")
    low = {cut.tp.partition: replace(cut.committed, offset=cut.committed.offset - 1) for cut in orders.partitions if cut.committed}
    assert any("order-totals" in found for found in problems(recovery, changed(draft, "orders", low)))
    bare = {cut.tp.partition: replace(cut.committed, metadata="") for cut in orders.partitions if cut.committed}
    assert any("stream time" in found for found in problems(recovery, changed(draft, "orders", bare)))
    assert any("unread tail" in found for found in problems(recovery, replace(draft, tails=())))
    later = committed_later(recovery, orders)
    assert any("order-totals" in found for found in problems(recovery, changed(draft, "orders", later))), "offsets read after the ends"


@pytest.mark.deep
@pytest.mark.fault("F47")
@guarantees()
def test_the_oracle_sees_ends_that_nobody_waited_for(under_load: Stage) -> None:
    """Ends read in the middle of transactions: when those are committed, their records are below the ends and their input is not below the offsets."""
    recovery = with_policy(under_load.recovery, attempts=1, require="ahead_allowed")
    draft = cut_of(recovery, QuiesceMode.PAUSE, "not-waited")
    assert problems(recovery, draft) == []
    under_load.await_running()
    orders = next(topic for topic in draft.topics if topic.name == "orders")
    logs = [cut.tp for topic in draft.topics if topic.name.endswith("-changelog") for cut in topic.partitions]
    if under_load.stack.guarantee == "at_least_once":
        # No transaction keeps anything back, so there is nothing to wait for: every end that is read is stable already.
        for _ in range(LOOKS):
            ends, stable = recovery.cluster.high_watermarks(logs), recovery.cluster.last_stable_offsets(logs)
            assert {tp: end for tp, end in ends.items() if stable[tp] < end} == {}
        return
    give_up = time.monotonic() + 120
    while time.monotonic() < give_up:
        committed = recovery.groups.committed(recovery.application_id, [cut.tp for cut in orders.partitions])
        ends, stable = recovery.cluster.high_watermarks(logs), recovery.cluster.last_stable_offsets(logs)
        if all(stable[tp] >= end for tp, end in ends.items()):
            continue
        hasty = with_ends(changed(draft, "orders", {tp.partition: found for tp, found in committed.items()}), ends)
        if any("differs from the input below" in found for found in problems(recovery, hasty)):
            return
    pytest.fail("no cut without waiting was seen to be wrong")


def with_ends(draft: CutDraft, ends: dict[TopicPartition, int]) -> CutDraft:
    """The draft with other ends."""
    return replace(
        draft,
        topics=tuple(
            replace(topic, partitions=tuple(replace(cut, end=ends.get(cut.tp, cut.end)) for cut in topic.partitions))
            for topic in draft.topics
        ),
    )
