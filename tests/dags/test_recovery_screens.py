"""Each state of the page *Recovery* in a browser: wide and narrow, light and dark. The pictures are in build/screens."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from playwright.sync_api import Browser, Route, expect
from starlette.routing import Mount

from embedded.ports import HOST, free_ports
from streams_recovery.cli.context import recovery_of
from streams_recovery.core.checks.check import Severity
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.seal import SEALED, ForgedRecord, forged_text
from streams_recovery.core.repository.sites import PRIMARY, Fence, SiteEntry
from streams_recovery.core.status.report import ArchiveStatus, Health, Objectives, StatusFinding
from streams_recovery.core.words import new_id
from streams_recovery.storage.lock import ApplicationLock
from streams_recovery.storage.progress_store import store_progress
from streams_recovery.storage.site_log import site_log
from tests.support.airflow.recovery_page import MOUNTED, Site, at_sites, dag_ids, log_in, parsed, two_applications
from tests.support.browser import Watched, chromium, looks
from tests.support.examples.manifests import copied, manifest_with, partition
from tests.support.examples.statuses import HOUR, NOW, PROGRESS, report, summary

pytestmark = [pytest.mark.deep, pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Screen:
    """A state of the page: what is done before, what is opened, and what has to be read there."""

    address: str
    says: str
    arrange: Callable[[Site], None] = lambda _site: None
    role: str | None = "user"
    status: int = 200


def nothing_configured(site: Site) -> None:
    for file in site.configs.iterdir():
        file.unlink()


def not_observed(site: Site) -> None:
    site.configure("returns")
    parsed(dag_ids("orders", "payments", "returns"))


def lost_repository(site: Site) -> None:
    site.lose_repository()


def no_savepoint(site: Site) -> None:
    site.observed(report(savepoints=0, now=current(), health=Health.TROUBLE))


def not_in_use(site: Site) -> None:
    fields = {"findings": (), "advice": (), "topics": (), "runs": (), "history": (), "estimate": None, "next_savepoint_at": None}
    site.observed(report(savepoints=0, now=current(), health=Health.UNUSED, repository_bytes=0, **fields))


def in_trouble(site: Site) -> None:
    late = StatusFinding(
        kind="savepoint-age",
        subject="",
        severity=Severity.CRITICAL,
        text="the newest exact savepoint is 3 hours old, and backup.objective says 1 hour",
        remedies=("streams-recovery backup orders",),
        runbook="runbooks/README.md",
        numbers={"seconds": 3.0 * 3_600},
    )
    site.observed(report(now=current() - 3 * HOUR, taken_at=current(), health=Health.TROUBLE, findings=(late,)))


def observed_now(site: Site) -> None:
    site.observed(report(now=current() - 60_000))


def in_progress(site: Site) -> None:
    observed_now(site)
    repository, layout, at = site.repository(), Layout("orders-app"), current()
    ApplicationLock(repository, layout, lambda: at).acquire("restore manual__1", lease_seconds=600, purpose="restore of orders-app")
    store_progress(repository, layout.work(new_id(at, "manual__1"), "load-result.0001"), 1, replace(PROGRESS, at=at))


def sealed(site: Site) -> None:
    site.seal("orders")
    observed_now(site)


def forged(site: Site) -> None:
    site.seal("orders")
    records = [Layout("orders-app").manifest(new_id(current() + HOUR, "forged")), "orders-app/pins/000000000001.json"]
    named = tuple(ForgedRecord(key=key, why="it has no seal") for key in records)
    found = StatusFinding(
        kind="records-forged",
        subject="",
        severity=Severity.CRITICAL,
        text=f"{forged_text(2)}: {records[0]} (it has no seal); {records[1]} (it has no seal)",
        remedies=("streams-recovery verify orders", "streams-recovery seal orders --plan"),
        runbook="docs/alerts.md#records-forged",
        numbers={"records": 2.0},
    )
    site.observed(report(now=current() - 60_000, health=Health.TROUBLE, findings=(found,), forged=named, forged_count=2))


def archived(site: Site) -> None:
    at = current()
    behind = ArchiveStatus(working=True, said_at=at - 4_000, safe_at=at - 9_000, waiting=0, files=12)
    objectives = Objectives(newest_age_seconds=3_600.0, recovery_seconds=900.0, loss_seconds=60.0)
    site.observed(report(now=at - 60_000, taken_at=at, archive=behind, objectives=objectives))


def losing(site: Site) -> None:
    at = current()
    stopped = ArchiveStatus(working=False, said_at=at - 300_000, safe_at=at - 310_000, waiting=40_000, files=12)
    found = StatusFinding(
        kind="loss-over-objective",
        subject="",
        severity=Severity.CRITICAL,
        text="the loss of the cluster would cost the input of the last 5 min 10 s, the objective is 1 min",
        remedies=("streams-recovery info orders",),
        runbook="docs/alerts.md#loss-over-objective",
        numbers={"age_seconds": 310.0, "objective_seconds": 60.0},
    )
    objectives = Objectives(newest_age_seconds=3_600.0, recovery_seconds=900.0, loss_seconds=60.0)
    fields = {"archive": stopped, "objectives": objectives, "health": Health.TROUBLE, "findings": (found,)}
    site.observed(report(now=at - HOUR // 2, taken_at=at, **fields))


def moved(site: Site) -> None:
    observed_now(site)
    site.configure("orders", sites=at_sites("dr", "third"))
    at = current() - HOUR
    run = new_id(at, "failover")
    fence = Fence(site=PRIMARY, cluster_id="", since=at, run=run)
    reason = "the data centre has no power, and nobody can say when it will have any again"
    entry = SiteEntry(
        site="dr", cluster_id="", arrived=True, before=PRIMARY, run=run, at=at, requested_by="me", reason=reason, fences=(fence,)
    )
    site_log(site.repository(), Layout("orders-app")).append(entry)


def current() -> int:
    return time.time_ns() // 1_000_000


SCREENS = {
    "applications": Screen("/", "can be brought back to", observed_now),
    "nothing-configured": Screen("/", "No application is configured yet", nothing_configured),
    "broken-configuration": Screen("/applications/clicks", "unknown key backup.consistancy"),
    "not-observed": Screen("/applications/returns", "not observed yet", not_observed),
    "repository-lost": Screen("/", "The repository cannot be opened", lost_repository),
    "application": Screen("/applications/orders", "Timeline", observed_now),
    "application-old": Screen("/applications/orders", "streams_monitor does not run"),
    "application-in-trouble": Screen("/applications/orders", "is 3 hours old", in_trouble),
    "application-in-progress": Screen("/applications/orders", "40 of 100 records", in_progress),
    "application-without-savepoint": Screen("/applications/orders", "There is no savepoint yet", no_savepoint),
    "application-not-in-use": Screen("/", "not in use", not_in_use),
    "instant": Screen(f"/applications/orders?at={NOW - 5 * HOUR}", "Restore…"),
    "application-sealed": Screen("/applications/orders", SEALED, sealed),
    "applications-sealed": Screen("/", "sealed", sealed),
    "application-forged": Screen("/applications/orders", "2 records are forged", forged),
    "application-archived": Screen("/applications/orders", "(9 s before the look)", archived),
    "application-losing": Screen("/applications/orders", "would cost the input of the last 5 min 10 s", losing),
    "as-a-viewer": Screen("/applications/orders", "Timeline", role="viewer"),
    "savepoint": Screen(f"/applications/orders/savepoints/{summary(0).savepoint_id}", summary(0).savepoint_id),
    "start-restore": Screen(f"/applications/orders/start/restore?at={current()}", "Airflow starts streams_restore_full", observed_now),
    "application-moved": Screen("/applications/orders", "Belongs to the site dr since", moved),
    "applications-moved": Screen("/", "at the site dr", moved),
    "start-failover": Screen(f"/applications/orders/start/failover?at={current()}", "Site that cannot be reached: type dr", moved),
    "no-such-application": Screen("/applications/nobody", "There is no such application", status=404),
    "logged-out": Screen("/", "You are not logged in", role=None, status=401),
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def site(auth_manager: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    found = two_applications(tmp_path)
    monkeypatch.setenv("STREAMS_RECOVERY_CONFIG_DIR", str(found.configs))
    return found


@contextmanager
def served() -> Iterator[str]:
    """Airflow's API server with a page that has read nothing yet."""
    from airflow.api_fastapi.app import create_app

    from streams_recovery.ui.app import build
    from streams_recovery.ui.pages import Pages

    app: Any = create_app()
    app.router.routes.insert(0, Mount(MOUNTED, build(Pages(wait_seconds=30))))
    (port,) = free_ports(1)
    server = uvicorn.Server(uvicorn.Config(app, host=HOST, port=port, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield f"http://{HOST}:{port}"
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def logged_in(browser: Browser) -> Iterator[tuple[str, Watched]]:
    """The address of the server, and a tab of somebody who is logged in there."""
    with served() as url:
        context = browser.new_context()
        log_in(context, "user", url)
        yield url, Watched.tab(context, url)
        context.close()


@pytest.mark.parametrize("name", SCREENS)
def test_a_state_of_the_page_can_be_read_wide_and_narrow_by_day_and_by_night(browser: Browser, site: Site, name: str) -> None:
    screen = SCREENS[name]
    screen.arrange(site)
    with served() as url:
        for look, context in looks(browser):
            if screen.role is not None:
                log_in(context, screen.role, url)
            tab = Watched.tab(context, url)
            answer = tab.page.goto(f"{url}{MOUNTED}{screen.address}", wait_until="networkidle")
            assert answer is not None
            assert answer.status == screen.status
            tab.picture(f"{name}-{look}")
            assert screen.says in tab.page.locator("body").inner_text()
            assert tab.too_wide() == [], look
            assert tab.elsewhere == []
            # Chromium itself says that an answer was an error, and that it is no style.
            expected = (f"status of {screen.status}", *(("MIME type",) if screen.role is None else ()))
            assert [line for line in tab.console if not any(part in line for part in expected)] == []
            assert tab.page.locator("main").count() == 1


@pytest.mark.parametrize("looked", [True, False], ids=["the monitor has looked before", "the monitor has not looked yet"])
def test_right_after_the_first_savepoint_the_page_says_to_when_it_can_be_brought_back(browser: Browser, site: Site, looked: bool) -> None:
    site.configure("returns")
    parsed(dag_ids("orders", "payments", "returns"))
    name = "orders" if looked else "returns"
    if looked:
        no_savepoint(site)
    captured = current()
    with recovery_of(name, site.configs) as recovery:
        manifest = manifest_with(partition([copied(0, 5, rows=False)], [], end=5))
        recovery.savepoints.publish(
            replace(manifest, application_id=recovery.application_id, savepoint_id=new_id(captured, "first"), captured_at=captured)
        )
    with logged_in(browser) as (url, tab):
        tab.page.goto(f"{url}{MOUNTED}/", wait_until="networkidle")
        tab.picture(f"first-savepoint-{name}")
        row = tab.page.locator("article, li, section").filter(has=tab.page.get_by_role("link", name=name, exact=True)).last.inner_text()
        assert "can be brought back to" in row
        assert "cannot be brought back" not in row
        assert "no exact savepoint" not in row
        assert ("not observed yet" in row) == (not looked)


def test_what_stands_out_of_a_narrow_page_would_be_seen(browser: Browser) -> None:
    context = browser.new_context(viewport={"width": 400, "height": 900})
    tab = Watched.tab(context, "data:")
    tab.page.set_content(
        "<body style='margin:0'><div class='wide' style='width:500px'>out</div><div style='overflow-x:auto'><p style='width:500px'>in</p></div>"
    )
    assert [one.split()[0] for one in tab.too_wide()] == ["div.wide", "html."]
    tab.page.set_content("<script>console.error('broken')</script><img src='http://elsewhere.example/a.png'>")
    assert tab.console[0] == "broken"
    assert tab.elsewhere == ["http://elsewhere.example/a.png"]
    context.close()


def test_moving_the_slider_shows_another_plan(browser: Browser, site: Site) -> None:
    with logged_in(browser) as (url, tab):
        tab.page.goto(f"{url}{MOUNTED}/applications/orders?window=2d", wait_until="networkidle")
        before = tab.page.locator("#plan").inner_text()
        slider = tab.page.locator("input[type=range]")
        with tab.page.expect_response(lambda answer: "/instant?" in answer.url):
            slider.focus()
            for _ in range(6):
                slider.press("PageDown")
        tab.page.wait_for_function("before => document.getElementById('plan').innerText !== before", arg=before)
        assert "at=" in tab.page.url


def test_the_confirmation_asks_for_the_id_of_the_application_that_is_chosen(browser: Browser, site: Site) -> None:
    site.configure("past", restore={"topic_map": {"orders": "copy-orders", "inventory": "copy-inventory"}})
    parsed(dag_ids("orders", "payments", "past"))
    with logged_in(browser) as (url, tab):
        tab.page.goto(f"{url}{MOUNTED}/applications/orders/start/moment?at={NOW - HOUR // 2}", wait_until="networkidle")
        target, label = tab.page.get_by_label("Application that gets the state", exact=True), tab.page.locator("label[for=f-confirm]")
        assert target.input_value() == ""
        tab.page.get_by_role("button", name="Go back to this instant").click()
        assert tab.page.locator(".result").inner_text() == "", "nothing is started before a choice"
        for name in ("past", "orders"):
            target.select_option(name)
            assert label.inner_text() == f"Confirmation: type {name}-app"


def test_an_open_page_says_that_it_is_stale_and_goes_on_when_it_is_answered(browser: Browser, site: Site) -> None:
    observed_now(site)
    with logged_in(browser) as (url, tab):
        tab.page.clock.install()
        tab.page.goto(f"{url}{MOUNTED}/applications/orders", wait_until="networkidle")
        banner = tab.page.locator("#stale")
        assert banner.inner_text() == ""
        before = tab.page.locator("#checked").inner_text()
        context = tab.page.context
        context.clear_cookies()
        tab.page.clock.fast_forward(120_000)
        expect(banner).to_have_text(re.compile(r"^Not refreshed since \d{4}-.*: log in again\.$"))
        assert tab.page.locator("#checked").inner_text() != before, "ages are counted on"
        log_in(context, "user", url)
        tab.page.clock.fast_forward(10_000)
        expect(banner).to_have_text("")


def test_the_plan_for_now_the_slider_and_the_savepoints_are_refreshed_until_an_instant_is_chosen(browser: Browser, site: Site) -> None:
    observed_now(site)
    with logged_in(browser) as (url, tab):
        tab.page.clock.install()
        tab.page.goto(f"{url}{MOUNTED}/applications/orders", wait_until="networkidle")
        slider, plan = tab.page.locator("#at"), tab.page.locator("#plan")
        assert "?at=" not in plan.inner_html()
        newest, end = new_id(current(), "0"), slider.get_attribute("max")
        site.observed(report(now=int(current()) - 1_000, taken_at=current()))
        time.sleep(6)  # the server reads a status again after five seconds
        tab.page.clock.fast_forward(10_000)
        expect(slider).not_to_have_attribute("max", str(end))
        assert newest[:13] in tab.page.locator("#savepoints").inner_text()
        slider.press("PageDown")
        tab.page.wait_for_url("**at=*")
        chosen = slider.input_value()
        tab.page.locator("h1").click()
        with tab.page.expect_response(lambda answer: "/applications/orders?at=" in answer.url):
            tab.page.clock.fast_forward(10_000)
        assert slider.input_value() == chosen


def test_a_run_that_cannot_be_read_hides_no_other(browser: Browser, site: Site) -> None:
    runs = [{"dag_id": "streams_backup_orders", "dag_run_id": name, "state": "running"} for name in ("good", "unread", "deleted")]
    with logged_in(browser) as (url, tab):

        def answer(route: Route) -> None:
            name = next((run["dag_run_id"] for run in runs if f"/{run['dag_run_id']}" in route.request.url), "list")
            status = {"unread": 500, "deleted": 404}.get(name, 200)
            found = {"list": {"dag_runs": runs}, "good": {**runs[0], "task_instances": [], "hitl_details": []}}.get(name, {})
            route.fulfill(status=status, json=found)

        tab.page.route("**/api/v2/dags/**", answer)
        tab.page.goto(f"{url}{MOUNTED}/applications/orders", wait_until="networkidle")
        # On a busy machine the script has not even begun to ask when the page is quiet.
        tab.page.locator("article.run").nth(1).wait_for()
        assert tab.page.locator("article.run").all_inner_texts() == [
            "streams_backup_orders\ngood\nrunning",
            "streams_backup_orders\nunread\n\nThis run cannot be read: Airflow answered 500.",
        ]


@pytest.mark.parametrize("asked", ["delete nothing", "delete everything"], ids=["the same plan", "another plan"])
def test_an_approval_is_sent_for_the_plan_that_was_read_and_for_no_other(browser: Browser, site: Site, asked: str) -> None:
    dag_id, task = "streams_restore_full", {"task_id": "approve", "map_index": -1}
    run = {"dag_id": dag_id, "dag_run_id": "one", "state": "running", "conf": {"application": "orders"}}
    question = {"subject": "Restore orders?", "body": "delete nothing", "task_instance": task}
    sent = []
    with logged_in(browser) as (url, tab):

        def answer(route: Route) -> None:
            address = route.request.url
            if route.request.method == "PATCH":
                sent.append(route.request.post_data_json)
            if "/approve/" in address:
                found: dict[str, Any] = question | {"body": asked}
            else:
                found = run | {"dag_runs": [run], "task_instances": [], "hitl_details": [question]}
            route.fulfill(status=200, json=found)

        tab.page.route("**/api/v2/dags/**", answer)
        tab.page.goto(f"{url}{MOUNTED}/applications/orders", wait_until="networkidle")
        tab.page.get_by_label(re.compile("To approve, type")).fill("orders")
        tab.page.get_by_role("button", name="Approve").click()
        says = "Approved." if asked == question["body"] else "Nothing was sent: the plan was made again after it was shown here"
        expect(tab.page.locator(".question .result")).to_contain_text(says)
    assert sent == ([{"chosen_options": ["Approve"], "params_input": {}}] if asked == question["body"] else [])


def test_a_repository_that_is_lost_leaves_the_last_known_facts_in_grey_with_their_age(browser: Browser, site: Site) -> None:
    observed_now(site)
    with logged_in(browser) as (url, tab):
        tab.page.goto(f"{url}{MOUNTED}/applications/orders", wait_until="networkidle")
        assert tab.page.locator(".old").count() == 0
        site.lose_repository()
        time.sleep(6)  # the server reads a status again after five seconds
        for look, visitor in looks(browser):
            log_in(visitor, "user", url)
            seen = Watched.tab(visitor, url)
            for name, address in (("applications", "/"), ("application", "/applications/orders")):
                seen.page.goto(f"{url}{MOUNTED}{address}", wait_until="networkidle")
                seen.picture(f"{name}-known-last-{look}")
                shown = seen.page.locator(".old").filter(has_text="can be brought back to").first.inner_text()
                assert "Shown is what was known" in shown
                assert "The repository cannot be opened" in shown
                assert seen.too_wide() == [], look
