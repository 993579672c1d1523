"""Four pages are a way from nothing to a first restore: short, one behind the other, in two flavours, and each shows what is on the screen."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
import yaml

from tests.support.project import PROJECT
from tests.support.walk import PAGES, missing, page, steps

WORDS = 3_000
FLAVOURS = ("**Terminal", "**Airflow")
PRINTED = "way: It is stopped\nsavepoint 20261129T231500Z-0123456789: exact, 12 records\ntook 3.5 s\n0 blockers\n"


def test_the_way_is_short() -> None:
    assert sum(len(page(name).split()) for name in PAGES) <= WORDS


def test_each_page_leads_to_the_next_and_the_site_has_them_first() -> None:
    for before, after in pairwise(PAGES):
        assert f"]({after})" in page(before), f"{before} does not lead to {after}"
    navigation = yaml.safe_load(re.sub(r"^.*!!.*$", "", (PROJECT / "mkdocs.yml").read_text(encoding="utf-8"), flags=re.MULTILINE))["nav"]
    assert navigation[0] == {"Start": list(PAGES)}


@pytest.mark.parametrize("name", ["quick-start.md", "first-restore.md"])
def test_what_differs_is_said_for_both_flavours(name: str) -> None:
    assert [flavour for flavour in FLAVOURS if flavour not in page(name)] == []


@pytest.mark.parametrize("name", PAGES[1:])
def test_each_page_that_has_something_to_type_shows_what_is_printed(name: str) -> None:
    assert [step for step in steps(name) if step.shown]


@pytest.mark.parametrize(
    ("shown", "absent"),
    [
        ("way: It is stopped\n...\n0 blockers", 0),
        ("savepoint 20270101T000000Z-aaaaaaaaaa: exact, ... records", 0),
        ("took 41 min 2 s", 0),
        ("way: It is paused", 1),
        ("0 blockers\nway: It is stopped", 1),
    ],
)
def test_what_is_shown_is_compared_but_for_ids_and_times(shown: str, absent: int) -> None:
    assert len(missing(shown, PRINTED)) == absent
