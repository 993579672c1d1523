"""DAG runs on a stage, to their ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from embedded.airflow_client import AirflowClient
from streams_recovery.core.repository.manifest import Manifest
from tests.support.stack.stage import Stage

# A run takes one or two minutes, on a machine that does other work too four times as long. What hangs ends before the test's own time does.
PATIENCE = 600


@dataclass(frozen=True)
class Play:
    """The stage with its Airflow."""

    on: Stage
    airflow: AirflowClient

    def succeed(self, dag_id: str, *, approve: Callable[[str], bool] = lambda _: True, seconds: float = PATIENCE, **conf: object) -> str:
        """A run that has to succeed: its id."""
        run_id = self.airflow.trigger(dag_id, conf)
        state = self.airflow.wait(dag_id, run_id, seconds=seconds, on_change=lambda *_: None, approve=approve)
        assert state == "success", f"{dag_id} {conf}: {state}\n{self.airflow.failures(dag_id, run_id)}"
        return run_id

    def run(self, dag_id: str, *, approve: bool = True, seconds: float = PATIENCE, **conf: object) -> tuple[str, dict[str, str], str]:
        """A run to its end: its state, its tasks' last states, and what its failed tasks logged."""
        tasks: dict[str, str] = {}
        run_id = self.airflow.trigger(dag_id, conf)
        state = self.airflow.wait(dag_id, run_id, seconds=seconds, on_change=tasks.__setitem__, approve=lambda _: approve)
        return state, tasks, self.airflow.failures(dag_id, run_id)


def internal_rows(savepoint: Manifest) -> int:
    """Records of its changelogs and tails."""
    return sum(topic.rows for topic in savepoint.topics if topic.role.internal)
