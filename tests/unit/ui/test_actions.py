"""What can be started for an instant: only what is possible and what Airflow would let this user trigger, with the params filled in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.config.backup import Dags
from streams_recovery.config.loader import load_all
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.sandbox import Drill
from streams_recovery.core.kafka_types import Profile
from streams_recovery.core.panels import DagGroup
from streams_recovery.core.repository.mirror import Where
from streams_recovery.core.repository.sites import PRIMARY, SiteEntry
from streams_recovery.core.savepoint.request import SavepointRequest
from streams_recovery.core.state.inspection import CompareRequest, LookUpRequest
from streams_recovery.core.status.instant import Instant, instant
from streams_recovery.operations.restore.strategies import AsOfMoment, Failover, FromSavepoint, Rebuild, Rescale
from streams_recovery.ui.actions import Action, actions, lost_actions, savepoint_actions
from streams_recovery.ui.overview import commands_of
from tests.support.airflow.recovery_page import Site, at_sites
from tests.support.examples.statuses import HOUR, NOW, report, summary


@pytest.fixture
def configured(tmp_path: Path) -> dict[str, ApplicationConfig]:
    site = Site(tmp_path)
    site.configure("orders")
    site.configure("orders-next")
    return load_all(site.configs, {}).applications


def anything(dag_id: str) -> bool:
    return not dag_id.endswith("orders") or dag_id in ("streams_backup_orders", "streams_drill_orders")


def started(configured: dict[str, ApplicationConfig], plan: Instant, may: Callable[[str], bool] = anything) -> dict[str, Action]:
    return {one.what: one for one in actions(configured["orders"], plan, configured, may)}


def test_what_is_switched_off_has_no_button(configured: dict[str, ApplicationConfig]) -> None:
    plan, orders = instant(report(), NOW - HOUR // 2), configured["orders"]
    others = {**configured, "orders": orders.model_copy(update={"dags": Dags(without=(DagGroup.WAYS_BACK, DagGroup.LOOKING))})}
    assert started(others, plan).keys() == {"drill", "savepoint"}
    assert savepoint_actions(orders, "one", anything)
    assert savepoint_actions(others["orders"], "one", anything) == ()


# Which request the DAG of an action makes.
REQUESTS = {
    "restore": FromSavepoint,
    "moment": AsOfMoment,
    "rescale": Rescale,
    "failover": Failover,
    "rebuild": Rebuild,
    "savepoint": SavepointRequest,
    "compare": CompareRequest,
    "look_up": LookUpRequest,
}


def values(action: Action) -> dict[str, object]:
    return {field.name: field.value for field in action.fields}


def test_what_the_page_asks_for_is_what_the_request_is_made_of(tmp_path: Path) -> None:
    page = Site(tmp_path)
    page.configure("orders", sites=at_sites("dr"))
    configured = load_all(page.configs, {}).applications
    rebuilt = replace(report(), savepoints=(summary(0, profile=Profile.MINIMAL),))
    plans = (instant(report(), NOW - HOUR // 2), instant(rebuilt, NOW))
    found = [one for plan in plans for one in actions(configured["orders"], plan, configured, anything)]
    found += savepoint_actions(configured["orders"], "one", anything)
    assert {one.what for one in found} >= REQUESTS.keys()
    for action in found:
        if (request := REQUESTS.get(action.what)) is not None:
            assert {field.name for field in action.fields} - {"application"} <= {one.name for one in request.FORM}, action.what


def test_between_savepoints_one_can_go_to_the_instant_or_to_the_savepoint(configured: dict[str, ApplicationConfig]) -> None:
    found = started(configured, instant(report(), NOW - HOUR // 2))
    assert found.keys() == {"restore", "moment", "rescale", "drill", "savepoint"}
    assert values(found["restore"]) | {"reason": ""} == {
        "application": "orders",
        "savepoint": summary(1).savepoint_id,
        "replace": False,
        "safety": "required",
        "confirm": "",
        "reason": "",
    }
    assert values(found["moment"])["as_of"] == "2026-11-23T12:50:00Z"
    assert values(found["moment"])["source"] == "orders"
    assert (found["drill"].dag_id, found["drill"].destroys) == ("streams_drill_orders", "")
    assert "partitions" not in found["drill"].explains
    orders = configured["orders"]
    rescaled = orders.model_copy(update={"drill": Drill.model_construct(partitions={"orders-in": 24})})
    found = started({**configured, "orders": rescaled}, instant(report(), NOW - HOUR // 2))
    assert "other numbers of partitions: orders-in=24" in found["drill"].explains


def test_nothing_is_chosen_beforehand_and_only_readers_of_copies_or_of_another_cluster_can_be(tmp_path: Path) -> None:
    site, copies = Site(tmp_path), {"orders": "copy-orders", "inventory": "copy-inventory"}
    site.configure("orders")
    site.configure("aaa-of-other-inputs")
    site.configure("half", restore={"topic_map": {"orders": "copy-orders"}})
    site.configure("past", restore={"topic_map": copies})
    site.configure("elsewhere", source={"connection": "kafka_other"})
    known = load_all(site.configs, {}).applications
    action = started(known, instant(report(), NOW - HOUR // 2))["moment"]
    target, confirm = (next(field for field in action.fields if field.name == name) for name in ("application", "confirm"))
    assert [value for value, _ in target.options] == ["elsewhere", "past", "orders"]
    assert target.value == ""
    assert target.ids == {"elsewhere": "elsewhere-app", "past": "past-app", "orders": "orders-app"}
    assert "orders-app" not in confirm.label


def test_an_application_that_reads_by_pattern_alone_has_no_copies_by_itself(tmp_path: Path) -> None:
    site, topics = Site(tmp_path), {"input_patterns": ["shop-[.].*"]}
    site.configure("orders", topics=topics)
    site.configure("aaa-without-copies", topics=topics)
    site.configure("past", topics=topics, restore={"topic_map": {"shop-.eu": "copy-eu"}})
    action = started(load_all(site.configs, {}).applications, instant(report(), NOW - HOUR // 2))["moment"]
    target = next(field for field in action.fields if field.name == "application")
    assert [value for value, _ in target.options] == ["past", "orders"]


def test_an_application_s_own_restore_dag_goes_before_the_shared_one_and_has_no_application(
    configured: dict[str, ApplicationConfig],
) -> None:
    found = started(configured, instant(report(), NOW), {"streams_restore_full_orders", "streams_restore_full"}.__contains__)
    assert [one.dag_id for one in found.values()] == ["streams_restore_full_orders"]
    assert "application" not in values(found["restore"])


def test_whoever_may_trigger_nothing_gets_no_button(configured: dict[str, ApplicationConfig]) -> None:
    assert started(configured, instant(report(), NOW), lambda _: False) == {}


def test_without_a_savepoint_one_can_only_be_taken(configured: dict[str, ApplicationConfig]) -> None:
    assert started(configured, instant(report(savepoints=0), NOW)).keys() == {"savepoint"}


def test_from_a_minimal_savepoint_the_state_is_rebuilt(configured: dict[str, ApplicationConfig]) -> None:
    status = replace(report(), savepoints=(summary(0, profile=Profile.MINIMAL),))
    assert started(configured, instant(status, NOW)).keys() == {"rebuild", "savepoint"}


def test_a_lost_repository_leads_to_a_restore_from_its_second_place(tmp_path: Path) -> None:
    page = Site(tmp_path)
    page.configure("alone")
    page.configure("orders", storage={"backend": "filesystem", "path": "/one", "mirror": {"backend": "filesystem", "path": "/two"}})
    configured = load_all(page.configs, {}).applications
    assert lost_actions(configured["alone"], anything) == ()
    assert lost_actions(configured["orders"], lambda _: False) == ()
    [found] = lost_actions(configured["orders"], anything)
    assert (found.dag_id, values(found)["place"], values(found)["savepoint"]) == ("streams_restore_full", Where.MIRROR, "latest")
    [place] = [field for field in found.fields if field.name == "place"]
    assert place.kind == "fixed", "nobody changes it by mistake"


def test_commands_are_quoted_for_a_shell() -> None:
    assert commands_of("orders", "20261121T012345Z-aaaaaaaaaa")[0] == (
        "Pin",
        "streams-recovery savepoints keep orders 20261121T012345Z-aaaaaaaaaa --reason REASON",
    )


def entry(site: str, before: str, *, arrived: bool = True) -> SiteEntry:
    return SiteEntry(site=site, cluster_id="", arrived=arrived, before=before, run="r", at=NOW, requested_by="me", reason="", fences=())


@pytest.mark.parametrize(
    ("sites", "where", "offered", "chosen", "typed"),
    [
        (["dr"], None, ["dr"], "dr", "primary"),
        (["dr"], entry("dr", PRIMARY), ["primary"], "primary", "dr"),
        (["dr", "third"], entry("third", "dr"), ["primary", "dr"], "", "third"),
        # It can be brought there again, or back.
        (["dr"], entry("dr", PRIMARY, arrived=False), ["primary", "dr"], "", None),
    ],
)
def test_it_can_be_moved_to_each_site_where_it_is_not(
    tmp_path: Path, sites: list[str], where: SiteEntry | None, offered: list[str], chosen: str, typed: str | None
) -> None:
    page = Site(tmp_path)
    page.configure("orders", sites=at_sites(*sites))
    configured = load_all(page.configs, {}).applications
    found = {one.what: one for one in actions(configured["orders"], instant(report(), NOW), configured, anything, entry=where)}
    action = found["failover"]
    assert action.dag_id == "streams_failover"
    fields = {field.name: field for field in action.fields}
    assert list(fields) == ["application", "to", "lost", "savepoint", "replace", "safety", "confirm", "reason"]
    assert ([value for value, _ in fields["to"].options], fields["to"].value, fields["to"].kind) == (offered, chosen, "choice")
    assert fields["savepoint"].value == summary(0).savepoint_id
    assert fields["lost"].label == "Site that cannot be reached" + (f": type {typed}" if typed else "")
    assert f"is stopped at {typed or 'the site that it leaves'}" in action.destroys


def test_an_application_of_one_site_is_moved_nowhere(configured: dict[str, ApplicationConfig]) -> None:
    assert "failover" not in started(configured, instant(report(), NOW))


def test_whoever_may_not_trigger_a_failover_gets_no_button_for_it(tmp_path: Path) -> None:
    page = Site(tmp_path)
    page.configure("orders", sites=at_sites("dr"))
    configured = load_all(page.configs, {}).applications
    assert "failover" not in started(configured, instant(report(), NOW), lambda dag_id: "failover" not in dag_id)
    assert (
        started(configured, instant(report(), NOW), {"streams_failover_orders"}.__contains__)["failover"].dag_id
        == "streams_failover_orders"
    )
