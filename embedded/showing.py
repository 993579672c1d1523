"""The part that `make up SHOW=all` adds to a stack that runs: savepoints before and after a moment to go back to, and a drill."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from embedded.airflow_client import AirflowClient
from embedded.stack import APPLICATION
from streams_recovery.core import codec
from streams_recovery.core.errors import ApplicationNotReady
from streams_recovery.core.sandbox.drill import DrillEntry

BACKUP, DRILL = f"streams_backup_{APPLICATION}", f"streams_drill_{APPLICATION}"
_RUN_SECONDS = 600.0
# Orders have the time at which they are made, so this is what separates the moment from both savepoints.
_BETWEEN_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The things to look at. ``moment`` is between the two savepoints."""

    before: str
    moment: str
    after: str
    drill: str


def show(airflow: AirflowClient) -> Shown:
    """Make the things to look at. Raises ``ApplicationNotReady`` when a run fails."""
    before = _savepoint(airflow)
    time.sleep(_BETWEEN_SECONDS)
    moment = datetime.now(UTC)
    time.sleep(_BETWEEN_SECONDS)
    after = _savepoint(airflow)
    drill = _run(airflow, DRILL)
    entry = codec.decode(DrillEntry, airflow.result(DRILL, drill, "conclude"), where="the result of conclude")
    return Shown(before=before, moment=moment_text(moment), after=after, drill=entry.outcome)


def moment_text(moment: datetime) -> str:
    """As the param ``as_of`` takes it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _savepoint(airflow: AirflowClient) -> str:
    found: str = airflow.result(BACKUP, _run(airflow, BACKUP), "publish")["savepoint_id"]
    return found


def _run(airflow: AirflowClient, dag_id: str) -> str:
    run_id = airflow.trigger(dag_id, {})
    sys.stdout.write(f"{dag_id} runs ...\n")
    sys.stdout.flush()
    state = airflow.wait(dag_id, run_id, seconds=_RUN_SECONDS, on_change=lambda *_: None)
    if state != "success":
        raise ApplicationNotReady(
            f"{dag_id} ended as {state}:\n{airflow.failures(dag_id, run_id)}", next_step="see the task logs in Airflow"
        )
    return run_id
