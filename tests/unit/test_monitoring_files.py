"""The pages and files on the monitor say what the code does: each finding has its section, each metric is one that is sent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from documentation.situations import SITUATIONS, Situation
from streams_recovery.core.status import info, run_findings
from streams_recovery.core.status.facts import judge
from streams_recovery.core.status.rules import RULES
from tests.support.examples.observed import observed
from tests.support.examples.status_causes import BY_SCHEDULE, CAUSES, LIMITS, WITHOUT_OBJECTIVES
from tests.support.project import PROJECT

KINDS = sorted({kind for rule in RULES for kind in rule.kinds} | {*run_findings.KINDS})
FILES = PROJECT / "include" / "monitoring"
METRIC = re.compile(r"\bstreams_recovery_[a-z_]+\b")
OWN = {**info.GAUGES, **info.COUNTERS}
WITHOUT_APPLICATION = {**info.GLOBAL_GAUGES, **info.GLOBAL_COUNTERS}
SENT = {f"{info.PREFIX}_{name}" for name in (*OWN, *WITHOUT_APPLICATION)}


def sections() -> dict[str, str]:
    parts = re.split(r"^## (.+)$", (PROJECT / "docs" / "alerts.md").read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_kind_of_finding_has_a_section_and_no_section_is_left_over() -> None:
    assert sorted(sections()) == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_a_section_says_what_it_means_and_where_to_go_on(kind: str) -> None:
    text = sections()[kind]
    assert re.match(r"\s*(Critical|Warning|Info)\b.*\.", text)
    linked = re.findall(r"Runbook: \[.+?\]\((.+?)\)", text)
    assert linked == [SITUATIONS[kind].value], "the page for its own situation"


def test_every_kind_of_finding_is_about_one_situation_and_none_is_left_over() -> None:
    assert sorted(SITUATIONS) == KINDS
    assert {*SITUATIONS.values()} == {*Situation}


def part_of_page(address: str) -> str:
    """The section that an address leads to, with those below it; the whole page without an anchor."""
    name, _, anchor = address.partition("#")
    page = (PROJECT / "docs" / name).read_text()
    if not anchor:
        return page
    heads = [(found.start(), len(found[1]), slug(found[2])) for found in re.finditer(r"^(#+) (.+)$", page, re.MULTILINE)]
    [(start, depth, _)] = [head for head in heads if head[2] == anchor]
    return page[start : next((other for other, level, _ in heads if other > start and level <= depth), len(page))]


def slug(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


@pytest.mark.parametrize("situation", Situation)
def test_a_page_that_replaces_state_or_stops_producers_is_led_to_in_its_own_situation_only(situation: Situation) -> None:
    commands = "\n".join(re.findall(r"^```sh\n(.+?)^```", part_of_page(situation.value), re.MULTILINE | re.DOTALL))
    harms = re.search(r"--replace|\bfailover\b|\bundo\b|\brestore\b.*--approve", commands) is not None
    assert harms == (situation in {Situation.TOPIC_GONE, Situation.RESTORE_HALF_WAY})


@pytest.mark.parametrize("kind", [*CAUSES, *BY_SCHEDULE])
def test_a_section_explains_each_number_of_its_finding(kind: str) -> None:
    limits = WITHOUT_OBJECTIVES if kind in BY_SCHEDULE else LIMITS
    (found,) = judge(RULES, observed(**({**CAUSES, **BY_SCHEDULE}[kind])), limits)
    assert set(re.findall(r"^\| `(\w+)` \|", sections()[kind], re.MULTILINE)) == set(found.numbers)


def test_the_page_lists_exactly_the_metrics_that_are_sent() -> None:
    listed = re.findall(r"^\| `([a-z_]+)` \|", (PROJECT / "docs" / "monitoring.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted([*OWN, *WITHOUT_APPLICATION])


def expressions(value: Any) -> Iterator[str]:
    """Every query of a dashboard or a file of rules."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key in ("expr", "query") and isinstance(each, str):
                yield each
            else:
                yield from expressions(each)
    elif isinstance(value, list):
        for each in value:
            yield from expressions(each)


def dashboard() -> Any:
    return json.loads((FILES / "grafana-dashboard.json").read_text())


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load((FILES / "prometheus-rules.yaml").read_text())["groups"] for rule in group["rules"]]


def test_the_dashboard_shows_every_metric_and_no_other() -> None:
    shown = {name for text in expressions(dashboard()) for name in METRIC.findall(text)}
    assert shown == SENT


def test_rules_use_metrics_that_are_sent() -> None:
    used = {name for rule in rules() for name in METRIC.findall(rule["expr"])}
    assert used
    assert used <= SENT


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_a_rule_is_complete_and_leads_to_a_section(rule: dict[str, Any]) -> None:
    assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
    assert rule["labels"]["severity"] in ("critical", "warning")
    page, _, kind = rule["annotations"]["runbook"].partition("#")
    assert page == "docs/alerts.md"
    assert kind in ("", *KINDS)


def test_panels_do_not_overlap_and_have_ids_of_their_own() -> None:
    panels = dashboard()["panels"]
    taken = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) < 24
    assert len({panel["id"] for panel in panels}) == len(panels)


@pytest.mark.parametrize("name", [*OWN, *WITHOUT_APPLICATION])
def test_the_mapping_gives_each_metric_its_name_and_its_application(name: str) -> None:
    application = None if name in WITHOUT_APPLICATION else "orders.eu-1"
    sent = f"airflow.{info.metric(name, application)}"
    mappings = yaml.safe_load((FILES / "statsd-mapping.yaml").read_text())["mappings"]
    [first, *_] = [(rule, found) for rule in mappings if (found := re.fullmatch(rule["match"], sent))]
    rule, found = first
    assert found.expand(rule["name"].replace("$", "\\")) == f"{info.PREFIX}_{name}"
    labels = {label: found.expand(value.replace("$", "\\")) for label, value in rule.get("labels", {}).items()}
    assert labels == ({} if application is None else {"application": "orders__eu-1"})


def test_every_rule_is_played_beyond_its_limit_and_within() -> None:
    played = yaml.safe_load((PROJECT / "tests" / "data" / "monitoring" / "prometheus-rules-test.yaml").read_text())["tests"]
    checks = [check for one in played for check in one["alert_rule_test"]]
    fired, silent = ({check["alertname"] for check in checks if bool(check["exp_alerts"]) is alerts} for alerts in (True, False))
    assert fired == silent == {rule["alert"] for rule in rules()}
