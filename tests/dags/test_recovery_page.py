"""Who may see and start what on the page *Recovery*: every route, logged out, as a viewer, as an operator, and as somebody with rights on one application."""

from __future__ import annotations

import html
import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from streams_recovery.core.outputs.comparison import COLUMNS, Against, ComparedOutput, OutputsReport
from streams_recovery.core.outputs.keys import KeyCounts, ReadBy
from streams_recovery.core.outputs.values import Tolerance
from streams_recovery.core.repository.encryption import EncryptionState
from streams_recovery.core.repository.journal import JournalEntry, Phase
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.mirror import SecondPlace
from streams_recovery.core.repository.seal import NOT_SEALED, SEALED, ForgedRecord
from streams_recovery.core.repository.sites import PRIMARY, Fence, SiteEntry
from streams_recovery.core.state.inspection import FoundRows, Inspection, Outcome
from streams_recovery.core.status.report import RunKind, StatusReport
from streams_recovery.core.words import new_id, span
from streams_recovery.operations.state.inspect import inspection_log
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.lock import ApplicationLock
from streams_recovery.storage.progress_store import store_progress
from streams_recovery.storage.site_log import site_log
from tests.support.airflow.recovery_page import MOUNTED, SAVEPOINT, Site, at_sites, client_of, dag_ids, parsed, two_applications
from tests.support.examples.statuses import ADVICE, ESTIMATE, HOUR, NOW, PROGRESS, report, summary

# Every route, with values for its names. A new route needs a line, so that somebody thinks of who may call it.
ADDRESSES = {
    "/": "/",
    "/applications/{name}": "/applications/orders",
    "/applications/{name}/instant": f"/applications/orders/instant?at={NOW}",
    "/applications/{name}/start/{what}": "/applications/orders/start/restore",
    "/applications/{name}/savepoints/{savepoint_id}": f"/applications/orders/savepoints/{SAVEPOINT}",
    "/applications/{name}/savepoints/{savepoint_id}/start/{what}": f"/applications/orders/savepoints/{SAVEPOINT}/start/look_up",
    "/static/{name}": "/static/page.css",
}
# What only shows on pages of somebody who may trigger.
TRIGGERS = ("Restore…", "Try it (drill)…", "Take a savepoint…")


