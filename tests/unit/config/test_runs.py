"""How an application runs: each kind of ``runs``, also one that nobody has thought of yet; pods; and the port of each kind."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self, get_args

import pytest
import yaml
from pydantic import ValidationError

from streams_recovery.application.factory import open_section
from streams_recovery.config.fields import Argv
from streams_recovery.config.loader import load
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.runs import KINDS, IntervalRuns, Kind, Runs, SandboxRuns, StartingKind
from streams_recovery.config.runs.kubernetes import KubernetesRuns
from streams_recovery.config.sandbox import Drill
from streams_recovery.config.sandbox_application import SandboxName, in_sandbox, live
from streams_recovery.core.application_kind import ApplicationKind
from tests.support.examples.configurations import APPLICATION, written

CLONE = {"restore": {"topic_map": {"real": "totals", "real-late": "late"}}, "clone": {"of": "old"}}
CUT_OVER = {**CLONE, "clone": {"of": "old", "cut_over": {"command": ["real", "real-late"]}}}
NAMES = {"application_id": "drill-orders", "topic_map": {"orders-in": "drill-in", "totals": "drill-totals", "late": "drill-late"}}


class Watched(Kind):
    """A kind that starts nothing itself."""

    file: str

    @property
    def no_pause_because(self) -> str | None:
        """Nothing is started, so nothing is paused."""
        return "it is only watched"


class Launched(StartingKind):
    """A kind that starts a program."""

    argv: Argv

    @property
    def no_pause_because(self) -> str | None:
        """It can be paused."""
        return None

    def start_texts(self) -> list[list[str]]:
        """The program."""
        return [list(self.argv)]

    def cut_over(self, environment: Mapping[str, str], command: Argv | None) -> Self:
        """Another program."""
        return self.model_copy(update={"argv": (*(command or self.argv), *environment.values())})

    def in_sandbox(self, section: Launched) -> Launched:
        """A program of its own."""
        return section


class MoreRuns(Runs):
    kind: Literal["process", "command", "watched", "launched"]  # type: ignore[assignment]
    watched: Watched | None = None
    launched: Launched | None = None


class MoreDrill(Drill):
    launched: Launched | None = None


class MoreConfig(ApplicationConfig):
    runs: MoreRuns
    drill: MoreDrill | None = None


def config(kind: str, section: dict[str, Any], **more: Any) -> MoreConfig:
    plain = yaml.safe_load(APPLICATION) | {"name": "orders", "runs": {"kind": kind, kind: section}} | more
    return MoreConfig.model_validate(plain)


def test_every_kind_has_a_section_and_one_that_starts_something_can_run_in_a_sandbox() -> None:
    assert set(Runs.model_fields) == {"kind", *KINDS}
    starting = {kind for kind in KINDS if issubclass(section_class(kind), StartingKind)}
    assert set(SandboxRuns.model_fields) == set(IntervalRuns.model_fields) == starting


def section_class(kind: str) -> type[Kind]:
    """The class of a kind's section."""
    [found] = [one for one in get_args(Runs.model_fields[kind].annotation) if one is not type(None)]
    assert issubclass(found, Kind)
    assert not inspect.isabstract(found)
    return found


def test_a_new_kind_says_of_itself_what_others_ask() -> None:
    chosen = config("watched", {"file": "status"}).runs.chosen
    assert (chosen.no_pause_because, chosen.start_timeout, chosen.stop_timeout) == ("it is only watched", 120, 60)


@pytest.mark.parametrize(
    ("section", "more"),
    [("drill", {"drill": NAMES}), ("reprocess", {"reprocess": NAMES}), ("clone", CLONE)],
)
def test_a_kind_that_starts_nothing_is_refused_where_other_names_are_needed(section: str, more: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"runs\.kind watched") as caught:
        config("watched", {"file": "status"}, **more)
    assert f" {section}: an application " in str(caught.value)


def test_a_new_kind_that_starts_something_can_be_a_clone() -> None:
    taken = live(config("launched", {"argv": ["totals", "late"]}, **CUT_OVER))
    assert isinstance(taken.runs.chosen, Launched)
    assert taken.runs.chosen.argv == ("real", "real-late")
    with pytest.raises(ValidationError, match="the output late is neither in"):
        config("launched", {"argv": ["totals"]}, **CUT_OVER)


