"""What DAGs of one kind have in common beside their chains: id, rights, tags, messages about how a run ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from airflow.sdk import DAG, CronDataIntervalTimetable, CronTriggerTimetable, Param

from streams_recovery.config.model import ApplicationConfig
from streams_recovery.operators.form import Scope, rights
from streams_recovery.operators.outcome import outcome_callbacks

_TAG: Final = "streams-recovery"
# Runs at once of a DAG that exists once for all applications: a run that waits for its approval keeps no other application from being restored. Two runs of one
# application are kept apart by its lock.
_RUNS: Final = 32


def requested(
    workflow: str, scope: Scope, *, params: Mapping[str, Param], doc: str | None, description: str, tags: Iterable[str] = ("restore",)
) -> DAG:
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
        tags=[_TAG, *tags, *scope.tags],
        **outcome_callbacks(scope.known_name),
    )


def scheduled(
    workflow: str,
    name: str,
    config: ApplicationConfig,
    *,
    schedule: CronTriggerTimetable | CronDataIntervalTimetable | str | None,
    doc: str | None,
    description: str,
    tags: Iterable[str],
    **others: Any,
) -> DAG:
    """A DAG of one application, with one run at a time and none for past intervals, unless ``others``, arguments of Airflow's, say otherwise."""
    common: dict[str, Any] = {
        "catchup": False,
        "max_active_runs": 1,
        "access_control": rights(config.access),
        "is_paused_upon_creation": False,
        "tags": [_TAG, *tags, name],
        **outcome_callbacks(name),
    }
    return DAG(f"{workflow}_{name}", schedule=schedule, doc_md=doc, description=description, **common | others)


def by_id(dags: Iterable[DAG]) -> dict[str, DAG]:
    """For the globals of a file, where Airflow looks for DAGs."""
    return {dag.dag_id: dag for dag in dags}
