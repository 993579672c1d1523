"""The style sheet and the script: readable in both themes, nothing from elsewhere, nothing that the page's own policy forbids."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from streams_recovery.core.escaping import visible_lines
from streams_recovery.core.status.report import StatusFinding
from streams_recovery.ui.pages import _environment
from tests.support.examples.statuses import ADVICE
from tests.support.hostile import HOSTILE
from tests.support.project import PROJECT

UI = PROJECT / "plugins" / "streams_recovery" / "ui"
CSS = (UI / "static" / "page.css").read_text()
READABLE = 4.5
SHAPE = 3.0
# Text on the background that it stands on.
TEXTS = [
    *product(("text", "dim", "link"), ("bg", "card", "soft")),
    *(("good", "good-bg"), ("warn", "warn-bg"), ("bad", "bad-bg"), ("info", "info-bg"), ("on-strong", "strong"), ("text", "info-bg")),
    *product(("warn", "bad", "strong", "good"), ("bg", "card")),
]
SHAPES = [
    *product(("mark", "ahead", "damaged", "edited", "drill", "bad"), ("card", "gap")),
    ("dim", "card"),
    ("focus", "bg"),
    ("focus", "card"),
]


def themes() -> dict[str, dict[str, str]]:
    """The colours of each theme, by name: the light one, the dark one by the system, and the dark one that was chosen."""
    blocks = re.findall(r":root[^{]*\{([^}]*)\}", CSS)
    assert len(blocks) == 3
    return dict(zip(("light", "dark", "chosen"), (dict(re.findall(r"--([\w-]+): (#\w{6});", block)) for block in blocks), strict=True))


def contrast(one: str, other: str) -> float:
    """As WCAG defines it."""

    def luminance(colour: str) -> float:
        parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark", "chosen"])
def test_text_and_shapes_stand_out_in_both_themes(theme: str) -> None:
    colours = themes()[theme]
    pale = [(*pair, round(contrast(colours[pair[0]], colours[pair[1]]), 2)) for pair in TEXTS]
    assert [found for found in pale if found[2] < READABLE] == []
    faint = [(*pair, round(contrast(colours[pair[0]], colours[pair[1]]), 2)) for pair in SHAPES]
    assert [found for found in faint if found[2] < SHAPE] == []


def test_the_dark_theme_is_the_same_whoever_chose_it() -> None:
    assert themes()["dark"] == themes()["chosen"]


def test_contrast_is_measured() -> None:
    assert (round(contrast("#000000", "#ffffff")), round(contrast("#777777", "#777777"))) == (21, 1)


@pytest.mark.parametrize(
    "path", sorted(path for folder in ("static", "templates") for path in (UI / folder).iterdir()), ids=lambda path: path.name
)
def test_nothing_comes_from_elsewhere_and_nothing_is_inline(path: Path) -> None:
    text = path.read_text()
    assert re.findall(r"https?:|@import|url\(", text) == []
    if path.suffix == ".html":
        assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon\w+=|javascript:", text) == []
        assert re.findall(r"(?:href|src|action)=\"/", text) == [], "addresses are relative: Airflow may have a path before it"
        assert "|safe" not in text


def test_the_script_writes_text_and_never_markup() -> None:
    script = (UI / "static" / "page.js").read_text()
    assert re.findall(r"innerHTML\s*=[^=]|insertAdjacentHTML|document\.write|\beval\(|new Function", script) == []


def findings(found: StatusFinding) -> str:
    """The list of one finding, as it is on a page."""
    return str(_environment().get_template("_findings.html").module.list((found,), ""))


def test_the_page_of_a_finding_is_a_link_where_it_has_an_address() -> None:
    address = "https://docs.example.com/recovery/advisor.md#no-standby"
    assert f'<a href="{address}" target="_blank" rel="noopener noreferrer">{address}</a>' in findings(replace(ADVICE, runbook=address))
    assert "<code>docs/runbooks/slow-recovery.md</code>" in findings(ADVICE)
    for other in ("javascript:alert(1)", "data:text/html,x", "//evil.example.com"):
        assert "<a " not in findings(replace(ADVICE, runbook=other))


def test_nothing_on_the_page_turns_or_hides_text() -> None:
    shown = html.unescape(findings(replace(ADVICE, subject=f"{HOSTILE}!", text=HOSTILE, remedies=(HOSTILE,))))
    # As text and in an attribute.
    assert shown.count(visible_lines(HOSTILE)) == 4
    assert all(line.isprintable() for line in shown.split("\n"))
    assert "<script>" not in findings(replace(ADVICE, text=HOSTILE))
