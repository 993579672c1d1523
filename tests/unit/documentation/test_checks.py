"""What pages say of a check is what the catalogue says."""

from __future__ import annotations

import re

import pytest

from documentation.checks import checks_page, kinds_in
from streams_recovery.core.checks.catalogue import CHECKS
from streams_recovery.core.checks.check import Occasion, Severity
from tests.support.project import PROJECT

DOCS = PROJECT / "docs"


def test_the_page_has_every_question_once() -> None:
    rows = [line for line in checks_page().splitlines() if line.startswith("| ")][1:]
    assert len(rows) == len(CHECKS) == len({check.question for check in CHECKS})
    assert all(row.count("|") == len(Occasion) + 2 for row in rows)


def test_the_list_of_a_preflight_names_every_kind_that_is_asked_before_a_run() -> None:
    text = (DOCS / "command-line.md").read_text(encoding="utf-8").partition("\n### preflight\n")[2].partition("\n### ")[0]
    named = {kind for row in re.findall(r"^\| (`.+?`) \|", text, re.MULTILINE) for kind in re.findall(r"`([^`]+)`", row)}
    assert {*kinds_in(Occasion.SAVEPOINT), *kinds_in(Occasion.RESTORE)} <= named


@pytest.mark.parametrize(("kind", "severities"), kinds_in(Occasion.LOOK).items(), ids=lambda one: one if isinstance(one, str) else "")
def test_the_section_of_an_alert_begins_with_how_severe_it_is(kind: str, severities: set[str]) -> None:
    text = (DOCS / "alerts.md").read_text(encoding="utf-8").partition(f"\n## {kind}\n")[2].strip()
    begins = re.split(r"\.\s", text)[0].lower()
    assert {one for one in Severity if re.search(rf"\b{one}\b", begins)} == severities


def test_every_kind_of_advice_has_a_section() -> None:
    sections = re.findall(r"^## (.+)$", (DOCS / "advisor.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(sections) == sorted(kinds_in(Occasion.ADVICE))
