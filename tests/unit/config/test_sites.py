"""Sites of an application: another cluster, another way to run, other names; and never the same one twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streams_recovery.config.contradictions import contradictions, neighbours
from streams_recovery.config.loader import load, load_named
from streams_recovery.config.sandbox_application import SandboxApplication
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.repository.sites import PRIMARY
from tests.support.examples.configurations import APPLICATION, DRILL, refused, written

SITES = """\
sites:
  dr:
    connection: kafka_dr
    topic_map: {orders-in: primary.orders-in, totals: totals-dr}
    replication_factor: 1
    runs:
      kind: process
      process:
        directory: run-dr
        command: [java, Orders.java]
        environment: {ID: orders}
        instances: [{name: one, url: "http://127.0.0.1:18091", state_directory: state-dr/1}]
"""
STORES = "stores: {table: {source: orders-in}}\n"
MODE = "backup: {survive_cluster_loss: false, consistency: {mode: pause}}"
APP = APPLICATION.replace("topic_map: {a: b}", "topic_map: {}")


def test_a_site_changes_the_cluster_the_names_and_how_it_runs_and_nothing_else(tmp_path: Path) -> None:
    config = load(written(tmp_path, APP + SITES + STORES), {})
    there = config.at("dr")
    assert there.source.connection == "kafka_dr"
    assert there.topics.inputs == ("primary.orders-in",)
    assert there.topics.outputs == ("totals-dr", "late")
    assert there.stores["table"].source == "primary.orders-in"
    assert there.runs.chosen is config.sites["dr"].runs.chosen
    assert there.restore.replication_factor == 1
    assert there.restore.topic_map == {"orders-in": "primary.orders-in", "totals": "totals-dr"}
    same = {"name", "application", "storage", "backup", "retention", "monitor", "groups"}
    assert there.model_dump(include=same) == config.model_dump(include=same)


def test_the_way_home_gives_topics_their_own_names_again(tmp_path: Path) -> None:
    config = load(written(tmp_path, APP + SITES), {})
    home = config.at(PRIMARY)
    assert (home.source, home.topics, home.runs) == (config.source, config.topics, config.runs)
    assert home.restore.topic_map == {"primary.orders-in": "orders-in", "totals-dr": "totals"}


def test_between_two_other_sites_names_go_over_without_a_detour(tmp_path: Path) -> None:
    third = SITES.removeprefix("sites:\n").replace("dr", "third").replace("18091", "18092").replace("primary.orders-in", "c.orders-in")
    config = load(written(tmp_path, APP + SITES + third), {})
    assert config.at("third").restore.topic_map == {
        "orders-in": "c.orders-in",
        "totals": "totals-third",
        "primary.orders-in": "c.orders-in",
        "totals-dr": "totals-third",
    }


def test_without_sites_there_is_the_primary_one_alone(tmp_path: Path) -> None:
    config = load(written(tmp_path, APP), {})
    assert config.at(PRIMARY) is config
    with pytest.raises(ConfigInvalid, match="has no site 'dr'; known: primary"):
        config.at("dr")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("  dr:", "  primary:", "primary is the site that the rest of the file describes"),
        ("connection: kafka_dr", "connection: kafka_default", "sites.dr.connection: kafka_default is that of another site"),
        ("orders-in: primary.orders-in", "nothing: else", "sites.dr.topic_map: nothing is no topic of this application"),
        ("primary.orders-in", "orders-x-changelog", "orders-x-changelog is the name of an internal topic"),
        ("totals-dr", "late", "late would stand for 2 topics there"),
        ("directory: run-dr", "directory: run", "sites.dr.process.directory: it is that of the application itself"),
        ("18091", "18081", "http://127.0.0.1:18081 is an instance of the application itself"),
    ],
)
def test_what_would_let_one_site_touch_another_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in SITES
    assert said in refused(tmp_path, APP + SITES.replace(old, new))


def test_a_site_that_cannot_be_paused_is_named(tmp_path: Path) -> None:
    text = APP.replace("backup: {survive_cluster_loss: false}", MODE) + SITES
    assert load(written(tmp_path, text), {}).at("dr").no_pause_because is None
    command = "{status: [a], stop: [a], wipe: [a], start: [a]}"
    site = f"sites: {{dr: {{connection: c, runs: {{kind: command, command: {command}}}}}}}\n"
    assert "cannot be paused at dr" in refused(tmp_path, text.replace(SITES, site))


def test_a_clone_has_no_sites(tmp_path: Path) -> None:
    assert "sites: a clone has none" in refused(tmp_path, APP + SITES + "clone: {of: other}\n")


def test_two_files_of_one_application_contradict_each_other_at_any_site(tmp_path: Path) -> None:
    one = load(written(tmp_path, APP + SITES), {})
    other = load(written(tmp_path, APP.replace("version: 1\n", "version: 1\nsource: {connection: kafka_dr}\n"), "second.yaml"), {})
    assert set(contradictions({"orders": one, "second": other}, configured=("orders", "second"))) == {"orders", "second"}
    billing = load(
        written(
            tmp_path,
            APP.replace("id: orders", "id: billing").replace("version: 1\n", "version: 1\nsource: {connection: kafka_dr}\n"),
            "billing.yaml",
        ),
        {},
    )
    assert set(neighbours(one.at("dr"), {"orders": one, "billing": billing})) == {"billing"}
    assert set(neighbours(billing, {"orders": one, "billing": billing})) == {"orders"}


AT_DR = DRILL.replace("drill:\n", "drill:\n  site: dr\n")
# Programs that would know all names of a drill, and an address of their own.
ELSEWHERE = SITES.replace("environment: {ID: orders}", "environment: {ID: orders, BOOTSTRAP: dr}")


def drill_of(directory: Path, text: str) -> SandboxApplication:
    written(directory, text)
    found = load_named("orders:drill", directory, {})
    assert isinstance(found, SandboxApplication)
    return found


def test_a_drill_at_a_site_has_its_cluster_its_names_and_what_runs_there(tmp_path: Path) -> None:
    drill = drill_of(tmp_path, APP + ELSEWHERE + AT_DR + STORES)
    assert (drill.name, drill.pinned_site, drill.source.connection) == ("orders:drill", "dr", "kafka_dr")
    assert (drill.topics.inputs, drill.topics.outputs) == (("primary.orders-in",), ("drill-totals", "drill-late"))
    assert drill.stores["table"].source == "primary.orders-in"
    assert drill.restore.replication_factor == 1
    # By the names of either site, a savepoint may be of.
    assert drill.restore.topic_map == {
        "orders-in": "primary.orders-in",
        "totals": "drill-totals",
        "totals-dr": "drill-totals",
        "late": "drill-late",
    }
    # What is not its own is not there: nothing makes or removes it.
    assert drill.own == {"totals-dr": "drill-totals", "late": "drill-late"}
    process = drill.runs.process
    assert process is not None
    assert (process.directory, process.environment["BOOTSTRAP"]) == (str(tmp_path / "drill" / "run"), "dr")
    assert drill.of.drill is not None


def test_a_drill_without_a_site_can_be_at_each(tmp_path: Path) -> None:
    drill = drill_of(tmp_path, APP + ELSEWHERE + DRILL)
    assert (drill.pinned_site, drill.source.connection, drill.topics.inputs) == (None, "kafka_default", ("orders-in",))
    assert drill.restore.topic_map == {
        "totals": "drill-totals",
        "late": "drill-late",
        "primary.orders-in": "orders-in",
        "totals-dr": "drill-totals",
    }
    there = drill.at("dr")
    assert (there.source.connection, there.topics.inputs) == ("kafka_dr", ("primary.orders-in",))
    assert there.at(PRIMARY) == drill
    assert there.model_copy().own == {"totals-dr": "drill-totals", "late": "drill-late"}


def test_a_drill_copies_an_input_under_the_name_that_its_section_gives_it(tmp_path: Path) -> None:
    mapped = AT_DR.replace("{totals: drill-totals", "{orders-in: drill-in, totals: drill-totals").replace(
        "ID: drill", "IN: drill-in, ID: drill"
    )
    drill = drill_of(tmp_path, APP + ELSEWHERE + mapped)
    assert drill.topics.inputs == ("drill-in",)
    assert {old for old, new in drill.restore.topic_map.items() if new == "drill-in"} == {"orders-in", "primary.orders-in"}


@pytest.mark.parametrize(
    ("drill", "sites", "said"),
    [
        (AT_DR.replace("site: dr", "site: third"), SITES, "drill.site: there is no site third; known: primary, dr"),
        (AT_DR, "", "drill.site: there is no site dr; known: primary"),
        (
            AT_DR.replace("late: drill-late}", "late: primary.orders-in}"),
            SITES,
            "primary.orders-in is a topic of the application itself, at dr",
        ),
        (DRILL.replace("late: drill-late}", "late: totals-dr}"), SITES, "totals-dr is a topic of the application itself, at dr"),
        (
            AT_DR.replace("drill/run", "run-dr"),
            SITES,
            "drill.process.directory: it is that of the application itself, whose processes drill would stop, at dr",
        ),
        (DRILL.replace("18083", "18091"), SITES, "http://127.0.0.1:18091 is an instance of the application itself, at dr"),
        (AT_DR.replace("18083", "18082"), SITES, "http://127.0.0.1:18082 is an instance of the application itself, at primary"),
        (AT_DR.replace("drill/run", "run"), SITES, "whose processes drill would stop, at primary"),
        (AT_DR.replace(", LATE: drill-late", ""), SITES, "drill.process: drill-late is neither in the environment nor in the command"),
    ],
)
def test_a_drill_that_could_touch_the_application_at_any_site_is_refused(tmp_path: Path, drill: str, sites: str, said: str) -> None:
    assert said in refused(tmp_path, APP + sites + drill)


KUBERNETES = """\
sites:
  dr:
    connection: kafka_dr
    runs:
      kind: kubernetes
      kubernetes: {namespace: orders, workload: statefulset/orders, state_directory: /state/orders, port: 8080}
