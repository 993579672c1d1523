"""Numbers and moments as the page says them: short, with the exact value for whoever points at it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from markupsafe import Markup

from streams_recovery.core import words
from streams_recovery.core.escaping import visible_lines

_MINUTE: Final = 60
_SECONDS_COUNT: Final = 10 * _MINUTE
UNKNOWN: Final = "unknown"
# Of the pages with the sections of findings.
TITLES: Final = {"alerts": "Alerts", "advisor": "Advice"}


def size(count: float | None) -> str:
    """``38.2 GB``."""
    if count is None:
        return UNKNOWN
    return words.size(count)


def number(count: float | None) -> str:
    """``1.5 million``; small ones as they are."""
    if count is None:
        return UNKNOWN
    for limit, word in ((999_500_000, "billion"), (999_500, "million")):
        if abs(count) >= limit:
            return f"{count / (1e9 if word == 'billion' else 1e6):.1f} {word}"
    return f"{round(count):,}"


def seconds(length: float | None) -> str:
    """``4 min``, ``3 h 12 min``, ``12 days``: one or two units."""
    if length is None:
        return UNKNOWN
    # Seconds beside ten minutes and more say nothing.
    return words.span(length if length < _SECONDS_COUNT else round(length / _MINUTE) * _MINUTE)


def age(at: int | None, now: int) -> str:
    """``12 min ago``, ``in 3 min``."""
    if at is None:
        return "never"
    length = (now - at) / 1000
    return f"{seconds(length)} ago" if length >= 0 else f"in {seconds(-length)}"


def iso(at: int) -> str:
    """The moment as programs read it."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def utc(at: int, form: str = "%Y-%m-%d %H:%M") -> str:
    """The moment as people read it, in UTC."""
    return datetime.fromtimestamp(at / 1000, UTC).strftime(form)


def moment(at: int | None) -> Markup:
    """A moment that the script of the page says in the reader's zone; in UTC without it."""
    if at is None:
        return Markup("never")
    return Markup('<time datetime="{iso}" data-at="{at}">{text} UTC</time>').format(iso=iso(at), at=at, text=utc(at))


def runbook(address: str) -> Markup:
    """Where a finding is explained: a link if ``monitor.docs_url`` says where the documentation is, else the section's page by its title and file."""
    address = visible_lines(address)
    if address.startswith(("https://", "http://")):
        return Markup('<a href="{0}" target="_blank" rel="noopener noreferrer">{0}</a>').format(address)
    file, _, section = address.partition("#")
    name = file.rpartition("/")[2].removesuffix(".md")
    page = Markup("<em>{}</em> in the documentation (<code>{}</code>)").format(TITLES.get(name, name), file)
    return Markup("section <code>{}</code> of {}").format(section, page) if section else page
