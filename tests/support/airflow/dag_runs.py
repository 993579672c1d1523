"""Whole runs of a DAG in the process of the tests: real tasks, real XComs, real templates, and no scheduler."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from airflow.dag_processing.dagbag import DagBag

from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.engine.submitter import SparkJob, Submitter
from streams_recovery.operators.spark import SparkJobOperator
from streams_recovery.sensors.application import WatchSensor
from tests.support.applications.counting import Counting
from tests.support.project import PROJECT

APPROVALS = r"(\w+\.)?approve"


@dataclass(frozen=True)
class Done:
    """A run that ended: its state, the state of every task, the Spark jobs that were run for it, and what tasks returned."""

    state: str
    tasks: dict[str, str | None]
    jobs: list[str]
    results: dict[str, Any]

    def by(self, state: str) -> set[str]:
        """The tasks in this state."""
        return {name for name, found in self.tasks.items() if found == state}


@dataclass
class Noting:
    """See Submitter. Notes which jobs were run."""

    submitter: Submitter
    jobs: list[str] = field(default_factory=list)

    def submit(self, job: SparkJob) -> ArtifactRef:
        """Note it and pass it on."""
        self.jobs.append(job.name)
        return self.submitter.submit(job)


def run(
    app: Counting,
    file: str,
    submitter: Submitter,
    *,
    per_application: bool = False,
    changes: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    **params: Any,
) -> Done:
    """The DAG ``streams_<file>``, or that of the application, with these params. Approvals are given, retries are not waited for. ``changes`` are other
    values of attributes of tasks, by their names.
    """
    dag_id = f"streams_{file}_{app.name}" if per_application else f"streams_{file}"
    app.dags.mkdir(exist_ok=True)
    bag = DagBag(str(shutil.copy(PROJECT / "dags" / f"streams_{file}.py", app.dags)))
    assert bag.import_errors == {}
    dag = bag.dags[dag_id]
    noting = Noting(submitter)
    for task in dag.tasks:
        task.retries = 0
        if isinstance(task, SparkJobOperator):
            task.submitter = noting
        if isinstance(task, WatchSensor):
            task.interval, task.settle = 0.2, 0
        for name, value in changes.get(task.task_id, {}).items():
            setattr(task, name, value)
    ended = dag.test(logical_date=None, run_conf=given(params), mark_success_pattern=APPROVALS)
    tasks = ended.get_task_instances()
    return Done(
        str(ended.state), {ti.task_id: ti.state for ti in tasks}, noting.jobs, {ti.task_id: ti.xcom_pull(ti.task_id) for ti in tasks}
    )


def given(params: Mapping[str, Any]) -> dict[str, Any]:
    """Params as a person types them, a reason included."""
    return {"reason": "test", **params}