"""


def test_a_drill_that_cannot_follow_the_application_is_refused_there_and_not_at_home(tmp_path: Path) -> None:
    drill = drill_of(tmp_path, APP + KUBERNETES + DRILL)
    with pytest.raises(ConfigInvalid, match=r"orders:drill cannot be at the site dr: drill: an application with runs\.kind kubernetes"):
        drill.at("dr")
    assert "runs.kind kubernetes cannot be started under other names, so it cannot have this section, at dr" in refused(
        tmp_path, APP + KUBERNETES + AT_DR
    )


def test_a_drill_can_have_a_site_where_the_primary_one_cannot_run_it(tmp_path: Path) -> None:
    kubernetes = KUBERNETES[KUBERNETES.index("      kind") :].replace("      ", "  ")
    own = APP[: APP.index("runs:")] + "runs:\n" + kubernetes
    site = ELSEWHERE.replace("environment: {ID: orders,", "environment: {ID: orders, TOTALS: totals-dr,")
    assert drill_of(tmp_path, own + site + AT_DR).runs.kind == "process"


def in_pods(**site: object) -> str:
    """An application in pods, and the same workload at another site with these changes."""
    own = {
        "namespace": "shop",
        "workload": "statefulset/orders",
        "state_directory": "/state/orders",
        "port": 8080,
        "kubeconfig": "/k",
        "context": "a",
    }
    runs = {"kind": "kubernetes", "kubernetes": own}
    there = {"connection": "kafka_dr", "runs": runs | {"kubernetes": own | site}}
    return f"{APP[: APP.index('runs:')]}runs: {json.dumps(runs)}\nsites: {json.dumps({'dr': there})}\n"


@pytest.mark.parametrize("other", [{"context": "b"}, {"kubeconfig": "/other"}, {"namespace": "x"}, {"workload": "deployment/orders"}])
def test_a_workload_of_the_same_name_somewhere_else_is_another_one(tmp_path: Path, other: dict[str, object]) -> None:
    found = load(written(tmp_path, in_pods(**other)), {}).at("dr").runs.kubernetes
    assert found is not None
    assert {name: getattr(found, name) for name in other} == other


@pytest.mark.parametrize("same", [{}, {"port": 8081}, {"replicas": 1}, {"record": "other"}])
def test_a_workload_is_that_of_one_site(tmp_path: Path, same: dict[str, object]) -> None:
    assert "sites.dr.runs: it is how another site runs" in refused(tmp_path, in_pods(**same))


def test_programs_that_ask_for_one_site_answer_for_one_site(tmp_path: Path) -> None:
    programs = {"status": ["look"], "stop": ["stop"], "start": ["start"], "wipe": ["wipe"]}

    def text(**changes: object) -> str:
        there = {"connection": "kafka_dr", "runs": {"kind": "command", "command": programs | changes}}
        own = {"kind": "command", "command": programs}
        return f"{APP[: APP.index('runs:')]}runs: {json.dumps(own)}\nsites: {json.dumps({'dr': there})}\n"

    said = "sites.dr.runs: it is how another site runs"
    assert said in refused(tmp_path, text())
    assert said in refused(tmp_path, text(start=["start", "--dr"]))
    for changes in ({"status": ["look", "dr"]}, {"environment": {"SITE": "dr"}}):
        assert load(written(tmp_path, text(**changes)), {}).sites
