"""What the plan of a restore to a moment says besides its figures."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from streams_recovery.core.errors import Refused
from streams_recovery.core.jobs.spec import CutBy, RowCut, RowSlice
from streams_recovery.core.kafka_types import TopicPartition, TopicRole
from streams_recovery.core.repository.manifest import TopicImage
from streams_recovery.core.restore.parts.moment import MomentPart, PointInTime
from streams_recovery.core.restore.point_in_time import AsOf, LogCut
from streams_recovery.core.restore.rebuild import Placed
from streams_recovery.operations.restore import moments
from streams_recovery.operations.restore.moments import MomentSource, moment_warnings
from tests.support.examples.savepoints import image, manifest_of, segment, topic

HOUR = str(3_600_000)


def said(role: TopicRole, *, made: bool = True, first_later: int | None = 4, **config: str) -> tuple[str, ...]:
    found: TopicImage = replace(topic((image((segment(0, 10, [0, 4]),)),), name="in", role=role), config=config)
    rows = RowCut(by=CutBy.TIMESTAMP, moment=9, first_later=first_later, rows=1, late=0)
    begin = MomentSource(
        manifest=manifest_of(found),
        cuts={TopicPartition("in", 0): LogCut(files=(), rows=rows)},
        part=MomentPart(point=PointInTime(as_of=AsOf(moment=9, by=CutBy.TIMESTAMP), with_state=True, archive="a")),
    )
    return moment_warnings(begin, [Placed(image=found, name="past.in", made=made)])


def test_an_input_that_is_cut_at_the_moment_needs_no_words() -> None:
    assert said(TopicRole.INPUT) == ()


def test_what_is_left_out_of_an_interval_and_why_an_archive_is_older_is_told() -> None:
    part = RowSlice(since=1, first=None, stop=4, own=1, lead=0, wrong=1, left=2, around=3)
    rows = RowCut(by=CutBy.TIMESTAMP, moment=9, first_later=4, rows=1, late=0, slice=part)
    begin = MomentSource(
        manifest=manifest_of(),
        cuts={TopicPartition("in", 0): LogCut(files=(), rows=rows)},
        part=MomentPart(point=PointInTime(as_of=AsOf(moment=9, by=CutBy.TIMESTAMP), with_state=True, archive="a")),
        passed_archive="the archive of in-0 was begun anew since",
    )
    wrong, left, around, older = moment_warnings(begin, [])
    assert "1 records are dated later than they were written" in wrong
    assert left.startswith(
        "2 records of the interval come behind a record that is later than lateness allows, and are left out. They are in in-0 (2)"
    )
    assert around.startswith("3 records around the interval")
    assert (
        older
        == "the input is that of savepoint a, and what newer savepoints have of it is not looked at: the archive of in-0 was begun anew since"
    )


def test_an_archive_that_just_ends_is_named() -> None:
    [warning] = said(TopicRole.INPUT, first_later=None)
    assert "nothing later than the moment is archived of in-0" in warning


@pytest.mark.parametrize(
    ("lag", "warned"), [({}, True), ({"min.compaction.lag.ms": "3599999"}, True), ({"min.compaction.lag.ms": HOUR}, False)]
)
@pytest.mark.parametrize("role", [TopicRole.INPUT, TopicRole.GLOBAL])
def test_versions_that_may_have_been_compacted_away_are_named(role: TopicRole, lag: dict[str, str], warned: bool) -> None:
    warnings = said(role, **{"cleanup.policy": "compact,delete"}, **lag)
    assert any("compacted away before a savepoint copied it, in in" in warning for warning in warnings) == warned
    assert said(role, **{"cleanup.policy": "delete"}, **lag) == ()


def test_a_global_that_is_read_as_it_is_now_is_named() -> None:
    assert said(TopicRole.GLOBAL, made=False) == ("global topics are read as they are now, not as of the moment: past.in",)


def test_a_look_that_was_taken_before_shortens_the_wait_by_what_has_passed_since(monkeypatch: pytest.MonkeyPatch) -> None:
    tp, end, waited = TopicPartition("in", 0), [5], list[float]()
    recovery: Any = SimpleNamespace(
        transactions=SimpleNamespace(written=lambda tps: dict.fromkeys(tps, ())),
        cluster=SimpleNamespace(high_watermarks=lambda tps: dict.fromkeys(tps, end[0])),
    )
    monkeypatch.setattr(moments, "pause", lambda seconds, _: waited.append(seconds))
    first = moments.logs_seen(recovery, [tp])
    moments.check_still(recovery, [tp], 30)
    moments.check_still(recovery, [tp], 30, first=first, passed=12)
    assert waited == [30, 18]
    end[0] += 1
    moments.check_still(recovery, [tp], 30)
    with pytest.raises(Refused, match="within 40 s something came"):
        moments.check_still(recovery, [tp], 30, first=first, passed=40)