def test_and_run_in_a_sandbox() -> None:
    own, argv = {"argv": ["orders-in", "totals", "late"]}, ["drill-orders", "drill-in", "drill-totals", "drill-late"]
    found = in_sandbox(config("launched", own, drill={**NAMES, "launched": {"argv": argv}}), SandboxName(application="orders"))
    assert isinstance(found.runs.chosen, Launched)
    assert found.runs.chosen.argv == tuple(argv)
    with pytest.raises(ValidationError, match="drill-late is neither in"):
        config("launched", own, drill={**NAMES, "launched": {"argv": argv[:-1]}})


@pytest.mark.parametrize("section", ["drill", "reprocess"])
def test_but_not_without_a_section_there(section: str) -> None:
    with pytest.raises(ValidationError, match=rf"{section}\.launched is missing: runs\.kind is launched"):
        config("launched", {"argv": ["totals", "late"]}, **{section: NAMES})


BOTH = """\
    start_timeout_seconds: 7
    stop_timeout_seconds: 5
  command: {status: [s], stop: [s], start: [s], wipe: [s]}
"""


@pytest.mark.parametrize(("kind", "limits"), [("process", (7, 5)), ("command", (120, 60))])
def test_only_the_limits_of_the_way_that_is_chosen_count(tmp_path: Path, kind: str, limits: tuple[int, int]) -> None:
    chosen = load(written(tmp_path, (APPLICATION + BOTH).replace("kind: process", f"kind: {kind}")), {}).runs.chosen
    assert (chosen.start_timeout, chosen.stop_timeout) == limits


PLAIN = {"namespace": "shop", "workload": "deployment/orders", "state_directory": "/var/lib/state", "port": 8080}


def section(**more: Any) -> KubernetesRuns:
    return KubernetesRuns.model_validate({**PLAIN, **more})


def test_the_record_is_named_after_the_workload() -> None:
    assert section().record_name == "orders-streams-recovery"
    assert section(record="mine").record_name == "mine"


def test_a_pause_needs_both_paths() -> None:
    assert section().no_pause_because is None
    assert section(control={"resume": None}).no_pause_because == "runs.kubernetes.control has no resume"


def test_without_a_port_nothing_is_asked_of_pods() -> None:
    silent = section(port=None)
    assert silent.no_pause_because == "runs.kubernetes has no port, so nothing of its pods can be asked"
    assert {name: value for name, value in silent.endpoints if value} == {}
    assert section().endpoints.health == "/health"
    with pytest.raises(ValueError, match="write port, or leave control out"):
        section(port=None, control={"close": "/close"})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"workload": "orders"}, "deployment/NAME"),
        ({"namespace": "Shop"}, "lower case"),
        ({"state_directory": "state"}, "state directory"),
        ({"state_directory": "/state"}, "state directory"),
        ({"state_directory": "/a/../b"}, "state directory"),
        ({"port": 0}, "port"),
        ({"claims": "job"}, "wipe_image is needed"),
        ({"claims": "delete"}, "claims: job"),
        ({"context": "there"}, "kubeconfig"),
        ({"claims": "keep"}, "claims"),
    ],
)
def test_what_cannot_be_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        section(**wrong)


def test_a_clone_or_a_sandbox_cannot_run_so() -> None:
    runs = Runs.model_validate({"kind": "kubernetes", "kubernetes": PLAIN})
    with pytest.raises(ValueError, match=r"drill: an application with runs\.kind kubernetes cannot be started under other names"):
        runs.starting("drill")


def test_each_kind_has_its_port() -> None:
    sections = {section for kind in KINDS for section in get_args(Runs.model_fields[kind].annotation) if section is not type(None)}
    assert len(sections) == len(KINDS)
    assert set(open_section.registry) == {object, *sections}


def test_a_section_without_a_port_is_a_mistake_of_ours() -> None:
    with pytest.raises(TypeError, match="object has no port"):
        open_section(object(), "app", ApplicationKind.KAFKA_STREAMS)
