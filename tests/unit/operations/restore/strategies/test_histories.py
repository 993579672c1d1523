"""Moments of a past with logs that began anew and clocks that were wrong: whatever is offered is what an independent replay gives, or is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from operator import methodcaller

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from spark_jobs.transforms.segment_reader import chosen_batches
from streams_recovery.core.errors import Refused
from streams_recovery.core.jobs.spec import CutBy
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.compaction_proof import RescaledFrom, RescaledLog
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.manifest import Manifest, TopicImage
from streams_recovery.core.restore.interval import Interval as Span
from streams_recovery.core.restore.interval import IntervalSlice
from streams_recovery.core.restore.point_in_time import CLOCK_DIFFERENCE_MS, SETTLED_MS, AsOf
from streams_recovery.core.restore.request import NO_STATE
from streams_recovery.core.status.instant import Way, instant
from streams_recovery.core.status.report import StatusReport
from streams_recovery.core.words import LATEST, same_moment
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.strategies.as_of_moment import BaseSavepointFinder, RequestedBase
from streams_recovery.operations.restore.strategies.interval import OfInterval, OwnRecords, records_of
from streams_recovery.operations.status.savepoints import list_savepoints
from tests.support.applications.unreachable import application
from tests.support.examples.statuses import report
from tests.support.repository.histories import APPLICATION, HOUR, INPUT, MINUTE, T0, History, Taken

YEARS = 10 * 365 * 24 * HOUR


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecoveryContext]:
    """Of the application into which the past is restored."""
    with application(tmp_path_factory.mktemp("other")) as found:
        yield found


@dataclass(frozen=True)
class Offered:
    """What a restore to a moment would do: the base, the archive, and by partition the numbers of the records that are in the state or are processed."""

    base: Taken | None
    archive: Taken
    numbers: tuple[tuple[int, ...], ...]
    first_later: tuple[int | None, ...]


def input_of(manifest: Manifest) -> TopicImage:
    found = manifest.topic(INPUT)
    assert found is not None
    return found


def offered(history: History, other: RecoveryContext, at: int, by: CutBy = CutBy.TIMESTAMP, savepoint: str = LATEST) -> Offered:
    recovery = history.recovery(other)
    search = BaseSavepointFinder(
        recovery=recovery, wanted=RequestedBase(source=APPLICATION, savepoint=savepoint), as_of=AsOf(moment=at, by=by)
    )
    base, archive = search.without_state() if savepoint == NO_STATE else search.with_state()
    known = {one.manifest.savepoint_id: one for one in history.taken}
    taken = None if savepoint == NO_STATE else known[base.savepoint_id]
    cuts = search.cuts(archive)
    numbers, later = [], []
    for number, image in enumerate(input_of(base).partitions):
        cut = cuts[TopicPartition(INPUT, number)]
        read = image.committed.offset if image.committed is not None else 0
        rows = [
            (offset, int(value))
            for batch in chosen_batches(recovery.repository, cut.files, cut.rows)
            for offset, value in zip(batch.column("offset").to_pylist(), batch.column("value").to_pylist(), strict=True)
        ]
        before = () if taken is None else taken.states[number]
        numbers.append((*before, *(value for offset, value in rows if taken is None or offset >= read)))
        later.append(cut.rows.first_later)
    return Offered(taken, known[archive.savepoint_id], tuple(numbers), tuple(later))


def check(history: History, found: Offered, at: int, by: CutBy) -> None:
    """The records are those of one log, each once: all of the moment, and none that was written after it."""
    base, archive = found.base, found.archive
    assert archive.at + CLOCK_DIFFERENCE_MS >= at, "the archive reaches the moment"
    assert base is None or base.topic_id == archive.topic_id
    for number, numbers in enumerate(found.numbers):
        log = archive.logs[number]
        if base is not None:
            assert log[: len(base.logs[number])] == base.logs[number], "the archive goes on where the log of the base ended"
        assert len(set(numbers)) == len(numbers), "each once"
        # What the application had processed of a log that is no more is in its state, here and there.
        own = set(numbers) & {record.number for record in log}
        assert base is None or set(numbers) - own <= set(base.states[number])
        wanted = log if by is CutBy.TIMESTAMP else log[: found.first_later[number]]
        assert {record.number for record in wanted if record.stamp <= at} <= own, "nothing of the moment is missing"
        assert not [record for record in log if record.number in own and record.stamp > at and record.written > at], "nothing came later"
        if by is CutBy.POSITION:
            assert own == {record.number for record in wanted}
            assert found.first_later[number] is None or log[found.first_later[number] or 0].stamp > at


def promised(history: History, other: RecoveryContext) -> StatusReport:
    """What the page goes by, looked at now, and before by the looks that each savepoint brought."""
    recovery = replace(history.recovery(other), savepoints=history.store, layout=Layout(APPLICATION))
    savepoints = list_savepoints(recovery, None, None).summaries
    return replace(report(), taken_at=history.now, savepoints=savepoints, runs=(), findings=())


def moments(history: History) -> Iterator[int]:
    """Moments at which something may go wrong: around each savepoint, and where records are dated."""
    for taken in history.taken:
        at = taken.at
        yield from (at - MINUTE, at - 1, at, at + 1, at + CLOCK_DIFFERENCE_MS, at + CLOCK_DIFFERENCE_MS + SETTLED_MS, at + 30 * MINUTE)
    yield from sorted({record.stamp for log in history.logs for record in log.records if record.stamp <= history.now})[::3]


CLOCKS = st.sampled_from([0, 0, 0, 0, -1, -2 * HOUR, 5 * MINUTE, 2 * HOUR, 24 * HOUR, YEARS])
PARTITION = st.integers(0, 1)
# What happens next: a call of the history's own methods, which a failed example shows as it is.
Step = Callable[[History], object]
WRITES = st.builds(
    lambda clocks, partition: methodcaller("write", *clocks, partition=partition), st.lists(CLOCKS, min_size=1, max_size=4), PARTITION
)
STEPS: st.SearchStrategy[Step] = st.one_of(
    WRITES,
    WRITES,
    st.builds(methodcaller, st.just("read"), st.none() | st.integers(1, 3), PARTITION),
    st.builds(methodcaller, st.just("read"), st.none(), PARTITION),
    st.builds(methodcaller, st.just("wait"), st.sampled_from([MINUTE, 30 * MINUTE, HOUR, 5 * HOUR])),
    st.sampled_from(
        [
            *[methodcaller("save")] * 4,
            methodcaller("save", exact=False),
            methodcaller("save", archived=False),
            methodcaller("save", ahead=2 * YEARS),
        ]
    ),
    st.just(methodcaller("save")),
    st.builds(methodcaller, st.just("truncate"), st.integers(1, 4), PARTITION),
    st.builds(methodcaller, st.just("expire"), PARTITION),
    st.just(methodcaller("create_again")),
)


def happened(steps: list[Step]) -> History:
    history = History(partitions=2)
    for step in steps:
        step(history)
    history.wait(HOUR)
    return history


W, R, S, H = methodcaller("write", 0, 0, 0), methodcaller("read"), methodcaller("save"), methodcaller("wait", HOUR)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, min_size=6, max_size=22))
@example(steps=[W, R, S, H, W, R, S, methodcaller("truncate", 4), W, W, R, H, S])
@example(steps=[W, R, S, H, W, R, S, methodcaller("create_again"), W, R, H, S])
@example(steps=[W, R, S, H, W, R, methodcaller("expire"), H, W, R, S, H, W, S])
@example(steps=[W, R, S, H, W, methodcaller("save", archived=False), H, W, R, S, H, W, R, S])
@example(steps=[W, methodcaller("write", YEARS, 0), R, S, H, W, R, S, H, W, S])
def test_every_moment_that_is_offered_is_what_really_was_by_then(other: RecoveryContext, steps: list[Step]) -> None:
    history = happened(steps)
    page = promised(history, other)
    for at in moments(history):
        plan = instant(page, at, now=history.now)
        if plan.way is Way.MOMENT and not plan.blockers:
            found = offered(history, other, at)
            assert found.base is not None
            assert plan.base is not None
            assert found.base.manifest.captured_at >= plan.base.captured_at, "the page named a base that fits"
        for by in CutBy:
            for savepoint in (LATEST, NO_STATE):
                try:
                    found = offered(history, other, at, by, savepoint)
                except Refused:
                    continue
                check(history, found, at, by)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, min_size=6, max_size=22))
@example(steps=[W, R, methodcaller("write", 2 * HOUR, 0, 0), S, H, H, H, W, S])
@example(steps=[W, methodcaller("write", 5 * MINUTE, YEARS, 0), S, H, W, S, H, W, S])
def test_an_interval_takes_every_archived_record_of_it_or_is_refused(other: RecoveryContext, steps: list[Step]) -> None:
    history = happened(steps)
    recovery = history.recovery(other)
    for start in range(T0, history.now, HOUR):
        wanted = IntervalSlice(interval=Span(start=start, end=start + HOUR), lateness=10 * MINUTE)
        try:
            own = records_of(recovery, OfInterval(source=APPLICATION, savepoint=NO_STATE, reason="", slice=wanted))
        except Refused:
            continue
        assert own.left == 0
        assert own.taken in {archived(taken, wanted.interval) for taken in history.taken if taken.at + CLOCK_DIFFERENCE_MS >= wanted.closed}


def archived(taken: Taken, interval: Span) -> int:
    """How many records of an interval a savepoint has archived."""
    found = 0
    for image in input_of(taken.manifest).partitions:
        log = taken.logs[image.partition]
        found += sum(log[offset].stamp in interval for copied in image.ranges for offset in range(copied.start, copied.end))
    return found


def test_a_record_that_is_a_little_ahead_hides_nothing_from_an_interval(other: RecoveryContext) -> None:
    history = History()
    history.write(0, 2 * HOUR, 0, 0)
    history.wait(HOUR)
    history.write(0)
    history.save()
    history.wait(HOUR)
    history.write(0)
    history.wait(4 * HOUR)
    history.save()
    recovery = history.recovery(other)

    def taken(hour: int, *, lateness: int = 0, leave_late: bool = False) -> OwnRecords:
        span = Span(start=T0 + hour * HOUR, end=T0 + (hour + 1) * HOUR)
        wanted = IntervalSlice(interval=span, lateness=lateness, leave_late=leave_late)
        return records_of(recovery, OfInterval(source=APPLICATION, savepoint=NO_STATE, reason="", slice=wanted))

    with pytest.raises(Refused, match=r"2 records of the interval .* behind offset 1, which is dated") as refused:
        taken(0)
    assert "a lateness of at least PT3603S" in refused.value.next_step
    assert taken(0, leave_late=True) == OwnRecords(taken=1, left=2)
    assert taken(0, lateness=HOUR + 2_000 + 1) == OwnRecords(taken=3, left=0)
    assert taken(1, lateness=30 * MINUTE) == OwnRecords(taken=1, left=0), "a savepoint shows that the record ahead was there before"


def test_the_moments_between_savepoints_of_a_past_without_accidents_are_all_offered(other: RecoveryContext) -> None:
    history = happened([W, R, S, H, W, R, S, H, W, methodcaller("write", YEARS), R, S, H, W, R, S])
    first, last = history.taken[0].at, history.taken[-1].at
    page = promised(history, other)
    for at in range(first + 1, last, 7 * MINUTE):
        found, plan = offered(history, other, at), instant(page, at)
        assert found.archive is history.taken[-1]
        assert found.base is not None
        assert plan.base is not None
        assert (plan.way, plan.base.savepoint_id) == (Way.MOMENT, found.base.manifest.savepoint_id)


@pytest.mark.parametrize("last", [False, True])
def test_what_a_rescale_has_made_is_the_base_of_no_moment_until_it_is_named(other: RecoveryContext, *, last: bool) -> None:
    history = happened([W, R, S] if last else [W, R, S, H, W, R, S])
    recovery, known = history.recovery(other), history.taken[0].manifest
    input_topic = input_of(known)
    log = RescaledLog(
        topic=INPUT, old=1, new=len(input_topic.partitions), form=None, records=input_topic.rows,
        keys_before=1, keys_after=1, digest_before="d", digest_after="d",
    )  # fmt: skip
    origin = RescaledFrom(savepoint_id=known.savepoint_id, topics=(log,))
    for run in ("rescale", "another"):
        made = replace(known, savepoint_id=same_moment(known.savepoint_id, run), provenance=replace(known.provenance, rescaled_from=origin))
        history.store.publish(made)
    wanted, as_of = RequestedBase(source=APPLICATION, savepoint=LATEST), AsOf(moment=known.captured_at, by=CutBy.TIMESTAMP)
    # Nor are its inputs an archive: of those that were created again it may have only what was unread.
    for savepoint, found in ((LATEST, known),) if last else ((LATEST, known), (made.savepoint_id, made)):
        search = BaseSavepointFinder(recovery=recovery, wanted=replace(wanted, savepoint=savepoint), as_of=as_of)
        assert [one.savepoint_id for one in search.with_state()] == [found.savepoint_id, history.taken[-1].manifest.savepoint_id]


def test_a_log_that_was_truncated_and_written_anew_is_not_joined_to_a_state_of_before(other: RecoveryContext) -> None:
    history = History()
    history.write(*[0] * 20)
    history.read(10)
    before = history.save()
    history.wait(HOUR)
    history.write(0)
    history.truncate(21)
    history.write(*[0] * 40)
    history.read()
    after = history.save()
    history.wait(HOUR)
    whole = offered(history, other, before.at)
    assert (whole.base, whole.archive) == (before, before)
    assert whole.numbers == (tuple(range(1, 21)),), "as the log was then"
    with pytest.raises(Refused, match=r"the archive of in-0 was begun anew since"):
        offered(history, other, before.at + MINUTE)
    found = offered(history, other, after.at)
    assert (found.base, found.archive) == (after, after)


def test_versions_of_keys_that_were_compacted_away_since_come_from_the_archive_that_has_them(other: RecoveryContext) -> None:
    history = History(settings={"cleanup.policy": "compact", "delete.retention.ms": str(HOUR)})
    history.write(0, 0)
    history.read(1)
    first = history.save()
    history.write(0)
    second = history.save()
    history.wait(5 * HOUR)  # backups paused: tombstones may be gone, and so the archive begins anew
    history.write(0)
    history.read()
    third = history.save()
    history.wait(HOUR)
    found = offered(history, other, second.at)
    assert (found.base, found.archive) == (second, second)
    found = offered(history, other, first.at + 1)
    assert (found.archive, found.numbers) == (second, ((1, 2),))
    assert offered(history, other, third.at).archive is third


def test_moments_that_an_older_savepoint_has_whole_are_offered_behind_a_gap(other: RecoveryContext) -> None:
    history = History()
    history.write(0, 0)
    history.read()
    first = history.save()
    history.wait(30 * MINUTE)
    history.write(0, 0)
    history.read()
    second = history.save()
    history.wait(5 * HOUR)
    history.write(0, 0)
    history.read()
    history.expire()
    history.write(0)
    third = history.save()
    history.wait(HOUR)
    found = offered(history, other, first.at + 10 * MINUTE)
    assert (found.base, found.archive) == (first, second)
    with pytest.raises(Refused, match=r"offsets 4\.\.5 of in-0 are missing from the archive"):
        offered(history, other, second.at + HOUR)
    assert offered(history, other, third.at).archive is third
