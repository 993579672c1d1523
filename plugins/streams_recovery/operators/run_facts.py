"""Whether a run still stands for the present. A savepoint's time is the time it is taken, whatever interval the run was made for."""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import Context
from croniter import croniter

from streams_recovery.core.ids import run_name


def too_late(run_type: str, run_after: datetime, schedule: str | None, now: datetime) -> str | None:
    """Why a run must not take a savepoint any more, or None when it may.

    Backfills never may: they would publish today's state as a past point. A scheduled run may until the next one is due; a run by hand
    always may, because a person asked for the present.
    """
    if run_type == "backfill":
        return "backfill runs stand for the past, and a savepoint can only be taken of the present"
    if run_type == "manual" or schedule is None:
        return None
    due = croniter(schedule, run_after).get_next(datetime)
    if now >= due:
        return f"this run was due at {run_after:%Y-%m-%d %H:%M} UTC and the next one since {due:%Y-%m-%d %H:%M} UTC; only the newest takes a savepoint"
    return None


def run_id_of(context: Context) -> str:
    """A name for the run that is fit for object keys, and that no run of another DAG has."""
    return run_name(context["dag_run"].run_id, context["dag_run"].dag_id)


def requested_by(context: Context) -> str:
    """Who started the run, as far as Airflow knows."""
    return context["dag_run"].triggering_user_name or "airflow"
