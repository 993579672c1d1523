"""The page of checks: each question, and where, as what and how severely it is told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from documentation.messages import cell
from streams_recovery.core.checks.catalogue import CHECKS
from streams_recovery.core.checks.check import CatalogueCheck, CheckPlace, Occasion, Severity

# Where the sections of the findings are, which the page of a command has in a table.
_PAGES: Final = {Occasion.LOOK: "alerts.md", Occasion.ADVICE: "advisor.md"}
_HEAD: Final = """\
# Every check

<!-- Made with the site from plugins/streams_recovery/core/checks. Change the questions there. -->

What is asked of topics, brokers, transactions and records, each by one function, wherever it is asked.
Before a run, what is critical [blocks it](command-line.md#preflight), and nothing is said of what is only info.

"""


def kinds_in(asked: Occasion) -> dict[str, set[Severity]]:
    """The kinds of findings in a place, with how severe they can be."""
    found: dict[str, set[Severity]] = {}
    for check in CHECKS:
        for place in check.places:
            if place.asked is asked:
                found.setdefault(place.kind, set()).update(severities(check, place))
    return found


def severities(check: CatalogueCheck[Any], place: CheckPlace) -> tuple[Severity, ...]:
    """How severe answers can be that are told there."""
    found = check.severities if place.severity is None else (place.severity,)
    return tuple(one for one in found if one is not Severity.INFO or place.asked in _PAGES)


def checks_page() -> str:
    """The page as Markdown."""
    lines = [f"| question | {' | '.join(Occasion)} |", f"|---|{'---|' * len(Occasion)}"]
    lines += [f"| {cell(check.question)} | {' | '.join(' '.join(_told(check, asked)) for asked in Occasion)} |" for check in CHECKS]
    lines += ["", "## Asked otherwise on purpose", ""]
    lines += [f"- **{check.question}** {check.apart}" for check in CHECKS if check.apart]
    return _HEAD + "\n".join(lines) + "\n"


def _told(check: CatalogueCheck[Any], asked: Occasion) -> Iterator[str]:
    for place in check.places:
        if place.asked is asked:
            page = _PAGES.get(asked)
            kind = f"`{place.kind}`" if page is None else f"[{place.kind}]({page}#{place.kind})"
            yield f"{', '.join(severities(check, place))}: {kind}"
