"""Numbers, sizes and times of one thing are the same figures on each screen: commands, logs and pages."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.cli.savepoints import cells
from streams_recovery.core import codec
from streams_recovery.core.kafka_types import Consistency, Profile
from streams_recovery.core.repository.publication import Publication, SavepointFacts
from streams_recovery.core.repository.survival import survives_text
from streams_recovery.core.restore.estimate import Estimate
from streams_recovery.core.status.info import PresentFacts, info_lines, info_of_report, info_of_repository
from streams_recovery.core.status.report import Objectives, SavepointSummary, SitesStatus, StatusReport, come_by, newest_exact
from streams_recovery.core.words import count, moment, new_id, size, span
from streams_recovery.operations.savepoint import PublishedSavepoint
from streams_recovery.ui import overview
from streams_recovery.ui.charts import charts
from streams_recovery.ui.pages import page, view_of
from streams_recovery.ui.plan import plan_rows
from streams_recovery.ui.statuses import KnownStatus, StoredStatus
from tests.support.examples.statuses import HOUR, NOW, report, summary

DAY = 24 * HOUR
LARGE = st.integers(0, 10**13)


def text_of(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


@st.composite
def savepoints(draw: st.DrawFn, number: int = 0) -> SavepointSummary:
    """A savepoint of any size, taken in the hour that ``number`` says."""
    return replace(
        summary(number, at=NOW - number * HOUR + draw(st.integers(0, HOUR - 1_000))),
        consistency=draw(st.sampled_from(Consistency)),
        profile=draw(st.sampled_from(Profile)),
        records=draw(LARGE),
        files=draw(LARGE),
        new_bytes=draw(LARGE),
        held_seconds=draw(st.floats(0, 10**6)),
        survives_cluster_loss=draw(st.booleans()),
    )


@st.composite
def statuses(draw: st.DrawFn) -> StatusReport:
    """A status with one savepoint, which is exact."""
    one = replace(draw(savepoints()), consistency=Consistency.EXACT)
    return replace(
        report(savepoints=1),
        savepoints=(one,),
        newest=one,
        newest_exact=one,
        savepoint_count=draw(st.integers(1, 10**7)),
        repository_bytes=draw(LARGE),
        estimate=Estimate(seconds={"load": draw(st.floats(1, 10**7))}, measured=0),
        objectives=Objectives(newest_age_seconds=None, recovery_seconds=None),
    )


def info_text(found: StatusReport, now: int) -> str:
    present = PresentFacts(now=now, objective=None, loss=None, sealed=False, sites=SitesStatus(), archive=None)
    return "\n".join([*info_lines(info_of_report(found, present), now), ""])


def of(kind: type[SavepointFacts], one: SavepointSummary, **more: object) -> SavepointFacts:
    return kind(**codec.fields_of(SavepointFacts, one), **more)


def published(one: SavepointSummary) -> Publication:
    found = of(Publication, one, manifest="m", bytes=1, sha256="0" * 64, tables={}, lost_with_cluster=())
    assert isinstance(found, Publication)
    return found


def known(found: StatusReport) -> KnownStatus:
    return KnownStatus(stored=StoredStatus(key="1", report=found), asked=True)


def application_page(found: StatusReport, now: int) -> str:
    view = view_of(found, "", "", now)
    answer = page(
        "application.html",
        root="../",
        now=now,
        row=overview.overview(found.name, known(found), now),
        report=found,
        under_way=None,
        sealed=False,
        sites=None,
        view=view,
        windows=[],
        rows=plan_rows(view.plan),
        actions=(),
        charts=charts(found),
        topics=found.topics,
        runs="{}",
        compares="",
        first=(),
        inspections=[],
        unread=None,
    )
    return bytes(answer.body).decode()


def savepoint_page(found: StatusReport, one: SavepointSummary, now: int) -> str:
    answer = page(
        "savepoint.html",
        root="../../../",
        now=now,
        name=found.name,
        application_id=found.application_id,
        savepoint_id=one.savepoint_id,
        summary=one,
        first=(),
        detail=None,
        problem=None,
        built_on_it=[],
        known=known(found),
        check=None,
        used_by=[],
        commands=(),
        inspections=[],
        unread=None,
        actions=(),
    )
    return bytes(answer.body).decode()


@given(statuses(), st.integers(0, 30 * DAY))
def test_a_savepoint_has_the_same_figures_on_every_screen(found: StatusReport, later: int) -> None:
    [one], now = found.savepoints, NOW + HOUR + later
    told = of(PublishedSavepoint, one, manifest_key="m", new_records=7, fetched=7, tail_records=0, topics=1, warnings=())
    assert isinstance(told, PublishedSavepoint)
    [row] = [line for line in application_page(found, now).split("<tr>") if f"savepoints/{one.savepoint_id}" in line]
    screens = {
        "info": info_text(found, now),
        "savepoints list": " | ".join(cells(one.savepoint_id, published(one), "-", "-")),
        "backup, and the log of a run": told.text(()),
        "the page of the application": text_of(row),
        "the page of the savepoint": text_of(savepoint_page(found, one, now)),
    }

    def shown(figure: str, *, but: tuple[str, ...] = ()) -> None:
        places = {name for name in screens if re.search(rf"(?<!\d)(?<!\d[,.]){re.escape(figure)}(?!\d|[,.]\d)", screens[name])}
        assert places == set(screens) - set(but), (figure, {name: screens[name] for name in set(screens) - places})

    shown(count(one.records))
    shown(moment(one.captured_at), but=("backup, and the log of a run",))
    shown(f"{span((now - one.captured_at) / 1000)} ago", but=("backup, and the log of a run", "savepoints list"))
    assert f"{count(one.files)} files" in screens["info"]
    assert f"{count(one.files)} files, {size(one.new_bytes or 0)} of them new" in screens["the page of the savepoint"]
    assert size(one.new_bytes or 0) in screens["the page of the application"]
    assert survives_text(survives=one.survives_cluster_loss, unsaved=()) in screens["info"]
    assert survives_text(survives=one.survives_cluster_loss, unsaved=()) in screens["backup, and the log of a run"]


@given(statuses(), st.integers(0, 30 * DAY))
def test_an_application_has_the_same_figures_at_a_glance_and_on_its_page(found: StatusReport, later: int) -> None:
    now = NOW + HOUR + later
    glance, shown = info_text(found, now), text_of(application_page(found, now))
    assert found.estimate is not None
    takes = span(found.estimate.total)
    assert f"a restore takes about: {takes}\n" in glance
    assert f"would take about {takes} " in shown
    assert f"savepoints: {count(found.savepoint_count)}, {size(found.repository_bytes or 0)} in the repository" in glance
    assert f"{count(found.savepoint_count)} savepoint" in shown
    assert size(found.repository_bytes or 0) in shown


@given(st.lists(st.tuples(st.sampled_from(Consistency), st.sampled_from(Profile)), max_size=6), st.integers(0, 7))
def test_the_newest_savepoint_is_the_same_one_with_and_without_a_monitor(kinds: list[tuple[Consistency, Profile]], ahead: int) -> None:
    taken = [
        replace(
            summary(0, at=NOW + number * HOUR), savepoint_id=new_id(NOW + number * HOUR, str(number)), consistency=label, profile=profile
        )
        for number, (label, profile) in enumerate(kinds)
    ]
    now = NOW + (len(taken) - ahead) * HOUR
    present = PresentFacts(now=now, objective=None, loss=None, sealed=False, sites=SitesStatus(), archive=None)
    alone = info_of_repository("orders", "orders-app", {one.savepoint_id: published(one) for one in taken}, present, forged={})
    come = come_by(taken, now)
    seen = replace(report(savepoints=1), savepoint_count=len(taken), newest=come[-1] if come else None, newest_exact=newest_exact(come))
    both = info_of_report(seen, present), alone
    for figure in ("newest", "newest_exact", "savepoints", "age_seconds"):
        assert getattr(both[0], figure) == getattr(both[1], figure), figure
