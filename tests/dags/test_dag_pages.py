"""The page of each DAG is made from the DAG as it is, and the commands of Airflow in the pages are some."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from airflow.cli.cli_parser import get_parser

from documentation.dag_facts import FACTS, NOTHING
from documentation.dag_pages import dag_files, dags_in
from tests.support.page_commands import blocks, lines, pages
from tests.support.project import PROJECT

HERE = PROJECT / "docs" / "dags"


@pytest.fixture(scope="module")
def dags() -> dict[str, Any]:
    return dags_in(PROJECT / "dags")


def test_every_dag_has_a_page(dags: dict[str, Any]) -> None:
    assert FACTS.keys() == dags.keys()
    assert {path.stem for path in (PROJECT / "dags").glob("*.py")} - {"streams_configuration"} == FACTS.keys()


def test_every_page_is_as_it_would_be_made_now(dags: dict[str, Any]) -> None:
    made = dict(dag_files(dags))
    assert {path.name: path.read_text(encoding="utf-8") for path in HERE.iterdir()} == made, "run: make pages"


@pytest.mark.parametrize("name", FACTS)
def test_what_holds_an_application_goes_from_a_task_to_a_later_one(dags: dict[str, Any], name: str) -> None:
    for first, last in FACTS[name].down:
        assert first in dags[name].get_task(last).get_flat_relative_ids(upstream=True)
    if FACTS[name].stops.startswith(NOTHING):
        assert FACTS[name].down == ()


def test_commands_of_airflow_are_some() -> None:
    found = [line for text in pages().values() for block in blocks(text) for line in lines(block) if line.startswith("airflow ")]
    assert len(found) >= 3
    for command in found:
        get_parser().parse_args(shlex.split(command)[1:])
