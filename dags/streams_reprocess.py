"""Processes intervals of the past again: create a backfill, and each of its data intervals runs through an application of its own.

The archived input of an interval, by event time, goes into copies that an application with another id reads: from no state, or from that of a savepoint
before it. What comes before the interval goes first, and the interval itself once that is processed. At the ends of its copies the application stops,
hands its results over, side by side or into the real outputs, and is removed with everything else, whatever failed. No application in production is touched
unless results are put into its outputs, which takes its id typed as `confirm`. An interval without input says so and starts nothing. A run by the
schedule is skipped: the schedule only cuts time into intervals.
docs/strategies/reprocess.md says what can be claimed of the results. `streams-recovery reprocessed <name>` lists what was done.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, CronDataIntervalTimetable, Param, TriggerRule, chain

from streams_recovery.config.directory import load_applications
from streams_recovery.config.reprocess import Reprocess
from streams_recovery.operators.base import result_of
from streams_recovery.operators.reprocess import (
    ClaimIntervalSensor,
    ClearIntervalOperator,
    ConcludeIntervalOperator,
    HandOverOperator,
    OpenIntervalOperator,
    PlanIntervalOperator,
    RemoveIntervalOperator,
)
from streams_recovery.operators.restore_chain import restore_steps

DURATION = r"^(|P(\d{1,5}D)?(T(\d{1,6}H)?(\d{1,8}M)?(\d{1,9}S)?)?)$"
MOMENT = r"^(|\d{4}-\d{2}-\d{2}T\d{2}:\d{2}.*(Z|[+-]\d{2}:?\d{2}| [A-Za-z][A-Za-z0-9_+/-]+))$"
CONFIGURED = "Empty: as configured."
# For what can be repeated without harm.
AGAIN: dict[str, Any] = {"retries": 2, "retry_delay": timedelta(seconds=15)}


def duration(title: str, description: str) -> Param:
    """A length of time."""
    return Param("", type="string", pattern=DURATION, title=title, description=f"{description} {CONFIGURED}")


def moment(title: str) -> Param:
    """An end of an interval that is given by hand."""
    return Param(
        "",
        type="string",
        maxLength=80,
        pattern=MOMENT,
        title=title,
        description="With its time zone. Not in a backfill, which has its own.",
    )


PARAMS = {
    "from": moment("From"),
    "to": moment("To, not included"),
    "lateness": duration("Lateness", "How much later than the input's end a record may have come before the rest of a log is left out."),
    "overlap": duration("Overlap", "Input before the interval that fills windows and joins; its results are not the interval's."),
    "beyond": duration("Beyond", "Input behind the interval that closes windows; its results are not the interval's."),
    "base": Param("", type="string", enum=["", "none", "savepoint"], title="State to begin from", description=CONFIGURED),
    "hand_over": Param(
        "side_by_side",
        type="string",
        enum=["side_by_side", "replace"],
        title="Hand over",
        description="side_by_side: results stay in topics of the interval's own. replace: they go into the outputs.",
    ),
    "tombstones": Param(
        default=False, type="boolean", title="Delete keys whose result did not come again", description="Only with replace."
    ),
    "confirm": Param("", type="string", maxLength=249, title="Application id, typed to confirm", description="Only with replace."),
    "reason": Param("", type="string", maxLength=500, title="Reason"),
}


def streams_reprocess(name: str, application_id: str, config: Reprocess) -> DAG:
    """The DAG of one application."""
    with DAG(
        f"streams_reprocess_{name}",
        schedule=CronDataIntervalTimetable(config.schedule, timezone="UTC"),
        start_date=datetime(2000, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=config.parallel,
        params=PARAMS,
        doc_md=__doc__,
        description=f"Intervals of the past of {application_id}, processed again",
        tags=["streams-recovery", "reprocess", name],
        default_args={"retries": 0, "execution_timeout": timedelta(minutes=30)},
    ) as dag:
        claim = ClaimIntervalSensor(
            task_id="claim",
            application_name=name,
            asked={param: f"{{{{ params['{param}'] }}}}" for param in PARAMS},
            mode="reschedule",
            poke_interval=15,
            timeout=timedelta(days=7).total_seconds(),
            **AGAIN,
        )
        scratch = "{{ ti.xcom_pull(task_ids='claim')['application'] }}"
        claimed, planned, ticket = result_of("claim"), result_of("plan"), result_of("open_restore")
        sourced: dict[str, Any] = {"application_name": scratch, "claimed": claimed, "source_id": application_id}
        clear = ClearIntervalOperator(task_id="clear", **sourced, **AGAIN)
        plan = PlanIntervalOperator(task_id="plan", **sourced, **AGAIN)
        open_restore = OpenIntervalOperator(task_id="open_restore", planned=planned, **sourced).as_setup()
        *steps, finish = restore_steps(scratch, ticket, stops=True, feeds=True)
        hand_over = HandOverOperator(
            task_id="hand_over",
            application_name=scratch,
            ticket=ticket,
            claimed=claimed,
            execution_timeout=timedelta(hours=12),
            **AGAIN,
        )
        remove = RemoveIntervalOperator(
            task_id="remove",
            application_name=scratch,
            ticket=ticket,
            handed=result_of("hand_over"),
            retries=3,
            retry_delay=timedelta(seconds=15),
        ).as_teardown(setups=open_restore)
        conclude = ConcludeIntervalOperator(
            task_id="conclude",
            application_name=name,
            claimed=claimed,
            planned=planned,
            ticket=ticket,
            handed=result_of("hand_over"),
            report=result_of("finish"),
            removed=result_of("remove"),
            trigger_rule=TriggerRule.ALL_DONE,
            **AGAIN,
        )
        chain(claim, clear, plan, open_restore, *steps, hand_over, finish, remove, conclude)
    return dag


for _name, _config in load_applications().items():
    if _config.reprocess is not None and _config.reprocess.enabled:
        globals()[f"streams_reprocess_{_name}"] = streams_reprocess(_name, _config.application.id, _config.reprocess)
