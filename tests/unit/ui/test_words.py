"""Numbers, lengths of time and moments as the page says them."""

from __future__ import annotations

import pytest

from streams_recovery.ui.words import TITLES, age, iso, moment, number, runbook, seconds, size
from tests.support.project import PROJECT


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (None, "unknown"),
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.0 kB"),
        (99_600, "100 kB"),
        (999_600, "1.0 MB"),
        (38_200_000_000, "38.2 GB"),
    ],
)
def test_sizes(count: float | None, said: str) -> None:
    assert size(count) == said


@pytest.mark.parametrize(
    ("count", "said"), [(None, "unknown"), (7, "7"), (91_000, "91,000"), (1_500_000, "1.5 million"), (2_400_000_000, "2.4 billion")]
)
def test_counts(count: float | None, said: str) -> None:
    assert number(count) == said


@pytest.mark.parametrize(
    ("length", "said"),
    [
        (None, "unknown"),
        (0.4, "0.4 s"),
        (1, "1 s"),
        (59.6, "1 min"),
        (192.5, "3 min 12 s"),
        (3_599, "1 h"),
        (11_520, "3 h 12 min"),
        (90_000, "1 day 1 h"),
        (12 * 86_400, "12 days"),
    ],
)
def test_lengths_of_time(length: float | None, said: str) -> None:
    assert seconds(length) == said


def test_ages_look_both_ways() -> None:
    assert [age(at, 100_000) for at in (None, 40_000, 160_000)] == ["never", "1 min ago", "in 1 min"]


def test_a_moment_is_readable_without_the_script_and_for_it() -> None:
    assert iso(1_795_440_000_000) == "2026-11-23T13:20:00Z"
    assert moment(1_795_440_000_000) == '<time datetime="2026-11-23T13:20:00Z" data-at="1795440000000">2026-11-23 13:20 UTC</time>'


def test_a_runbook_is_a_link_or_says_where_to_look() -> None:
    where = "https://docs.example.com/alerts.md#no-savepoint"
    assert runbook(where) == f'<a href="{where}" target="_blank" rel="noopener noreferrer">{where}</a>'
    assert str(runbook("docs/alerts.md#no-savepoint")) == (
        "section <code>no-savepoint</code> of <em>Alerts</em> in the documentation (<code>docs/alerts.md</code>)"
    )
    assert str(runbook("docs/runbooks/README.md")) == "<em>README</em> in the documentation (<code>docs/runbooks/README.md</code>)"
    assert "<b>" not in runbook("docs/<b>.md#<b>")
    assert "\x1b" not in runbook("https://docs.example.com/\x1b[2J")


def test_pages_have_the_titles_that_are_said() -> None:
    for name, title in TITLES.items():
        assert (PROJECT / "docs" / f"{name}.md").read_text().startswith(f"# {title}\n")
