"""What the command says to people who know Kafka's own reset tool."""

from __future__ import annotations

import re

import pytest
import typer
from typer.testing import CliRunner

from streams_recovery.cli.app import app
from streams_recovery.cli.rebuild import OF_THE_RESET_TOOL, names
from streams_recovery.core.offsets.strategies import STRATEGIES
from tests.support.command_line import command
from tests.support.project import PROJECT

OPTIONS = {name for option in command("rebuild").params for name in option.opts}
BOTH = {"--input-topics", "--internal-topics"}


@pytest.mark.parametrize("option", OF_THE_RESET_TOOL)
@pytest.mark.parametrize("value", [(), ("=1",)])
def test_an_option_of_the_tool_is_refused_with_its_counterpart(option: str, value: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, ["rebuild", "orders", "".join((option, *value)), "--reason", "r"])
    assert result.exit_code == 2
    assert f"{option} is an option of kafka-streams-application-reset; here, {OF_THE_RESET_TOOL[option]}." in result.stderr


def test_any_other_unknown_option_is_refused_as_always() -> None:
    result = CliRunner().invoke(app, ["rebuild", "orders", "--to-nowhere"])
    assert (result.exit_code, "No such option: --to-nowhere" in result.stderr) == (2, True)


def test_no_counterpart_names_what_is_not_there() -> None:
    for text in OF_THE_RESET_TOOL.values():
        assert set(re.findall(r"--[a-z-]+", text)) <= OPTIONS
        for wanted in re.findall(r"--offsets ([^ ,]+)", text):
            assert wanted in {*(strategy.FORM for strategy in STRATEGIES), "file:NAME"}
    assert BOTH < OPTIONS
    assert not OPTIONS & OF_THE_RESET_TOOL.keys()


def test_the_page_has_a_row_for_each_option() -> None:
    page = PROJECT.joinpath("docs", "strategies", "rebuild.md").read_text(encoding="utf-8")
    table = re.search(r"^\| the tool \|.*\n\|.*\n((?:\|.*\n)+)", page, re.MULTILINE)
    assert table is not None
    first = [row.split("|")[1] for row in table[1].splitlines()]
    found = [option for cell in first for option in re.findall(r"`(--[a-z-]+)`", cell)]
    assert sorted(found) == sorted({*OF_THE_RESET_TOOL, *BOTH})


def test_topics_come_one_by_one_or_with_commas() -> None:
    assert names(None) == names([]) == ()
    assert names(["a,b", "c", " d , e"]) == ("a", "b", "c", "d", "e")


@pytest.mark.parametrize("given", [[""], ["a,"], ["a", " "]])
def test_an_empty_name_does_not_mean_all_topics(given: list[str]) -> None:
    with pytest.raises(typer.BadParameter, match="is empty"):
        names(given)
