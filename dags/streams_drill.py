"""Tries a restore: the newest exact savepoint, in full, into an application of its own that is removed afterwards.

Nobody approves it, because nothing that lives is touched: its internal topics carry another application id, its outputs go to topics of their own, and a
configuration that does not map every output is refused. Records and keys are compared with the savepoint, the application is started and has to catch
up with its inputs. *remove* takes everything away again, whatever failed; *conclude* adds RPO and RTO to the history and fails the run unless
all of it succeeded. `streams-recovery drills <name>` lists the history.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Param, TriggerRule, chain

from streams_recovery.config.directory import load_applications
from streams_recovery.config.drill_application import DRILL
from streams_recovery.core.ids import PATTERN
from streams_recovery.operators.base import result_of
from streams_recovery.operators.drill import ClearDrillOperator, ConcludeDrillOperator, RemoveDrillOperator
from streams_recovery.operators.restore import OpenRestoreOperator, PlanRestoreOperator
from streams_recovery.operators.restore_chain import restore_steps

PARAMS = {
    "savepoint": Param(
        "latest", type="string", pattern=f"^(latest|{PATTERN})$", title="Savepoint", description="latest: the newest exact one"
    ),
}
ASKED = {
    "allow_ahead": "False",
    "allow_damaged": "False",
    "replace": "False",
    "delete": "",
    "safety": "required",
    "offsets": "exact",
    "confirm": "",
    "reason": "drill",
}


def streams_drill(name: str, schedule: str | None, application_id: str) -> DAG:
    """The DAG of one application."""
    with DAG(
        f"streams_drill_{name}",
        schedule=schedule,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        params=PARAMS,
        doc_md=__doc__,
        description=f"Restores of {application_id} that are tried and removed",
        tags=["streams-recovery", "restore", "drill", name],
        default_args={"retries": 0, "execution_timeout": timedelta(minutes=30)},
    ) as dag:
        scratch, ticket = f"{name}{DRILL}", result_of("open_restore")
        planned = "{{ ti.xcom_pull(task_ids='plan')['%s'] }}"
        # A savepoint that is published meanwhile must not change what was planned.
        pinned = ASKED | {"source": name, "savepoint": planned % "savepoint"}
        clear = ClearDrillOperator(task_id="clear", application_name=scratch)
        plan = PlanRestoreOperator(
            task_id="plan", application_name=scratch, asked=ASKED | {"source": name, "savepoint": "{{ params.savepoint }}"}
        )
        open_restore = OpenRestoreOperator(
            task_id="open_restore", application_name=scratch, asked=pinned, approved_hash=planned % "hash"
        ).as_setup()
        steps = restore_steps(scratch, ticket)
        remove = RemoveDrillOperator(
            task_id="remove", application_name=scratch, ticket=ticket, retries=3, retry_delay=timedelta(seconds=15)
        ).as_teardown(setups=open_restore)
        conclude = ConcludeDrillOperator(
            task_id="conclude",
            application_name=name,
            ticket=ticket,
            report=result_of("finish"),
            removed=result_of("remove"),
            began_at="{{ (ti.xcom_pull(task_ids='plan') or {}).get('began_at', '') }}",
            trigger_rule=TriggerRule.ALL_DONE,
            retries=2,
            retry_delay=timedelta(seconds=15),
        )
        chain(clear, plan, open_restore, *steps, remove, conclude)
    return dag


for _name, _config in load_applications().items():
    if _config.drill is not None and _config.drill.enabled:
        globals()[f"streams_drill_{_name}"] = streams_drill(_name, _config.drill.schedule, _config.application.id)
