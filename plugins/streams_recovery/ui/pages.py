"""The screens of the page, from stored values and the rights that Airflow gives this visitor. No broker, no manifest and no Parquet file is asked.

Every answer of the page is made here, and carries its headers.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from fastapi import HTTPException, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.escaping import visible_lines
from streams_recovery.core.jobs.progress import progress_text
from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.outputs import comparison
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.seal import NOT_SEALED, SEALED, forged_text, seal_of_savepoint
from streams_recovery.core.repository.sites import SiteEntry, since
from streams_recovery.core.state.inspection import Inspection, without_data
from streams_recovery.core.status.first_savepoint import first_lines
from streams_recovery.core.status.instant import Instant, instant
from streams_recovery.core.status.report import RunKind, RunSummary, StatusReport
from streams_recovery.core.status.savepoint_detail import SavepointDetail
from streams_recovery.core.words import LAST_MOMENT, command, is_id, parse_moment
from streams_recovery.hooks.connections import AirflowConnections
from streams_recovery.operations.context import open_repository, storage_credentials
from streams_recovery.operations.status.first_savepoint import first_of
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.site_log import entry_in, site_log
from streams_recovery.ui import actions, overview
from streams_recovery.ui.access import Visitor
from streams_recovery.ui.charts import charts
from streams_recovery.ui.plan import plan_rows
from streams_recovery.ui.statuses import ConfigurationCache, KnownStatus, Place, Statuses, without_paths
from streams_recovery.ui.timeline import WINDOWS, default_window, shown, timeline
from streams_recovery.workflows.dags import own_dags, shared_dags

_HERE: Final = Path(__file__).parent
# Nothing from elsewhere, no script and no style in the page itself, framed by Airflow only.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'self'; base-uri 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
STATIC: Final = {"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8"}
MINUTE_MS: Final = 60_000
_ZONED: Final = re.compile(r"(?:[A-Za-z]|[+-]\d{2}:?\d{2})\s*$")
# Steps of the slider, about.
_STEPS: Final = 300
_NOT_THERE: Final = "There is no such application, or you may not see it."


@cache
def _environment() -> Environment:
    found = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalized,
    )
    found.globals |= {name: getattr(overview, name) for name in ("age", "iso", "moment", "number", "runbook", "seconds", "size", "utc")}
    found.globals |= {
        "progress_text": progress_text,
        "command": command,
        "seal_of_savepoint": seal_of_savepoint,
        "places_of": overview.places_of,
        "forged_text": forged_text,
        "SEALED": SEALED,
        "NOT_SEALED": NOT_SEALED,
        "version": _version(),
    }
    found.filters["without_paths"] = without_paths
    return found


def _finalized(value: Any) -> Any:
    """A value for a template, before HTML in it is escaped. Line breaks stay: HTML takes them for spaces, and an error's lines are shown as they are."""
    return visible_lines(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _static(name: str) -> bytes:
    return (_HERE / "static" / name).read_bytes()


def _version() -> str:
    """Headers of style and script: a browser keeps them until they change."""
    return hashlib.sha256(b"".join(map(_static, STATIC))).hexdigest()[:12]


def page(template: str, *, root: str, status: int = 200, **values: Any) -> Response:
    """A screen. ``root`` leads from its address to the page's first one."""
    text = _environment().get_template(template).render(root=root, **values)
    return HTMLResponse(text, status_code=status, headers=_HEADERS | {"Cache-Control": "no-store"})


def static_file(name: str) -> Response | None:
    """The style sheet or the script, None for any other name."""
    if name not in STATIC:
        return None
    return Response(_static(name), headers=_HEADERS | {"Cache-Control": "private, max-age=86400"}, media_type=STATIC[name])


def redirected(address: str) -> Response:
    """To an address relative to this one."""
    return Response(status_code=303, headers=_HEADERS | {"Location": address, "Cache-Control": "no-store"})


def now() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Pages:
    """All screens over one cache of configurations and one of statuses. A request waits ``wait_seconds`` for a status that is being read."""

    def __init__(self, *, wait_seconds: float = 0.15) -> None:
        self._configurations = ConfigurationCache()
        self._statuses = Statuses(self._place, site_in=self._site, wait_seconds=wait_seconds)

    def _place(self, name: str) -> Place:
        config, connections = self._configurations.get().applications[name], AirflowConnections()
        # The page signs nothing: the private key of the seals is not for this process, even where Airflow would give it.
        return open_repository(config, connections, storage_credentials(config, connections), writes=False), Layout(config.application.id)

    def _site(self, name: str, repository: Repository) -> SiteEntry | None:
        """The entry that says at which site an application is, with the moment at which it came there. One that has a single site is never asked about."""
        config = self._configurations.get().applications[name]
        if not config.sites:
            return None
        layout = Layout(config.application.id)
        entry = entry_in(repository, layout)
        return None if entry is None else replace(entry, at=since(site_log(repository, layout).readable_back(), entry))

    def applications(self, visitor: Visitor) -> Response:
        """All that the visitor may see, trouble first."""
        found, at = self._configurations.get(), now()
        names = [name for name in found.applications if visitor.sees(name)]
        known = self._statuses.of(names)
        rows = [overview.overview(name, known[name], at) for name in names]
        rows += [overview.broken(name, error) for name, error in found.broken.items() if visitor.sees(name)]
        rows.sort(key=lambda row: row.order)
        return page(
            "applications.html",
            root="./",
            now=at,
            rows=rows,
            configured=bool(found.applications or found.broken),
            attention=sum(not row.state.calm for row in rows),
            loading=any(row.state is overview.ShownState.LOADING for row in rows),
        )

    def of_dag(self, visitor: Visitor, dag_id: str) -> Response:
        """The application that a DAG belongs to; all of them for a DAG that they share."""
        found = self._configurations.get()
        for name in (*found.applications, *found.broken):
            if visitor.sees(name) and dag_id in (*own_dags(name), f"streams_configuration_{name}"):
                return redirected(f"applications/{quote(name)}")
        return self.applications(visitor)

    def application(self, visitor: Visitor, name: str, at: str, window: str) -> Response:
        """One application at a chosen instant."""
        config = self._configured(visitor, name)
        if isinstance(config, ConfigInvalid):
            row = overview.broken(name, config)
            return page("broken.html", root="../", now=now(), row=row)
        known, clock = self._statuses.of([name])[name], now()
        row = overview.overview(name, known, clock)
        if known.report is None:
            lost = _lost(visitor, config, known)
            return page("unobserved.html", root="../", now=clock, row=row, name=name, actions=lost)
        view = view_of(known.report, at, window, clock)
        possible = self._possible(visitor, config, known, view.plan)
        compares = _compares(config)
        inspections, unread = self._outputs(config) if compares else ([], None)
        return page(
            "application.html",
            root="../",
            now=clock,
            row=row,
            report=known.report,
            under_way=known.under_way,
            sealed=known.sealed,
            sites=overview.sites(tuple(config.sites), known.site, clock),
            view=view,
            windows=list(WINDOWS),
            rows=plan_rows(view.plan),
            actions=possible,
            charts=charts(known.report),
            topics=sorted(known.report.topics, key=lambda one: (list(TopicRole).index(one.role), one.name)),
            runs=self._runs(visitor, config),
            compares=compares,
            first=self._first_of(config, known.report),
            inspections=inspections,
            unread=unread,
        )

    def _first_of(self, config: ApplicationConfig, report: StatusReport) -> tuple[str, ...]:
        """Of an application with one savepoint, what is to be said of it. The next ones are taken while nobody looks."""
        if report.savepoint_count != 1 or report.newest is None:
            return ()
        return _first(config, report, self._statuses.detail(config.name, report.newest.savepoint_id))

    def _outputs(self, config: ApplicationConfig) -> tuple[list[Inspection], str | None]:
        """The newest comparisons of outputs, as far as they may be shown, and why they cannot be read."""
        found = self._statuses.outputs(config.name)
        if isinstance(found, str):
            return [], found
        return [comparison.shown(one, values=config.access.show_values) for one in found], None

    def instant(self, visitor: Visitor, name: str, at: str, window: str) -> Response:
        """The plan for a chosen instant, as a part of the screen: what the slider asks for."""
        config, known = self._observed(visitor, name)
        view = view_of(_report(known), at, window, now())
        possible = self._possible(visitor, config, known, view.plan)
        return page("_instant.html", root="../", name=name, view=view, rows=plan_rows(view.plan), actions=possible)

    def start(self, visitor: Visitor, name: str, what: str, at: str) -> Response:
        """The form of one action, filled in."""
        config, known = self._observed(visitor, name)
        clock = now()
        back = f"applications/{quote(name)}"
        action = next((one for one in _lost(visitor, config, known) if one.what == what), None)
        if action is None:
            plan = instant(_report(known), _moment(at, clock), now=clock)
            action = next((one for one in self._possible(visitor, config, known, plan) if one.what == what), None)
            back += f"?at={plan.moment}"
        if action is None:
            raise HTTPException(403, "You may not start this, or it is not possible for this instant.")
        return page("start.html", root="../../../", now=clock, name=name, action=action, back=back)

    def _possible(self, visitor: Visitor, config: ApplicationConfig, known: KnownStatus, plan: Instant) -> tuple[actions.Action, ...]:
        """What this user may start for an instant, the way back from the second place first."""
        possible = actions.actions(config, plan, self._visible(visitor), visitor.may_trigger, entry=known.site)
        return (*_lost(visitor, config, known), *possible)

    def start_on_savepoint(self, visitor: Visitor, name: str, savepoint_id: str, what: str) -> Response:
        """The form of one action on a savepoint. The run itself says when there is no such savepoint."""
        config, _ = self._observed(visitor, name)
        if not is_id(savepoint_id):
            raise HTTPException(404, "There is no such savepoint.")
        action = next((one for one in actions.savepoint_actions(config, savepoint_id, visitor.may_trigger) if one.what == what), None)
        if action is None:
            raise HTTPException(403, "You may not start this.")
        back = f"applications/{quote(name)}/savepoints/{savepoint_id}"
        return page("start.html", root="../../../../../", now=now(), name=name, action=action, back=back)

    def _inspections(self, config: ApplicationConfig, savepoint_id: str) -> tuple[list[Inspection], str | None]:
        """The comparisons and look-ups of a savepoint, as far as they may be shown, and why they cannot be read."""
        found = self._statuses.inspections(config.name)
        if isinstance(found, str):
            return [], found
        shown_values = config.access.show_values
        here = [one for one in found if savepoint_id in {one.savepoint_id, one.other}]
        return [without_data(one) if one.has_data and not shown_values else one for one in here], None

    def savepoint(self, visitor: Visitor, name: str, savepoint_id: str) -> Response:
        """One savepoint with its topics and partitions."""
        config, known = self._observed(visitor, name)
        if not is_id(savepoint_id):
            raise HTTPException(404, "There is no such savepoint.")
        summaries = known.report.savepoints if known.report else ()
        summary = next((one for one in summaries if one.savepoint_id == savepoint_id), None)
        detail = self._statuses.detail(name, savepoint_id)
        if summary is None and not isinstance(detail, SavepointDetail):
            raise HTTPException(404, _not_shown(name, savepoint_id, known.report, detail))
        inspections, unread = self._inspections(config, savepoint_id)
        return page(
            "savepoint.html",
            first=_first(config, known.report, detail),
            root="../../../",
            now=now(),
            name=name,
            application_id=config.application.id,
            savepoint_id=savepoint_id,
            summary=summary,
            detail=None if isinstance(detail, str) else detail,
            problem=detail if isinstance(detail, str) else None,
            built_on_it=[one.savepoint_id for one in summaries if one.parent_id == savepoint_id],
            known=known,
            check=overview.last_run(known.report, RunKind.CHECK) if known.report else None,
            used_by=_used_by(known.report, savepoint_id),
            commands=overview.commands_of(name, savepoint_id),
            inspections=inspections,
            unread=unread,
            actions=actions.savepoint_actions(config, savepoint_id, visitor.may_trigger),
        )

    def _configured(self, visitor: Visitor, name: str) -> ApplicationConfig | ConfigInvalid:
        found = self._configurations.get()
        config = found.applications.get(name) or found.broken.get(name)
        if config is None or not visitor.sees(name):
            # The same answer for both: a visitor who may not see an application does not learn that it exists.
            raise HTTPException(404, _NOT_THERE)
        return config

    def _observed(self, visitor: Visitor, name: str) -> tuple[ApplicationConfig, KnownStatus]:
        config = self._configured(visitor, name)
        if isinstance(config, ConfigInvalid):
            raise HTTPException(404, "The configuration of this application cannot be used.")
        return config, self._statuses.of([name], patient=True)[name]

    def _visible(self, visitor: Visitor) -> dict[str, ApplicationConfig]:
        return {name: config for name, config in self._configurations.get().applications.items() if visitor.sees(name)}

    @staticmethod
    def _runs(visitor: Visitor, config: ApplicationConfig) -> str:
        """JSON that the script needs to show the runs in progress: their DAGs, as far as the visitor may see them."""
        dags = {"own": own_dags(config.name), "shared": shared_dags()}
        seen = {kind: [dag for dag in ids if dag in visitor.dag_ids] for kind, ids in dags.items()}
        answers = [dag for dag in (*seen["own"], *seen["shared"]) if visitor.may_answer(dag)]
        return json.dumps({"application": config.name, "answers": answers, "approval": actions.approval(config, visitor.name), **seen})


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The timeline, and where its slider is."""

    chosen: int
    at_end: bool
    window: str
    begin: int
    end: int
    step: int
    image: Markup
    plan: Instant


def view_of(report: StatusReport, at: str, window: str, clock: int) -> View:
    """The timeline of a status, and what is to be said of an instant; empty for the newest one."""
    chosen = _moment(at, clock)
    window = window if window in WINDOWS else default_window(report, clock)
    span = shown(report, window, clock)
    step = max(1, (span.end - span.begin) // _STEPS // MINUTE_MS) * MINUTE_MS
    return View(
        chosen=chosen,
        at_end=not at,
        window=window,
        begin=span.begin,
        end=span.end,
        step=step,
        image=timeline(report, span, chosen),
        plan=instant(report, chosen, now=clock),
    )


def _first(config: ApplicationConfig, report: StatusReport | None, detail: SavepointDetail | str | None) -> tuple[str, ...]:
    """What is said of an application's first savepoint while it is the only one, a line each."""
    if report is None or report.savepoint_count != 1 or not isinstance(detail, SavepointDetail):
        return ()
    exact = report.newest_exact is not None and report.newest_exact.savepoint_id == detail.savepoint_id
    return tuple(first_lines(first_of(config, detail, report.estimate if exact else None)))


def _compares(config: ApplicationConfig) -> str:
    """Words for outputs that the real ones of an application can be compared with, empty for none."""
    others = (("those of the clone", config.clone is not None), ("results of an interval", config.reprocess is not None))
    return " or ".join(what for what, there in others if there)


def _not_shown(name: str, savepoint_id: str, report: StatusReport | None, problem: str | None) -> str:
    """The reason why there is nothing to show of a savepoint, and what to do."""
    forged = next((one for one in (report.forged if report else ()) if one.savepoint_id == savepoint_id), None)
    if forged is not None:
        return (
            f"This savepoint is forged, and nothing uses it: {forged.why}. Find out who can write to the repository, and remove {forged.key}. "
            f"If it is older than the seals, adopt it: {command('seal', name, '--plan')}"
        )
    return problem or "There is no such savepoint, or it has expired."


def _used_by(report: StatusReport | None, savepoint_id: str) -> list[RunSummary]:
    """The runs that brought this savepoint back, newest first."""
    found = [run for run in (report.runs if report else ()) if run.savepoint_id == savepoint_id]
    return sorted(found, key=lambda run: run.began_at, reverse=True)


def _lost(visitor: Visitor, config: ApplicationConfig, known: KnownStatus) -> tuple[actions.Action, ...]:
    """The way back from the second place, none while the first one answers."""
    return actions.lost_actions(config, visitor.may_trigger) if known.problem else ()


def _report(known: KnownStatus) -> StatusReport:
    if known.report is None:
        raise HTTPException(404, known.problem or "Nobody has observed this application yet.")
    return known.report


def _moment(text: str, clock: int) -> int:
    """Milliseconds, or a time as people write it, in UTC unless it says otherwise; empty: now. Any other text is refused in words."""
    if not text:
        return clock
    try:
        found = int(text) if text.isdecimal() else parse_moment(text if _ZONED.search(text) else f"{text}Z")
    except ConfigInvalid as error:
        raise HTTPException(400, f"{error.reason}. Next: {error.next_step}") from error
    if not 0 <= found <= LAST_MOMENT:
        raise HTTPException(400, "This is no moment that a savepoint can have.")
    return found
