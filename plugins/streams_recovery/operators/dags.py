"""What DAGs of one kind have in common beside their chains: id, rights, tags, messages about how a run ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from airflow.sdk import DAG, Asset, CronDataIntervalTimetable, CronTriggerTimetable, Param, get_parsing_context

from streams_recovery.config.loader import load_application, load_applications
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.errors import ConfigInvalid, NotFound
from streams_recovery.core.panels import GROUPS
from streams_recovery.operators.form import Scope, enforceable, rights, scopes
from streams_recovery.operators.outcome import outcome_callbacks

_TAG: Final = "streams-recovery"
# Runs at once of a DAG that exists once for all applications: a run that waits for its approval keeps no other application from being restored. Two runs of one
# application are kept apart by its lock.
_RUNS: Final = 32


def drawn(workflow: str) -> Mapping[str, ApplicationConfig]:
    """The applications whose DAGs ``<workflow>_<name>`` a file draws: all that have not switched off the group of these DAGs."""
    return {name: config for name, config in _read(workflow).items() if config.has_dag(workflow)}


def _read(workflow: str) -> Mapping[str, ApplicationConfig]:
    """The applications that a file reads: all. Where Airflow reads the file for a task it is the task's alone, else each task would
    read all configurations and draw all DAGs. Files that contradict each other are found wherever all are read: the DAG processor takes their DAGs away.
    """
    asked = get_parsing_context().dag_id
    if asked is None or not asked.startswith(f"{workflow}_"):
        return load_applications()
    name = asked.removeprefix(f"{workflow}_")
    try:
        return {name: load_application(name)}
    except (ConfigInvalid, NotFound):
        return {}  # Airflow tells that there is no such DAG


def drawn_for_a_task() -> bool:
    """Return True where Airflow reads a file for a task: it needs the task, and neither schedule nor page of its DAG."""
    return get_parsing_context().dag_id is not None


def requested(workflow: str, scope: Scope, *, params: Mapping[str, Param], doc: str | None, description: str) -> DAG:
    """A DAG that people start: of all applications, or of one that has DAGs of its own. A param chooses the application where ``scope`` has several."""
    return DAG(
        f"{workflow}{scope.suffix}",
        schedule=None,
        max_active_runs=_RUNS,
        params={**scope.chosen, **params},
        access_control=scope.access_control,
        is_paused_upon_creation=False,
        doc_md=doc,
        description=description,
        tags=[_TAG, GROUPS[workflow], *scope.tags],
        **outcome_callbacks(scope.known_name),
    )


def scheduled(
    workflow: str,
    name: str,
    config: ApplicationConfig,
    *,
    schedule: CronTriggerTimetable | CronDataIntervalTimetable | Asset | str | None,
    doc: str | None,
    description: str,
    **others: Any,
) -> DAG:
    """A DAG of one application, with one run at a time and none for past intervals, unless ``others``, arguments of Airflow's, say otherwise."""
    common: dict[str, Any] = {
        "catchup": False,
        "max_active_runs": 1,
        "access_control": rights(config.access),
        "is_paused_upon_creation": False,
        "tags": [_TAG, GROUPS[workflow], name],
        **outcome_callbacks(name),
    }
    return DAG(f"{workflow}_{name}", schedule=schedule, doc_md=doc, description=description, **common | others)


def by_hand_or_scheduled(
    workflow: str, schedule_of: Callable[[ApplicationConfig], str | None]
) -> tuple[list[Scope], dict[str, tuple[ApplicationConfig, str]]]:
    """For what most people start by hand: the scopes of its DAG for all applications, and those with a DAG of their own, as they have a schedule for it, each
    with that schedule. No scopes where Airflow reads the file for a task of such a one. All from one reading of the configurations.
    """
    applications = _read(workflow)
    found = ((name, config, schedule_of(config)) for name, config in applications.items() if config.has_dag(workflow))
    own = {name: (config, schedule) for name, config, schedule in found if schedule is not None}
    asked = get_parsing_context().dag_id
    return [] if asked in {f"{workflow}_{name}" for name in own} else scopes(workflow, enforceable(applications)), own


def by_id(dags: Iterable[DAG]) -> dict[str, DAG]:
    """For the globals of a file, where Airflow looks for DAGs."""
    return {dag.dag_id: dag for dag in dags}
