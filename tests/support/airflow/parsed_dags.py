"""The project's DAGs, parsed, and their tasks as a run with certain params would execute them."""

from __future__ import annotations

import copy
import itertools
from types import SimpleNamespace
from typing import Any, Final

from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.definitions.param import ParamsDict, process_params

from streams_recovery.operations.restore.strategies import STRATEGIES, AsOfMoment, FromSavepoint, Rebuild, Rescale, RestoreRequest, Undo
from streams_recovery.workflows.dags import shared_dags
from tests.support.project import PROJECT

# The DAGs that there are once, for all applications: those that a person starts to bring one back or to look into a savepoint, and the monitor. Each
# restore's with the strategy that it asks for.
RESTORE_DAGS: Final[dict[str, type[RestoreRequest]]] = {found.DAG: found for found in STRATEGIES.values() if found.DAG is not None}
CLONE, APPEND, TOPICS, UPGRADE = "streams_clone", "streams_append_quarantine", "streams_restore_topics", "streams_upgrade"
WAYS_BACK: Final = (*RESTORE_DAGS, CLONE, APPEND)
MONITOR: Final = "streams_monitor"
LOOKS: Final = tuple(dag_id for dag_id in shared_dags() if dag_id not in WAYS_BACK)
OF_ALL: Final = (*WAYS_BACK, *LOOKS, MONITOR)
PER_APPLICATION = [
    f"streams_{what}_order-processing" for what in ("backup", "archive", "check", "expire", "mirror", "drill", "run", "reprocess")
]
BACKUP, ARCHIVE, VERIFY, EXPIRE, MIRROR, DRILL, RUN, REPROCESS = PER_APPLICATION
# An application has one of its own where it has a schedule.
COMPACT = "streams_compact"
RESTORE, UNDO, REBUILD, PITR, RESCALE = (strategy.DAG for strategy in (FromSavepoint, Undo, Rebuild, AsOfMoment, Rescale))
NAME = "order-processing"
MOMENT = "2026-11-21T12:00:00Z"
DESTRUCTIVE = {"stop_application", "prepare_topics", "reset_consumer_group", "wipe_state", "start_application", "load_records"}
# Every task by which a person's wishes reach a restore.
REQUESTED = [
    *((dag_id, task_id) for dag_id in RESTORE_DAGS for task_id in ("plan", "open_restore")),
    (DRILL, "plan"),
    (DRILL, "open_restore"),
    (CLONE, "clone.plan"),
    (CLONE, "clone.open_restore"),
    (CLONE, "upgrade.plan"),
    (CLONE, "upgrade.open_restore"),
]
OF_A_PERSON = [(dag_id, task_id) for dag_id, task_id in REQUESTED if dag_id != DRILL]


def parsed_dags() -> dict[str, Any]:
    """All DAGs of the project, parsed. Needs Airflow's database."""
    bag = DagBag(str(PROJECT / "dags"))
    assert bag.import_errors == {}
    return dict(bag.dags)


class Pulled:
    """What the tasks before have returned."""

    def xcom_pull(self, task_ids: str) -> dict[str, str]:
        """As a task group's *plan* or *publish* does."""
        return {
            "hash": f"hash of {task_ids}",
            "text": f"text of {task_ids}",
            "savepoint": f"savepoint of {task_ids}",
            "savepoint_id": f"id of {task_ids}",
            "restore": f"restore of {task_ids}",
            "old": NAME,
        }


def rendered(dag: Any, task_id: str, **conf: Any) -> Any:
    """The task as it would be executed in a run that was triggered with ``conf``. Raises for params that do not fit."""
    task = dag.get_task(task_id).prepare_for_execution()
    given = {
        "application": NAME,
        **({"as_of": MOMENT} if dag.dag_id == PITR else {}),
        **({"to": "dr"} if "to" in dag.params else {}),
        **conf,
    }
    # A param keeps the value it had last.
    declared = copy.deepcopy(dag.params)
    task.params = ParamsDict()
    params = process_params(SimpleNamespace(params=declared), task, given, suppress_exception=False)  # type: ignore[arg-type]
    task.render_template_fields({"params": params, "ti": Pulled()})
    return task


def request(dag: Any, task_id: str, **conf: Any) -> Any:
    """What that task asks a restore for."""
    found = rendered(dag, task_id, **conf).request
    assert isinstance(found, RestoreRequest)
    return found


def check_order(dag: Any, order: list[str]) -> None:
    for earlier, later in itertools.pairwise(order):
        assert earlier in dag.get_task(later).get_flat_relative_ids(upstream=True), (earlier, later)