@pytest.fixture
def site(auth_manager: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Two applications that were observed, and a configuration that cannot be used."""
    found = two_applications(tmp_path)
    monkeypatch.setenv("STREAMS_RECOVERY_CONFIG_DIR", str(found.configs))
    return found


@pytest.fixture
def page(site: Site) -> FastAPI:
    """The page, mounted as Airflow does."""
    return new_page()


def page_of(root: FastAPI) -> FastAPI:
    (found,) = [route.app for route in root.routes if getattr(route, "path", "") == MOUNTED]  # type: ignore[attr-defined]
    assert isinstance(found, FastAPI)
    return found


def unguarded(app: FastAPI) -> list[str]:
    """Routes that answer somebody who is not logged in, by what they depend on. Anything that is no route of FastAPI has no guard at all."""
    from airflow.api_fastapi.core_api.security import get_user

    def asks_who(dependant: Dependant) -> bool:
        return any(one.call is get_user or asks_who(one) for one in dependant.dependencies)

    return [getattr(route, "path", repr(route)) for route in app.routes if not (isinstance(route, APIRoute) and asks_who(route.dependant))]


def get(client: TestClient, address: str) -> Any:
    return client.get(MOUNTED + address)


@pytest.mark.fault("F62")
def test_every_route_asks_airflow_who_calls_and_answers_nobody_else(page: FastAPI) -> None:
    app = page_of(page)
    assert unguarded(app) == []
    assert {route.path for route in app.routes} == ADDRESSES.keys(), "each route is called below"  # type: ignore[attr-defined]
    stranger = client_of(page, None)
    for address in ADDRESSES.values():
        answer = get(stranger, address)
        assert answer.status_code == 401, address
        assert "orders" not in answer.text
        assert SAVEPOINT not in answer.text
    forged = client_of(page, None)
    forged.cookies.set("_token", "no.such.token")
    assert {get(forged, address).status_code for address in ADDRESSES.values()} <= {401, 403}


@pytest.mark.fault("F62")
def test_a_route_without_a_guard_would_be_found(page: FastAPI) -> None:
    from starlette.routing import Mount

    app = page_of(page)
    app.router.routes.append(Mount("/files", app=FastAPI()))
    assert unguarded(app) == ["/files"]
    open_app = FastAPI(openapi_url=None)
    open_app.add_api_route("/open", lambda: "anything")
    assert unguarded(open_app) == ["/open"]
    assert unguarded(FastAPI()), "the pages that describe an interface are routes too"


@pytest.mark.fault("F62")
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_no_route_changes_anything(page: FastAPI, method: str) -> None:
    assert all(route.methods <= {"GET", "HEAD"} for route in page_of(page).routes)  # type: ignore[attr-defined]
    admin = client_of(page, "admin")
    assert {admin.request(method, MOUNTED + address).status_code for address in ADDRESSES.values()} == {405}


@pytest.mark.fault("F62")
@pytest.mark.parametrize("sent_as", ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain"])
def test_a_form_of_another_site_starts_nothing_with_the_session_of_an_operator(site: Site, sent_as: str) -> None:
    from airflow.api_fastapi.app import create_app

    operator = client_of(create_app(), "user")
    body = json.dumps({"logical_date": None, "conf": {"application": "orders"}})
    address = "/api/v2/dags/streams_restore_full/dagRuns"
    headers = {"Content-Type": sent_as, "Origin": "https://elsewhere.example", "Sec-Fetch-Site": "cross-site"}
    assert operator.post(address, content=body, headers=headers).status_code == 422
    # The same body as JSON, which no form can send, gets as far as the DAG that was never parsed.
    assert operator.post(address, content=body, headers={"Content-Type": "application/json"}).status_code == 404


@pytest.mark.fault("F62")
def test_a_viewer_sees_everything_and_no_button_that_would_be_refused(page: FastAPI) -> None:
    viewer, operator = client_of(page, "viewer"), client_of(page, "user")
    for address in ADDRESSES.values():
        wanted = 403 if "/start/" in address else 200
        assert (get(viewer, address).status_code, get(operator, address).status_code) == (wanted, 200), address
    seen, started = get(viewer, "/applications/orders").text, get(operator, "/applications/orders").text
    assert [button for button in TRIGGERS if button in seen] == []
    assert [button for button in TRIGGERS if button in started] == [*TRIGGERS]
    assert "&#34;answers&#34;: []" in seen
    assert "&#34;answers&#34;: [&#34;streams_backup_orders&#34;" in started


@pytest.mark.fault("F62")
def test_who_may_see_one_application_learns_nothing_of_another(page: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.api_fastapi.app import get_auth_manager

    manager = get_auth_manager()
    allowed: Mapping[str, set[str]] = {
        "GET": {"streams_backup_payments", "streams_restore_full"},
        "POST": {"streams_restore_full"},
        "PUT": set(),
    }

    def is_authorized_dag(*, method: str, details: Any, **_: object) -> bool:
        return details.id in allowed[method]

    monkeypatch.setattr(manager, "is_authorized_dag", is_authorized_dag)
    client = client_of(page, "user")
    landing = get(client, "/").text
    assert "payments" in landing
    assert "orders" not in landing
    assert "clicks" not in landing
    for address in (one for one in ADDRESSES.values() if "orders" in one):
        answer, unknown = get(client, address), get(client, address.replace("orders", "nobody"))
        assert answer.status_code == unknown.status_code == 404, address
        assert answer.text == unknown.text, "the same answer as for an application that there is not"
    own = get(client, "/applications/payments").text
    assert [button for button in TRIGGERS if button in own] == ["Restore…"]
    assert get(client, "/?dag=streams_backup_orders").status_code == 200, "no way to it"
    assert get(client, "/?dag=streams_backup_payments").headers["location"] == "applications/payments"


@pytest.mark.fault("F62")
def test_no_answer_has_a_path_or_a_secret_of_the_server(page: FastAPI, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = client_of(page, "admin")
    places = (str(site.configs.parent), "secret-place", str(Path.home()), os.environ["AIRFLOW_HOME"])
    broken = [*ADDRESSES.values(), "/applications/clicks", "/applications/nobody", "/applications/orders?at=yesterday"]
    answers = [get(admin, address) for address in broken]
    site.configure("returns")
    parsed([*dag_ids("orders", "payments", "returns")])
    site.lose_repository()
    answers += [
        get(admin, address) for address in ("/", "/applications/returns", "/applications/orders/savepoints/20261121T012345Z-0123456789")
    ]
    assert {answer.status_code for answer in answers} >= {200, 400, 404}
    for answer in answers:
        assert [place for place in places if place in answer.text] == []
        assert "Traceback" not in answer.text


def test_the_subject_of_advice_has_no_path_of_the_server_either(page: FastAPI, site: Site) -> None:
    site.observed(report(taken_at=NOW + 60_000, advice=(replace(ADVICE, subject="/var/lib/streams/orders-state"),)))
    text = get(client_of(page, "admin"), "/applications/orders").text
    assert "<code>…/orders-state</code>" in text
    assert "/var/lib" not in text


@pytest.mark.parametrize(
    ("access", "said"),
    [
        ({}, None),
        ({"approvers": ["admin"]}, None),
        ({"approvers": ["anna"]}, "admin is not among the approvers: anna"),
    ],
)
def test_an_approval_is_offered_to_whom_the_configuration_allows_it(
    page: FastAPI, site: Site, access: dict[str, object], said: str | None
) -> None:
    site.configure("orders", access=access)
    runs = runs_of(page, "admin")
    assert runs["approval"] == {"user": "admin", "refused": said, "exclude_trigger": False}
    assert "streams_restore_full" in runs["answers"], "whoever may answer may reject"


def test_who_triggered_a_run_may_not_approve_it(page: FastAPI, site: Site) -> None:
    site.configure("orders", access={"approvers_exclude_trigger": True})
    assert runs_of(page, "user")["approval"] == {"user": "user", "refused": None, "exclude_trigger": True}


def runs_of(page: FastAPI, role: str) -> Any:
    """What the script is told of runs in progress."""
    (found,) = re.findall(r'data-runs="([^"]+)"', get(client_of(page, role), "/applications/orders").text)
    return json.loads(html.unescape(found))


def test_every_answer_forbids_what_comes_from_elsewhere(page: FastAPI) -> None:
    admin = client_of(page, "admin")
    for address in [*ADDRESSES.values(), "/nothing", "/applications/nobody"]:
        headers = get(admin, address).headers
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self'"), address
        assert headers["x-content-type-options"] == "nosniff"
    text = get(admin, "/applications/orders").text
    assert [found for found in (" style=", " onclick=", "https://") if found in text] == []
    assert "http://" not in text.replace("http://www.w3.org", "")


@pytest.mark.parametrize(
    ("typed", "at"),
    [
        ("2026-11-23T12:00:00Z", 1_795_435_200_000),
        ("2026-11-23T12:00:00", 1_795_435_200_000),
        ("2026-11-23T07:00:00-05:00", 1_795_435_200_000),
        ("2026-11-23T13:00:00%20Europe/Vienna", 1_795_435_200_000),
        ("yesterday", None),
        ("9" * 40, None),
    ],
)
def test_an_instant_is_typed_as_people_write_it(page: FastAPI, typed: str, at: int | None) -> None:
    answer = get(client_of(page, "viewer"), f"/applications/orders?time={typed}")
    assert answer.status_code == (400 if at is None else 200)
    assert at is None or f'value="{at}"' in answer.text


def test_the_screens_say_the_state_of_each_application(page: FastAPI, site: Site) -> None:
    admin = client_of(page, "admin")
    landing = get(admin, "/").text
    assert "clicks.yaml:4: unknown key backup.consistancy; did you mean consistency?" in landing
    assert "can be brought back to" in landing
    assert "unknown key backup.consistancy" in get(admin, "/applications/clicks").text
    site.configure("returns")
    parsed(dag_ids("orders", "payments", "returns"))
    assert "not observed yet" in get(admin, "/applications/returns").text
    site.lose_repository()


def test_each_savepoint_says_whether_it_is_in_two_places_and_no_path_or_word_of_a_store_is_trusted(page: FastAPI, site: Site) -> None:
    admin, (first, second) = client_of(page, "admin"), (summary(number).savepoint_id for number in (0, 1))
    assert "Places" not in get(admin, "/applications/payments").text, "it has one place"
    place = SecondPlace(place="/srv/<b>secret</b>", savepoints=48, alone=(second,))
    keys = EncryptionState(keys=2, wrapped_by=('local:"><script>',), problems=())
    site.observed(report(taken_at=NOW + 60_000, second_place=place, encryption=keys))
    text = get(client_of(new_page(), "admin"), "/applications/orders").text
    places = dict(re.findall(r"savepoints/([^\"]+)\"><code>.*?data-label=\"Places\">([^<]+)<", text, re.DOTALL))
    assert (places[first], places[second]) == ("in two places", "in one place only")
    assert "1 savepoint is in one place only, since" in text
    assert [bad for bad in ("/srv/", "<b>secret", '"><script>') if bad in text] == []
    assert "2 data keys, wrapped by local:&#34;&gt;&lt;script&gt;" in text
    address = f"/applications/orders/savepoints/{SAVEPOINT}"
    assert "<dt>Places</dt><dd>in two places</dd>" in get(client_of(new_page(), "admin"), address).text
    # It came since the look.
    known = tuple(one for one in report().savepoints if one.savepoint_id != SAVEPOINT)
    site.observed(replace(report(taken_at=NOW + 75_000, second_place=place), savepoints=known))
    assert "<dt>Places</dt><dd>not known</dd>" in get(client_of(new_page(), "admin"), address).text
    site.observed(report(taken_at=NOW + 90_000, second_place=SecondPlace(place="s3://b", problem="it does not answer")))
    assert get(client_of(new_page(), "admin"), "/applications/orders").text.count('data-label="Places">not known') == 48


def test_while_the_repository_does_not_answer_the_page_leads_to_its_second_place(page: FastAPI, site: Site) -> None:
    mirror = {"backend": "filesystem", "path": str(site.configs.parent / "second-place")}
    storage = {"backend": "filesystem", "path": str(site.configs.parent / "secret-place"), "mirror": mirror}
    for name in ("orders", "returns"):
        site.configure(name, storage=storage)
    parsed(dag_ids("orders", "payments", "returns"))
    button, form = "Restore from the second place…", "start/restore-from-second-place"
    admin, viewer = client_of(page, "admin"), client_of(page, "viewer")
    assert button not in get(admin, "/applications/orders").text
    assert get(admin, f"/applications/orders/{form}").status_code == 403, "it answers"
    site.lose_repository()
    again = client_of(new_page(), "admin")
    for name in ("orders", "returns"):
        # The one was never read by this process; it has a second place all the same.
        assert get(again, f"/applications/{name}").text.count(button) == 1
        text = get(again, f"/applications/{name}/{form}").text
        assert 'data-dag="streams_restore_full"' in text
        assert '<input id="f-place" name="place" value="mirror" readonly>' in text
    assert button not in get(again, "/applications/payments").text, "it has no second place"
    assert get(again, f"/applications/payments/{form}").status_code == 404
    seen = client_of(new_page(), "viewer")
    assert button not in get(seen, "/applications/orders").text
    assert get(viewer, f"/applications/orders/{form}").status_code == 403


@pytest.mark.fault("F62")
def test_airflow_s_own_server_has_the_page_and_decides_who_triggers(site: Site) -> None:
    from airflow.api_fastapi.app import create_app

    # The page of the plugin is one for the process, with what it has read: another application than elsewhere in this file.
    site.configure("refunds")
    site.observed(report("refunds"))
    parsed(dag_ids("refunds"))
    server = create_app()
    asked = {"logical_date": None, "conf": {"application": "refunds"}}
    answers = {}
    for role in (None, "viewer", "user"):
        client = client_of(server, role)
        addresses = [address.replace("orders", "refunds") for address in ADDRESSES.values() if "savepoints" not in address]
        pages = {get(client, address).status_code for address in addresses if "/start/" not in address and "instant" not in address}
        answers[role] = (pages, client.post("/api/v2/dags/streams_restore_full/dagRuns", json=asked).status_code)
        if role is not None:
            (plugin,) = [one for one in client.get("/api/v2/plugins").json()["plugins"] if one["name"] == "streams_recovery_plugin"]
            assert {view["destination"]: view["href"] for view in plugin["external_views"]} == {
                "nav": "streams-recovery/",
                "dag": "streams-recovery/?dag={DAG_ID}",
            }
    # The DAG is in the database and was never parsed: whoever may trigger it gets as far as that.
    assert answers == {None: ({401}, 401), "viewer": ({200}, 403), "user": ({200}, 404)}


def test_a_plugin_imports_nothing_of_the_package_until_the_first_request() -> None:
    import sys

    before = {name for name in sys.modules if name.startswith("streams_recovery.ui")}
    from streams_recovery.provider.plugin import StreamsRecoveryPlugin

    (app,) = StreamsRecoveryPlugin.fastapi_apps
    assert app["url_prefix"] == MOUNTED
    routes = [view["url_route"] for view in StreamsRecoveryPlugin.external_views]
    assert routes == ["streams-recovery", "streams-recovery-dag"]
    assert {name for name in sys.modules if name.startswith("streams_recovery.ui")} == before


def test_a_restore_that_failed_half_way_is_not_shown_as_running_and_says_what_to_do(page: FastAPI, site: Site) -> None:
    failed = report().runs[1]
    left = replace(failed, run=str(failed.restore_id), ended_at=None, outcome="failed after destroying")
    site.observed(report(taken_at=NOW + 60_000, runs=(left,)))
    text = get(client_of(page, "user"), "/applications/orders").text
    wanted = ("failed after destroying", f"streams-recovery resume orders {left.restore_id}", "No run was in progress", "Restore…")
    assert [said for said in wanted if said not in text] == []
    assert "Not possible" not in text


@pytest.mark.parametrize("savepoints", [1, 2])
def test_the_first_savepoint_is_explained_while_it_is_the_only_one(page: FastAPI, site: Site, savepoints: int) -> None:
    only = replace(report().savepoints[-1], savepoint_id=SAVEPOINT)
    of_it = {"savepoints": (only,), "newest": only, "newest_exact": only, "savepoint_count": savepoints}
    site.observed(replace(report(taken_at=NOW + 60_000), **of_it))
    takes = f"a restore takes: about {span(ESTIMATE.total)}, measured by 3 restores"
    for address in ("/applications/orders", f"/applications/orders/savepoints/{SAVEPOINT}"):
        text = get(client_of(page, "viewer"), address).text
        for line in ("it has: exact state, the committed offsets", takes):
            assert (line in text) == (savepoints == 1), address


def test_a_savepoint_shows_the_newest_check_and_who_brought_it_back(page: FastAPI, site: Site) -> None:
    drill = replace(report().runs[-1], savepoint_id=SAVEPOINT)
    check = replace(drill, kind=RunKind.CHECK, savepoint_id=None, began_at=NOW - HOUR, outcome="structure: 4 files")
    site.observed(report(taken_at=NOW + 60_000, runs=(*report().runs[:-1], drill, check)))
    text = get(client_of(page, "viewer"), f"/applications/orders/savepoints/{SAVEPOINT}").text
    assert "good, structure: 4 files. It is older than this savepoint" in text
    assert f"drill <code>{drill.run}</code>" in text
    assert text.count("state equal") == 1, "the other drill was of another savepoint"
    assert f'looked at <span data-age="{NOW + 60_000}"' in text


def test_the_run_that_has_the_lock_is_shown_with_the_progress_of_its_job(page: FastAPI, site: Site) -> None:
    repository, layout, now = site.repository(), Layout("orders-app"), time.time_ns() // 1_000_000
    viewer = client_of(page, "viewer")
    assert "has the lock" not in get(viewer, "/applications/payments").text
    ApplicationLock(repository, layout, lambda: now).acquire("restore manual__1", lease_seconds=600, purpose="restore of orders-app")
    assert store_progress(repository, layout.work(new_id(now, "manual__1"), "load-result.0001"), 1, replace(PROGRESS, at=now))
    text = get(viewer, "/applications/orders").text
    assert "<code>restore manual__1</code> has the lock for restore of orders-app" in text
    assert "loading: 40 of 100 records (40 %)" in text


LOOKED_UP = Inspection(
    savepoint_id=SAVEPOINT,
    other="",
    question=f"key alice-of-vienna of store totals in {SAVEPOINT}",
    outcome=Outcome.FOUND,
    sentences=("1 row",),
    found=FoundRows(columns=("key", "value"), rows=(("alice-of-vienna", "<b>17</b>"),), more=3),
    has_data=True,
    at=NOW,
    run_id="manual__7",
    requested_by="anna",
)


COMPARED = OutputsReport(
    against=Against.CLONE,
    other="next",
    savepoint_id=SAVEPOINT,
    outcome=Outcome.DIFFERENT,
    outputs=(
        ComparedOutput(
            output="totals",
            other="next.totals",
            way=ReadBy.RECORDS,
            counts=KeyCounts(equal=2, different=1, records_here=3, records_there=3),
        ),
    ),
    notes=(),
    found=FoundRows(columns=COLUMNS, rows=(("totals", "0", "<b>alice-of-vienna", "", "different", "1", "2"),), more=0),
    has_data=True,
    tolerance=Tolerance(),
    at=NOW,
    run_id="manual__8",
    requested_by="anna",
)


def test_what_was_looked_up_in_a_savepoint_is_shown_with_it_as_text(page: FastAPI, site: Site) -> None:
    site.configure("orders", access={"show_values": True})
    log = inspection_log(site.repository(), Layout("orders-app"))
    log.append(LOOKED_UP)
    log.append(replace(LOOKED_UP, savepoint_id="20250101T000000Z-0123456789", question="of another savepoint"))
    text = get(client_of(page, "viewer"), f"/applications/orders/savepoints/{SAVEPOINT}").text
    assert f"key alice-of-vienna of store totals in {SAVEPOINT}: <strong>found</strong>" in text
    assert "&lt;b&gt;17&lt;/b&gt;" in text
    assert [said for said in ("manual__7", "by anna", "1 row", "3 more are not shown") if said not in text] == []
    assert "of another savepoint" not in text


def test_keys_and_values_that_are_stored_are_hidden_once_they_may_no_longer_be_shown(page: FastAPI, site: Site) -> None:
    inspection_log(site.repository(), Layout("orders-app")).append(LOOKED_UP)
    text = get(client_of(page, "admin"), f"/applications/orders/savepoints/{SAVEPOINT}").text
    assert "<strong>found</strong>" in text
    assert [secret for secret in ("alice-of-vienna", "17&lt;") if secret in text] == []


def test_the_screen_of_a_clone_has_the_newest_comparisons_of_its_outputs(page: FastAPI, site: Site) -> None:
    operator = client_of(page, "user")
    assert "Outputs compared" not in get(operator, "/applications/orders").text, "it has nothing to be compared with"
    clone: dict[str, object] = {
        "topics": {"inputs": ["orders", "inventory"], "outputs": ["next.totals"]},
        "restore": {"topic_map": {"totals": "next.totals"}},
        "clone": {"of": "payments", "cut_over": {"command": ["true", "totals"]}},
        "runs": {
            "kind": "command",
            "command": {**{verb: ["true"] for verb in ("status", "stop", "wipe")}, "start": ["true", "next.totals"]},
        },
    }
    site.configure("orders", **clone)
    text = html.unescape(get(operator, "/applications/orders").text)
    assert "The real outputs were not compared with those of the clone lately." in text
    assert "/applications/orders/start/compare-outputs" in text
    assert 'data-dag="streams_compare_outputs"' in get(operator, "/applications/orders/start/compare-outputs").text

    AppendLog(site.repository(), Layout("orders-app").outputs_compared, OutputsReport).append(COMPARED)
    text = get(client_of(page, "viewer"), "/applications/orders").text
    assert "real outputs compared with those of the clone next: <strong>different</strong>" in text
    assert "totals and next.totals, by records: 3 keys compared: 2 equal, 1 different" in text
    assert "alice-of-vienna" not in text
    site.configure("orders", **clone, access={"show_values": True})
    assert "&lt;b&gt;alice-of-vienna" in get(client_of(page, "viewer"), "/applications/orders").text


def test_topics_are_in_the_order_of_their_roles_and_a_finding_says_its_subject_once(page: FastAPI, site: Site) -> None:
    repeated = replace(ADVICE, subject="some-topic", text="some-topic is too large")
    site.observed(replace(report(), topics=report().topics[::-1], advice=(repeated, replace(ADVICE, subject="other-topic"))))
    text = html.unescape(get(client_of(page, "viewer"), "/applications/orders").text)
    assert re.findall(r'data-label="Role">(\w+)<', text) == ["input", "input", "output", "changelog", "repartition"]
    assert re.findall(r'data-label="Topic"><code>(\w+)<', text)[:2] == ["inventory", "orders"]
    assert text.count("some-topic") == 1
    assert text.count("<code>other-topic</code>") == 1
    assert "Runbook: <em>slow-recovery</em> in the documentation (<code>docs/runbooks/slow-recovery.md</code>)" in text


def test_a_repository_without_seals_says_so_shortly(page: FastAPI) -> None:
    viewer = client_of(page, "viewer")
    assert ">not sealed</span>" in get(viewer, "/").text
    text = html.unescape(get(viewer, "/applications/orders").text)
    assert f'<p class="none">{NOT_SEALED}' not in text, "a preflight says it, with what to do"
    assert '<td data-label="Seal">not sealed</td>' in text
    assert ">not sealed</span>" in get(viewer, ADDRESSES["/applications/{name}/savepoints/{savepoint_id}"]).text


def test_a_sealed_repository_shows_each_savepoints_seal_and_names_what_is_forged(page: FastAPI, site: Site) -> None:
    stranger, layout = site.seal("orders"), Layout("orders-app")
    forged_id = new_id(NOW + HOUR, "forged")
    key = layout.manifest(forged_id)
    first, *rest = report().savepoints
    forged = (ForgedRecord(key=key, why="it has no seal"), ForgedRecord(key="orders-app/pins/000000000001.json", why="<b>no</b>"))
    site.observed(replace(report(), savepoints=(replace(first, adopted=True), *rest), forged=forged, forged_count=2))
    # What a stranger says last is not read.
    AppendLog(stranger, layout.status, StatusReport).append(report("forged", savepoints=0))
    viewer = client_of(page, "viewer")
    assert ">sealed</span>" in get(viewer, "/").text
    text = html.unescape(get(viewer, "/applications/orders").text)
    assert SEALED in text
    assert text.count('<td data-label="Seal">sealed</td>') == 47
    assert text.count('<td data-label="Seal">adopted</td>') == 1
    assert f'<td data-label="Forged">savepoint</td><td data-label="Record"><code>{key}</code></td>' in text
    assert "2 records are forged" in text
    assert "streams-recovery seal orders --plan" in text
    assert "<b>no</b>" not in get(viewer, "/applications/orders").text
    answer = get(viewer, f"/applications/orders/savepoints/{forged_id}")
    said = f"This savepoint is forged, and nothing uses it: it has no seal. Find out who can write to the repository, and remove {key}."
    assert (answer.status_code, said in answer.text) == (404, True)


def test_a_status_without_a_good_seal_is_named_and_not_shown(page: FastAPI, site: Site) -> None:
    # What was written before storage.seal was set.
    site.seal("orders")
    text = html.unescape(get(client_of(page, "viewer"), "/applications/orders").text)
    assert "orders-app/status/000000000001.json is not used: it has no seal." in text
    assert "the next look of streams_monitor mends this" in text
    assert "can be brought back" not in text


def test_a_savepoint_that_cannot_be_read_and_is_in_no_status_says_why(page: FastAPI, site: Site) -> None:
    stranger, other = site.seal("orders"), new_id(NOW + HOUR, "other")
    site.observed(report())
    stranger.create(Layout("orders-app").detail(other), b"{}")
    answer = get(client_of(page, "viewer"), f"/applications/orders/savepoints/{other}")
    assert (answer.status_code, "is not used: it has no seal" in answer.text) == (404, True)


def test_a_savepoint_has_the_buttons_of_those_who_may_start_them(page: FastAPI) -> None:
    address = f"/applications/orders/savepoints/{SAVEPOINT}"
    viewer, operator = client_of(page, "viewer"), client_of(page, "user")
    for what, dag_id in (("compare", "streams_compare"), ("look_up", "streams_look_up")):
        link = f"/savepoints/{SAVEPOINT}/start/{what}"
        assert (link in get(viewer, address).text, link in get(operator, address).text) == (False, True)
        form = get(operator, f"{address}/start/{what}").text
        assert f'data-dag="{dag_id}"' in form
        assert f'value="{SAVEPOINT}" readonly' in form
    assert get(operator, f"{address}/start/restore").status_code == 403
    assert get(operator, "/applications/orders/savepoints/none/start/compare").status_code == 404


def test_the_page_says_at_which_site_it_is_and_offers_the_others(page: FastAPI, site: Site) -> None:
    operator = client_of(page, "user")

    def shown() -> tuple[str, list[str]]:
        """What the page says of the site, and the sites that the form of a failover offers."""
        # What was read is kept for some seconds.
        fresh = client_of(new_page(), "user")
        said = re.findall(r'<p id="site">(.*?)</p>', get(fresh, "/applications/orders").text)
        form = get(fresh, "/applications/orders/start/failover")
        select = re.search(r'<select id="f-to".*?</select>', form.text)
        return " ".join(said), re.findall(r'<option value="(\w+)"', select[0]) if select else []

    assert ("Fail over…" in get(operator, "/applications/orders").text, shown()) == (False, ("", []))
    assert get(operator, "/applications/orders/start/failover").status_code == 403
    site.configure("orders", sites=at_sites("dr"))
    said, offered = shown()
    assert (said, offered) == ("Belongs to the site <strong>primary</strong>, and was never moved. Other sites: dr.", ["dr"])
    run, layout, repository = new_id(NOW, "move"), Layout("orders-app"), site.repository()
    fence = Fence(site=PRIMARY, cluster_id="", since=NOW, run=run)
    moving = SiteEntry(
        site="dr", cluster_id="c", arrived=False, before=PRIMARY, run=run, at=NOW, requested_by="me", reason="fire", fences=(fence,)
    )
    log = site_log(repository, layout)
    log.append(moving)
    assert shown() == (said, offered), "it has changed nothing yet"
    journal = AppendLog(repository, layout.journal(run), JournalEntry)
    for phase in (Phase.OPENED, Phase.DESTROYING):
        journal.append(JournalEntry(phase=phase, at=NOW, created=()))
    said, offered = shown()
    assert said.startswith("Is on its way to the site <strong>dr</strong> since")
    assert offered == ["primary", "dr"]
    log.append(moving.at_work(at=NOW + 60_000))
    log.append(moving.at_work(at=NOW + 60_000).without(PRIMARY, at=NOW + 120_000))
    said, offered = shown()
    assert said.startswith("Belongs to the site <strong>dr</strong> since")
    assert f'data-at="{NOW + 60_000}"' in said, "when it arrived, not when the fence was lifted"
    assert offered == ["primary"]


def new_page() -> FastAPI:
    """Another process with the page: one that has read nothing yet."""
    from streams_recovery.ui.app import build
    from streams_recovery.ui.pages import Pages

    root = FastAPI()
    root.mount(MOUNTED, build(Pages(wait_seconds=30)))
    return root
