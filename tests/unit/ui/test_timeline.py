"""The images: what is in them, and that nothing leaves their frame."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.kafka_types import Consistency
from streams_recovery.core.status.report import ArchiveStatus, SavepointSummary
from streams_recovery.ui.charts import HEIGHT, WIDTH, bars, charts, curve
from streams_recovery.ui.overview import size
from streams_recovery.ui.timeline import Span, default_window, gaps, shown, timeline
from tests.support.examples.statuses import HOUR, NOW, report, summary

DAY = 24 * HOUR


def marks(image: str) -> list[str]:
    return re.findall(r'class="mark ([^"]+)"', image)


def test_each_label_has_a_shape_of_its_own() -> None:
    known = [summary(number, consistency=label) for number, label in enumerate(Consistency)]
    image = timeline(replace(report(), savepoints=tuple(known), runs=()), Span(NOW - 6 * HOUR, NOW + HOUR), NOW)
    paths = dict(re.findall(r'class="mark (\w+)[^"]*" d="M[\d.]+ [\d.]+([^"]+)"', image))
    assert paths.keys() == {label.value for label in Consistency}
    assert len(set(paths.values())) == len(paths)


def test_pins_expiry_runs_and_failures_show() -> None:
    image = timeline(report(), Span(NOW - 48 * HOUR, NOW), NOW)
    assert image.count('class="ring"') == 1
    assert "exact hollow" in image
    assert (image.count('class="flag drill"'), image.count('class="failed"')) == (2, 1)
    assert 'id="hand"' in image


def test_a_restore_that_did_not_get_to_its_end_is_a_cross_and_one_that_runs_is_a_flag() -> None:
    left = replace(report().runs[1], ended_at=None, succeeded=None, outcome="failed after stopped")
    for run, flags, crosses in ((left, 0, 1), (replace(left, running=True), 1, 0)):
        image = timeline(replace(report(), runs=(run,)), Span(NOW - 48 * HOUR, NOW), NOW)
        assert (image.count('class="flag restore"'), image.count('class="failed"')) == (flags, crosses)


def test_a_thousand_savepoints_give_an_image_of_some_hundred_marks_and_lose_no_pin() -> None:
    status = report(savepoints=1_000)
    image = timeline(status, shown(status, "all", NOW), NOW)
    assert len(marks(image)) <= 260
    assert len(image) < 80_000
    assert image.count('class="ring"') == sum(one.pinned for one in status.savepoints)


def test_each_look_of_an_archiver_has_a_point_and_a_day_of_them_some_hundred() -> None:
    status, span = report(), Span(NOW - 24 * HOUR, NOW)
    assert 'class="look"' not in timeline(status, span, NOW)
    archive = ArchiveStatus(working=True, said_at=NOW, safe_at=NOW, waiting=0, files=1, looks=(NOW - 30 * HOUR, NOW - 3 * HOUR, NOW - HOUR))
    image = timeline(replace(status, archive=archive), span, NOW)
    assert image.count('class="look"') == 2, "what is before is not shown"
    assert "in the archive" in image
    many = replace(archive, looks=tuple(range(NOW - 24 * HOUR, NOW, 60_000)))
    assert 400 < timeline(replace(status, archive=many), span, NOW).count('class="look"') <= 501


def test_times_without_a_recent_exact_savepoint_are_shaded() -> None:
    known = [summary(number) for number in (0, 1, 5)]
    assert gaps(known, Span(NOW - 6 * HOUR, NOW), 3_600.0) == [Span(NOW - 4 * HOUR, NOW - HOUR)]
    assert gaps(known, Span(NOW - 6 * HOUR, NOW + 2 * HOUR), 3_600.0)[-1] == Span(NOW + HOUR, NOW + 2 * HOUR)
    assert gaps([], Span(0, 5), 3_600.0) == [Span(0, 5)]
    assert gaps([summary(0, consistency=Consistency.AHEAD)], Span(NOW - HOUR, NOW), 60.0) == [Span(NOW - HOUR, NOW)]


def test_without_an_objective_three_times_the_usual_distance_is_a_gap() -> None:
    known = [summary(number) for number in (0, 1, 2, 3, 9)]
    assert gaps(known, Span(NOW - 9 * HOUR, NOW), None) == [Span(NOW - 6 * HOUR, NOW - 3 * HOUR)]


@given(
    times=st.lists(st.integers(NOW - 3 * DAY, NOW), max_size=30), objective=st.none() | st.floats(1, 1e6), length=st.integers(HOUR, 4 * DAY)
)
def test_gaps_are_inside_what_is_shown_and_do_not_overlap(times: list[int], objective: float | None, length: int) -> None:
    span = Span(NOW - length, NOW)
    known: list[SavepointSummary] = [summary(number, at=at) for number, at in enumerate(times)]
    found = gaps(known, span, objective)
    assert all(span.begin <= gap.begin < gap.end <= span.end for gap in found)
    assert all(first.end <= second.begin for first, second in itertools.pairwise(found))


def test_the_window_is_the_shortest_with_several_savepoints() -> None:
    assert default_window(report(), NOW) == "day"
    assert default_window(report(savepoints=2), NOW) == "all"


values = st.lists(st.tuples(st.integers(0, 10**9), st.none() | st.floats(0, 1e15)), max_size=40)


@given(points=values, objective=st.none() | st.floats(0, 1e15))
def test_curves_and_bars_stay_inside_and_say_their_numbers(points: list[tuple[int, float | None]], objective: float | None) -> None:
    points.sort(key=lambda point: point[0])
    for draw in (curve, bars):
        image = draw(points, title="Size <of> state", say=size, objective=objective)
        if all(value is None for _, value in points):
            assert image is None
            continue
        root = ET.fromstring(str(image))
        assert root.attrib["aria-label"].startswith("Size <of> state")
        for number in re.findall(r"[ML ](-?[\d.]+) (-?[\d.]+)", " ".join(path.attrib["d"] for path in root.iter("path"))):
            assert -0.1 <= float(number[0]) <= WIDTH + 0.1
            assert -0.1 <= float(number[1]) <= HEIGHT + 0.1


def test_a_curve_is_broken_where_nothing_was_measured() -> None:
    image = curve([(0, 1.0), (1, 2.0), (2, None), (3, 1.0)], title="State", say=size)
    assert str(image).count('class="line"') == 2


def test_charts_without_values_have_no_image() -> None:
    empty = replace(report(), history=(), savepoints=(), runs=(), repository_bytes=None, newest_exact=None)
    assert {chart.image for chart in charts(empty)} == {None}
    assert all(chart.image is not None for chart in charts(report()))
