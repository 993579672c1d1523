"""One application in a few lines: can it be brought back, to when, how long would it take, what is wrong. Pure.

Also numbers, sizes and moments as the page says them: as the command line does.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from markupsafe import Markup

from streams_recovery.core import words
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.escaping import visible, visible_lines
from streams_recovery.core.repository.mirror import SecondPlace
from streams_recovery.core.repository.seal import NOT_SEALED, SEALED
from streams_recovery.core.repository.sites import PRIMARY, SiteEntry
from streams_recovery.core.status.report import Health, RunKind, RunSummary, StatusFinding, StatusReport
from streams_recovery.core.words import LAST_MOMENT, command
from streams_recovery.ui.statuses import KnownStatus, without_paths

UNKNOWN: Final = "unknown"
# Titles of the pages with the sections of findings.
TITLES: Final = {"alerts": "Alerts", "advisor": "Advice"}
_DAY_MS: Final = 86_400_000
_GROWTH_OVER_MS: Final = 7 * _DAY_MS
# Most shown characters of a text from a log.
_MOST_SHOWN: Final = 500


def size(count: float | None) -> str:
    """``38.2 GB``."""
    return UNKNOWN if count is None else words.size(count)


def number(count: float | None) -> str:
    """``1,500,000``."""
    return UNKNOWN if count is None else words.count(count)


def seconds(length: float | None) -> str:
    """``4 min``, ``3 h 12 min``, ``12 days``: one or two units."""
    return UNKNOWN if length is None else words.span(length)


def age(at: int | None, now: int) -> str:
    """``12 min ago``, ``in 3 min``."""
    if at is None:
        return "never"
    length = (now - at) / 1000
    return f"{seconds(length)} ago" if length >= 0 else f"in {seconds(-length)}"


def iso(at: int) -> str:
    """The moment as programs read it."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def utc(at: int, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    """The moment as people read it, in UTC."""
    return datetime.fromtimestamp(at / 1000, UTC).strftime(form)


def moment(at: int | None) -> Markup:
    """A moment that the script of the page says in the reader's zone; in UTC without it."""
    if at is None:
        return Markup("never")
    return Markup('<time datetime="{iso}" data-at="{at}">{text}</time>').format(iso=iso(at), at=at, text=words.moment(at))


def runbook(address: str) -> Markup:
    """The place that explains a finding: a link if ``monitor.docs_url`` says where the documentation is, else the section's page by its title and file."""
    address = visible_lines(address)
    if address.startswith(("https://", "http://")):
        return Markup('<a href="{0}" target="_blank" rel="noopener noreferrer">{0}</a>').format(address)
    file, _, section = address.partition("#")
    name = file.rpartition("/")[2].removesuffix(".md")
    page = Markup("<em>{}</em> in the documentation (<code>{}</code>)").format(TITLES.get(name, name), file)
    return Markup("section <code>{}</code> of {}").format(section, page) if section else page


class ShownState(enum.StrEnum):
    """State that is shown of an application. Besides its health: nothing was read yet, it was not observed yet, or its configuration cannot be used."""

    BROKEN = "broken"
    TROUBLE = "trouble"
    UNREADABLE = "unreadable"
    ATTENTION = "attention"
    UNKNOWN = "unknown"
    LOADING = "loading"
    GOOD = "good"
    UNUSED = "unused"

    @property
    def calm(self) -> bool:
        """True when there is nothing to do about it."""
        return self in (ShownState.GOOD, ShownState.UNUSED)


