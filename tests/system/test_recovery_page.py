"""The page *Recovery* as people use it: a browser, a real Airflow, a broker and an application. An operator logs in, looks, picks a moment, restores
and approves; a viewer cannot; a configuration that is broken is seen. With another broker an operator moves the application there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, FrameLocator, Locator, Page, expect

from embedded.airflow import Airflow
from embedded.applications import Applications
from embedded.demo.checks import differences, wait_counted
from embedded.demo.disaster import destroy
from embedded.stack import APPLICATION
from examples.order_processing.truth import truth
from tests.support.airflow.recovery_page import MOUNTED
from tests.support.browser import Watched, chromium
from tests.support.stack.dag_runs import PATIENCE, Play
from tests.support.stack.stage import stage
from tests.support.stack.two_sites import THERE, AtTwoSites, content, two_sites, where
from tests.support.story import play_through

pytestmark = [pytest.mark.system, pytest.mark.deep, pytest.mark.timeout(3_600)]

PATIENCE_MS = PATIENCE * 1_000


@dataclass(frozen=True)
class AtTheScreen:
    """The stage, and somebody who looks at it."""

    play: Play
    airflow: Airflow
    browser: Browser

    def tab(self, user: str) -> Watched:
        """A tab in which ``user`` has logged in, as people do."""
        tab = Watched.tab(self.browser.new_context(viewport={"width": 1280, "height": 900}), self.airflow.url)
        tab.page.goto(self.airflow.url)
        tab.page.get_by_label("Username").fill(user)
        tab.page.locator("input[type=password]").fill(self.airflow.password_of(user))
        tab.page.get_by_role("button", name="Sign in").click()
        expect(tab.page.get_by_role("link", name="Recovery").first).to_be_visible(timeout=60_000)
        return tab

    def address(self, rest: str = "/") -> str:
        """Of the page, without Airflow around it."""
        return f"{self.airflow.url}{MOUNTED}{rest}"


@pytest.fixture
def screen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AtTheScreen]:
    with stage(tmp_path_factory.mktemp("stage"), kind=Applications) as on, chromium() as browser:
        # Before Airflow starts: it reads files again only every ten minutes here.
        broken = Path(on.stack.variables["STREAMS_RECOVERY_CONFIG_DIR"]) / "returns.yaml"
        broken.write_text("version: 1\nname: returns\nbackup:\n  consistancy: {}\n")
        airflow = Airflow(on.stack, on.processes)
        client = airflow.start()
        yield AtTheScreen(Play(on, client), airflow, browser)
        client.close()


def test_an_application_is_looked_at_restored_and_refused_in_a_browser(screen: AtTheScreen) -> None:
    play_through(STORY, screen)


def page_in_airflow(page: Page) -> FrameLocator:
    """Airflow shows the page in a frame."""
    return page.frame_locator("iframe")


def run_of(page: Page | FrameLocator, dag_id: str) -> Locator:
    """What the page shows of the run that somebody has begun there. Runs of the schedule may be beside it."""
    return page.locator("article.run").filter(has_text=dag_id).filter(has_text="manual__")


def an_operator_finds_the_page_in_the_navigation_and_takes_a_savepoint(screen: AtTheScreen) -> None:
    tab = screen.tab("operator")
    tab.page.get_by_role("link", name="Recovery").first.click()
    inside = page_in_airflow(tab.page)
    # The monitor is on by itself: it may have looked before anybody came.
    expect(inside.get_by_role("link", name=APPLICATION, exact=True)).to_be_visible(timeout=60_000)
    tab.picture("airflow-navigation")
    screen.play.succeed("streams_monitor")
    inside.get_by_role("link", name=APPLICATION, exact=True).click()
    inside.get_by_role("link", name="Take a savepoint…").click()
    inside.get_by_label("Reason").fill("before the experiment")
    inside.get_by_role("button", name="Take a savepoint").click()
    expect(run_of(inside, f"streams_backup_{APPLICATION}").get_by_text("ended: success")).to_be_visible(timeout=PATIENCE_MS)
    assert screen.play.on.recovery.savepoints.latest() is not None
    assert tab.elsewhere == []
    tab.page.context.close()


def everything_is_lost_and_the_page_says_so(screen: AtTheScreen) -> None:
    on = screen.play.on
    on.generator.feed(1_000)
    wait_counted(on.recovery, on.generator.sent, seconds=180)
    destroy(on.recovery)
    screen.play.succeed("streams_monitor")
    tab = screen.tab("operator")
    tab.page.goto(screen.address(f"/applications/{APPLICATION}"))
    expect(tab.page.get_by_text(re.compile("trouble|needs attention")).first).to_be_visible()
    tab.picture("application-destroyed")
    tab.page.context.close()


def an_operator_picks_the_savepoint_restores_and_approves(screen: AtTheScreen) -> None:
    on = screen.play.on
    tab = screen.tab("operator")
    tab.page.goto(screen.address(f"/applications/{APPLICATION}"))
    tab.page.locator("input[type=range]").press("ArrowLeft")
    tab.page.get_by_role("link", name="Restore…").click()
    expect(tab.page.get_by_label("Application")).to_have_value(APPLICATION)
    latest = on.recovery.savepoints.latest()
    assert latest is not None
    expect(tab.page.get_by_label("Savepoint", exact=True)).to_have_value(latest.savepoint_id)
    tab.page.get_by_label("Replace running state").check()
    tab.page.get_by_label(re.compile("Confirmation")).fill(on.recovery.application_id)
    tab.page.get_by_label("Reason").fill("the cluster lost its topics")
    tab.page.get_by_role("button", name="Restore").click()
    typed = tab.page.get_by_label(re.compile("To approve, type"))
    expect(typed).to_be_visible(timeout=PATIENCE_MS)
    tab.picture("restore-waits-for-approval")
    approve = tab.page.get_by_role("button", name="Approve")
    expect(approve).to_be_disabled()
    typed.fill(APPLICATION)
    approve.click()
    expect(tab.page.get_by_text("Approved.")).to_be_visible(timeout=60_000)
    # What has been typed into keeps the list of runs as it is.
    tab.page.locator("h1").click()
    expect(run_of(tab.page, "streams_restore_full").get_by_text("ended: success")).to_be_visible(timeout=PATIENCE_MS)
    tab.picture("restore-succeeded")
    tab.page.context.close()
    on.await_running()
    wait_counted(on.recovery, on.generator.sent, seconds=180)
    assert set(differences(on.recovery, truth(on.generator.world, range(on.generator.sent))).values()) == {0}


def a_viewer_sees_it_all_and_can_start_nothing(screen: AtTheScreen) -> None:
    tab = screen.tab("viewer")
    tab.page.goto(screen.address(f"/applications/{APPLICATION}"))
    expect(tab.page.get_by_text("Timeline")).to_be_visible()
    for button in ("Restore…", "Take a savepoint…", "Try it (drill)…"):
        expect(tab.page.get_by_text(button)).to_have_count(0)
    assert tab.page.goto(screen.address(f"/applications/{APPLICATION}/start/restore")).status == 403  # type: ignore[union-attr]
    # And without the page: Airflow's own API, with the browser's cookies.
    asked = {"logical_date": None, "conf": {"application": APPLICATION}}
    answer = tab.page.request.post(f"{screen.airflow.url}/api/v2/dags/streams_restore_full/dagRuns", data=asked)
    assert answer.status == 403
    tab.page.context.close()


def a_configuration_that_is_broken_is_seen(screen: AtTheScreen) -> None:
    tab = screen.tab("admin")
    tab.page.goto(screen.address())
    row = tab.page.get_by_role("listitem").filter(has_text="returns")
    expect(row.get_by_text("unknown key backup.consistancy")).to_be_visible()
    expect(tab.page.get_by_role("listitem").filter(has_text=APPLICATION).first).to_be_visible()
    tab.picture("one-configuration-broken")
    tab.page.context.close()


STORY = (
    an_operator_finds_the_page_in_the_navigation_and_takes_a_savepoint,
    everything_is_lost_and_the_page_says_so,
    an_operator_picks_the_savepoint_restores_and_approves,
    a_viewer_sees_it_all_and_can_start_nothing,
    a_configuration_that_is_broken_is_seen,
)


def test_an_application_is_moved_to_another_site_in_a_browser(tmp_path_factory: pytest.TempPathFactory) -> None:
    with two_sites(tmp_path_factory.mktemp("stage"), guarantee="exactly_once_v2", orders=1_000) as sites, chromium() as browser:
        airflow = Airflow(sites.home.stack, sites.home.processes)
        client = airflow.start()
        screen = AtTheScreen(Play(sites.home, client), airflow, browser)
        screen.play.succeed(f"streams_backup_{APPLICATION}")
        screen.play.succeed("streams_monitor")
        an_operator_moves_it(screen, sites)
        a_viewer_sees_where_it_is_and_cannot_move_it(screen)
        client.close()


def an_operator_moves_it(screen: AtTheScreen, sites: AtTwoSites) -> None:
    tab = screen.tab("operator")
    tab.page.goto(screen.address(f"/applications/{APPLICATION}"))
    expect(tab.page.get_by_text(f"Belongs to the site primary, and was never moved. Other sites: {THERE}.")).to_be_visible()
    tab.picture("application-with-sites")
    tab.page.get_by_role("link", name="Fail over…").click()
    expect(tab.page.get_by_label("Application", exact=True)).to_have_value(APPLICATION)
    expect(tab.page.get_by_label("Site", exact=True)).to_have_value(THERE)
    latest = sites.home.recovery.savepoints.latest()
    assert latest is not None
    expect(tab.page.get_by_label("Savepoint", exact=True)).to_have_value(latest.savepoint_id)
    tab.page.get_by_label("Reason").fill("the cluster is given up")
    tab.picture("failover-form")
    tab.page.get_by_role("button", name="Fail over").click()
    typed = tab.page.get_by_label(re.compile("To approve, type"))
    expect(typed).to_be_visible(timeout=PATIENCE_MS)
    expect(tab.page.get_by_text(f"Move {APPLICATION} to another site?")).to_be_visible()
    tab.picture("failover-waits-for-approval")
    assert where(sites.home.recovery) == ("primary", True, ()), "nothing is moved before it is approved"
    typed.fill(APPLICATION)
    tab.page.get_by_role("button", name="Approve").click()
    expect(tab.page.get_by_text("Approved.")).to_be_visible(timeout=60_000)
    # What has been typed into keeps the list of runs as it is.
    tab.page.locator("h1").click()
    expect(run_of(tab.page, "streams_failover").get_by_text("ended: success")).to_be_visible(timeout=PATIENCE_MS)
    assert where(sites.there.recovery) == (THERE, True, ())
    tab.page.reload()
    site = tab.page.locator("#site")
    expect(site).to_contain_text(f"Belongs to the site {THERE} since", timeout=60_000)
    expect(site).to_contain_text("moved from primary by the run")
    expect(site).to_contain_text(": the cluster is given up.")
    tab.picture("application-moved")
    tab.page.goto(screen.address(f"/applications/{APPLICATION}/start/failover"))
    expect(tab.page.get_by_label("Site", exact=True)).to_have_value("primary")
    assert tab.elsewhere == []
    tab.page.context.close()
    sites.there.await_running()
    orders = sum(map(len, content(sites.there.recovery, "orders").values()))
    wait_counted(sites.there.recovery, orders, seconds=180)
    assert set(differences(sites.there.recovery, truth(sites.there.generator.world, range(orders))).values()) == {0}


def a_viewer_sees_where_it_is_and_cannot_move_it(screen: AtTheScreen) -> None:
    tab = screen.tab("viewer")
    tab.page.goto(screen.address(f"/applications/{APPLICATION}"))
    expect(tab.page.locator("#site")).to_contain_text(f"Belongs to the site {THERE} since")
    expect(tab.page.get_by_text("Fail over…")).to_have_count(0)
    assert tab.page.goto(screen.address(f"/applications/{APPLICATION}/start/failover")).status == 403
    tab.page.context.close()
