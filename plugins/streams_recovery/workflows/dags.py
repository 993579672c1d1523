"""The DAGs of an application: their ids, and which of them its configuration makes. ``tests/dags`` compares them with what Airflow has parsed."""

from __future__ import annotations

from typing import Final

from streams_recovery.config.model import ApplicationConfig
from streams_recovery.operations.restore.strategies import STRATEGIES

_RESTORES: Final = tuple(strategy.DAG.removeprefix("streams_") for strategy in STRATEGIES.values() if strategy.DAG is not None)
# Kinds of DAGs that there are once for all applications, and once more for each with DAGs of its own: ``access.own_dags``, or a schedule.
_SHARED: Final = (*_RESTORES, "clone", "append_quarantine", "compare", "compare_outputs", "look_up", "compact")
# Kinds that there are once for each application.
_EACH: Final = ("backup", "archive", "check", "expire", "mirror", "drill", "run", "reprocess")


def own_dags(name: str) -> tuple[str, ...]:
    """The ids of all DAGs that an application of this name may have."""
    return tuple(f"streams_{kind}_{name}" for kind in (*_EACH, *_SHARED))


def shared_dags() -> tuple[str, ...]:
    """The ids of the DAGs that all applications share: a param of each run says which one it is about."""
    return tuple(f"streams_{kind}" for kind in _SHARED)


def removed_dags(config: ApplicationConfig) -> frozenset[str]:
    """Those of ``own_dags`` that an application has not by this configuration, and the shared ones that do not offer it because their group is off."""
    switched = {"drill": config.drill, "reprocess": config.reprocess}
    off = {kind for kind, section in switched.items() if section is None or not section.enabled}
    if not (config.archive.enabled and config.archive.dag):
        off.add("archive")
    if not config.access.own_dags:
        off.update(_SHARED)
    elif config.clone is None:
        off.add("clone")
    if config.compact.schedule is not None:
        off.discard("compact")
    if config.storage.second_place is None:
        off.add("mirror")
    if not config.runs_at_times:
        off.add("run")
    without = {kind for kind in (*_EACH, *_SHARED) if not config.has_dag(f"streams_{kind}")}
    return frozenset(
        {f"streams_{kind}_{config.name}" for kind in off | without} | {f"streams_{kind}" for kind in without.intersection(_SHARED)}
    )