SHAPES: Final = {
    ShownState.BROKEN: "■",
    ShownState.TROUBLE: "■",
    ShownState.UNREADABLE: "▲",
    ShownState.ATTENTION: "▲",
    ShownState.UNKNOWN: "○",
    ShownState.LOADING: "○",
    ShownState.GOOD: "●",
    ShownState.UNUSED: "○",
}
WORDS: Final = {
    ShownState.BROKEN: "configuration broken",
    ShownState.TROUBLE: "trouble",
    ShownState.UNREADABLE: "repository not readable",
    ShownState.ATTENTION: "needs attention",
    ShownState.UNKNOWN: "not observed yet",
    ShownState.LOADING: "reading",
    ShownState.GOOD: "good",
    ShownState.UNUSED: "not in use",
}
_CALM: Final = {Health.GOOD: ShownState.GOOD, Health.UNUSED: ShownState.UNUSED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """One application. ``old`` is true when what is said is of some time ago: it is greyed. ``problem`` says why, ``next_step`` what to do about it."""

    name: str
    state: ShownState
    headline: tuple[Markup, ...]
    old: bool = False
    taken_at: int | None = None
    facts: tuple[Markup, ...] = ()
    problem: str | None = None
    next_step: str | None = None
    findings: tuple[StatusFinding, ...] = ()

    @property
    def shape(self) -> str:
        """A sign of the state: it is not told by colour alone."""
        return SHAPES[self.state]

    @property
    def word(self) -> str:
        """The state as people say it."""
        return WORDS[self.state]

    @property
    def order(self) -> tuple[int, str]:
        """The place in a list: applications in trouble come first."""
        return list(ShownState).index(self.state), self.name


def broken(name: str, error: ConfigInvalid) -> Overview:
    """An application whose configuration cannot be used. The lines are the loader's."""
    return Overview(
        name=name,
        state=ShownState.BROKEN,
        headline=(Markup("no savepoint is taken while its configuration cannot be used"),),
        problem=without_paths(error.reason),
        next_step=without_paths(error.next_step),
    )


def overview(name: str, known: KnownStatus, now: int) -> Overview:
    """An application by its stored status."""
    report = known.report
    if report is None:
        return _without_status(name, known)
    # Then it says nothing of the present: the monitor does not run.
    looked = report.monitored_at
    stale = report.fresh_seconds is not None and looked is not None and now - looked > report.fresh_seconds * 1000
    problem = known.problem or (
        f"The status is {seconds((now - looked) / 1000)} old: streams_monitor does not run." if stale and looked is not None else None
    )
    return Overview(
        name=name,
        state=_state(report, known, stale=stale),
        old=problem is not None,
        taken_at=looked if stale else report.taken_at,
        headline=headline(report, now),
        facts=(*_away(known.site), *facts(report, now, sealed=known.sealed)),
        problem=problem,
        next_step=None if known.problem is not None else _next_step(report, stale=stale),
        findings=worst_first(report.findings),
    )


def _next_step(report: StatusReport, *, stale: bool) -> str | None:
    if report.monitored_at is None:
        return "Unpause streams_monitor. Cluster and application are not looked at yet: this is what the repository says."
    return "Unpause streams_monitor, and look at its newest run." if stale else None


def _without_status(name: str, known: KnownStatus) -> Overview:
    state = ShownState.UNREADABLE if known.problem else ShownState.UNKNOWN if known.asked else ShownState.LOADING
    return Overview(
        name=name,
        state=state,
        headline=(Markup("not looked at yet"),),
        old=state is ShownState.UNREADABLE,
        problem=known.problem,
        next_step=None if known.problem else "Unpause streams_monitor. It looks at each application and stores its status.",
    )


def _state(report: StatusReport, known: KnownStatus, *, stale: bool) -> ShownState:
    if report.health is Health.TROUBLE:
        return ShownState.TROUBLE
    if known.problem is not None:
        return ShownState.UNREADABLE
    if report.health is Health.ATTENTION or stale:
        return ShownState.ATTENTION
    return _CALM.get(report.health, ShownState.UNKNOWN)


def worst_first(findings: tuple[StatusFinding, ...]) -> tuple[StatusFinding, ...]:
    """The most severe first."""
    return tuple(sorted(findings, key=lambda found: found.severity.rank))


def headline(report: StatusReport, now: int) -> tuple[Markup, ...]:
    """To when it can be brought back, how long that would take, and whether that survives the loss of the cluster."""
    newest = report.newest_exact
    if report.health is Health.UNUSED:
        return (Markup("nothing of it exists: a clone, or a restore into it, can begin"),)
    if newest is None and report.parts["repository"].looked_at is None:
        return (Markup("not looked at yet"),)
    if newest is None:
        forged = sum(one.savepoint_id is not None for one in report.forged)
        besides = f", and {forged} {'savepoint is' if forged == 1 else 'savepoints are'} forged" if forged else ""
        return (Markup("<strong>cannot be brought back</strong>: no exact savepoint{}").format(besides),)
    back = Markup("can be brought back to {} ({})").format(moment(newest.captured_at), age(newest.captured_at, now))
    objective = report.objectives.newest_age_seconds
    if objective is not None and now - newest.captured_at > objective * 1000:
        back += Markup(", objective {}").format(seconds(objective))
    takes = f"would take about {seconds(report.estimate.total)}" if report.estimate else "how long it would take is not known"
    return back, Markup.escape(takes), _loss(report, survives=newest.survives_cluster_loss)


def _loss(report: StatusReport, *, survives: bool) -> Markup:
    """The cost of a loss of the cluster. Ages are those of the look: what came since may be archived by now."""
    point, loss, objective = report.recovery_point, report.loss_seconds, report.objectives.loss_seconds
    if not survives or point is None or loss is None:
        return Markup("does not survive cluster loss")
    said = Markup("survives cluster loss")
    if report.archive is not None:
        said += Markup(" with input up to {} ({} before the look)").format(moment(point), seconds(loss))
        if report.archive.state_at is not None:
            said += Markup(" and state of {}").format(moment(report.archive.state_at))
    return said if objective is None or loss <= objective else said + Markup(", objective {}").format(seconds(objective))


@dataclass(frozen=True, slots=True, kw_only=True)
class SitesShown:
    """The place of an application with several sites, and the fenced sites that it has left: a line each."""

    place: Markup
    fences: tuple[Markup, ...]


def sites(others: tuple[str, ...], entry: SiteEntry | None, now: int) -> SitesShown | None:
    """The text about an application whose sites besides the primary one are ``others``; None without any."""
    if not others:
        return None
    if entry is None:
        never = Markup("Belongs to the site <strong>{}</strong>, and was never moved. Other sites: {}.")
        return SitesShown(place=never.format(PRIMARY, ", ".join(others)), fences=())
    verb = "Belongs to the site" if entry.arrived else "Is on its way to the site"
    moved = Markup("moved from {} by the run <code>{}</code>").format(_written(entry.before), _written(entry.run))
    said = Markup("{} <strong>{}</strong> since {}, {}").format(verb, _written(entry.site), _when(entry.at, now), moved)
    because = Markup(": {}").format(_written(entry.reason)) if entry.reason else Markup("")
    fences = (
        Markup(
            "The site <strong>{}</strong> was left at {} without a proof that nothing runs there. What is left there is stopped once it answers."
        ).format(_written(fence.site), _when(fence.since, now))
        for fence in entry.fences
    )
    return SitesShown(place=said + because + ".", fences=tuple(fences))


def _written(text: str) -> str:
    """A text from a log, as far as it is shown."""
    return visible(text[:_MOST_SHOWN])


def _when(at: int, now: int) -> Markup:
    """A moment of a log with its age. One that no calendar has is none."""
    return Markup("{} ({})").format(moment(at), age(at, now)) if 0 <= at <= LAST_MOMENT else Markup("an unknown time")


def _away(entry: SiteEntry | None) -> tuple[Markup, ...]:
    """The words in the list of applications for one that is not where it is at home."""
    if entry is None or (entry.arrived and entry.site == PRIMARY):
        return ()
    return (Markup("{} <strong>{}</strong>").format("at the site" if entry.arrived else "on its way to the site", _written(entry.site)),)


def facts(report: StatusReport, now: int, *, sealed: bool) -> tuple[Markup, ...]:
    """The second line."""
    if report.health is Health.UNUSED:
        return ()
    found: list[Markup] = []
    if report.newest is not None:
        found.append(Markup.escape(f"newest: {report.newest.consistency.value}"))
    if report.savepoints:
        first = report.savepoints[0].captured_at
        word = "savepoint" if report.savepoint_count == 1 else "savepoints"
        since = Markup(" since {}").format(moment(first)) if report.savepoint_count == len(report.savepoints) else Markup("")
        found.append(Markup("{} {}").format(number(report.savepoint_count), word) + since)
    if report.repository_bytes is not None:
        grown = growth(report)
        by_day = f" (+{size(grown)}/day)" if grown is not None and grown > 0 else ""
        found.append(Markup('<span title="{:,} bytes">{}</span>').format(report.repository_bytes, size(report.repository_bytes) + by_day))
    found.append(Markup('<span title="{}">{}</span>').format(SEALED if sealed else NOT_SEALED, "sealed" if sealed else "not sealed"))
    if report.encryption is not None:
        title, word = without_paths(str(report.encryption)), "keys unavailable" if report.encryption.problems else "encrypted"
        found.append(Markup('<span title="{}">{}</span>').format(title, word))
    found += [_last_drill(report, now), _last_check(report, now)]
    return tuple(found)


def places_of(second: SecondPlace | None, savepoint_id: str) -> str:
    """Where a savepoint is, in the words of the command line."""
    has = None if second is None else second.has(savepoint_id)
    return "not known" if has is None else "in two places" if has else "in one place only"


def growth(report: StatusReport) -> float | None:
    """Bytes a day by which the repository grew over the last week, or since it is measured."""
    known = [(point.at, point.repository_bytes) for point in report.history if point.repository_bytes is not None]
    recent = [(at, value) for at, value in known if at >= report.taken_at - _GROWTH_OVER_MS]
    if not recent or recent[-1][0] - recent[0][0] < _DAY_MS:
        return None
    return (recent[-1][1] - recent[0][1]) / (recent[-1][0] - recent[0][0]) * _DAY_MS


def _last_drill(report: StatusReport, now: int) -> Markup:
    drill = last_run(report, RunKind.DRILL)
    if drill is None:
        return Markup("no drill yet")
    said = Markup("last drill {}, {}").format(age(drill.began_at, now), drill.outcome or ("succeeded" if drill.succeeded else "failed"))
    measured = [f"{name} {seconds(value)}" for name, value in (("RPO", drill.rpo_seconds), ("RTO", drill.rto_seconds)) if value is not None]
    return said + Markup.escape(f" ({', '.join(measured)})" if measured else "")


def _last_check(report: StatusReport, now: int) -> Markup:
    check = last_run(report, RunKind.CHECK)
    if check is None:
        return Markup("no check yet")
    return Markup("last check {}, {}").format(age(check.began_at, now), "good" if check.succeeded else f"not good: {check.outcome}")


def last_run(report: StatusReport, kind: RunKind) -> RunSummary | None:
    """The newest run of a kind that is over."""
    return max((run for run in report.runs if run.kind is kind and run.ended_at is not None), key=lambda run: run.began_at, default=None)


def commands_of(name: str, savepoint_id: str) -> tuple[tuple[str, str], ...]:
    """Commands about a savepoint, ready to copy, with their titles. Words in capitals are to be filled in."""
    return (
        ("Pin", command("savepoints", "keep", name, savepoint_id, "--reason", "REASON")),
        ("Unpin", command("savepoints", "release", name, savepoint_id, "--reason", "REASON")),
        ("Check every byte", command("verify", name, savepoint_id, "--level", "full")),
        ("Plan a restore", command("restore", name, "--savepoint", savepoint_id, "--replace", "--plan")),
        ("Look up a key", command("state", "get", name, "STORE", "KEY", "--savepoint", savepoint_id)),
        ("Compare with another", command("state", "diff", name, "STORE", savepoint_id, "latest")),
    )
