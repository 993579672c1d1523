"""Brings an application back in place, with its state, from a savepoint.

*plan* shows everything that would be done and changes nothing. *approve* waits for a person; until then the application goes on as it was, and
a rejected run fails with nothing touched. *open_restore* takes the application's lock and plans again: another plan than the approved
one stops the run. *save_state* to *keep_state* take a safety savepoint of what is there, which `streams_undo` brings back. Until
*prepare_topics* a failure brings the application back as it was; after it, the application stays down until its topics are verified and its
offsets set, and *abandon* says what to do next.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from streams_recovery.config.directory import load_applications
from streams_recovery.core.ids import PATTERN
from streams_recovery.operators import restore_params as params
from streams_recovery.operators.restore_chain import restore_chain

NAMES = sorted(load_applications())
PARAMS = {
    "application": params.application(NAMES),
    "source": Param(
        "",
        type="string",
        enum=["", *NAMES],
        title="Savepoint of another application",
        description="Begins a clone: its outputs must be mapped to names of their own. Empty: the application's own savepoint.",
    ),
    "savepoint": Param(
        "latest",
        type="string",
        pattern=f"^(latest|{PATTERN})$",
        title="Savepoint",
        description="latest: the newest exact one",
    ),
    "allow_ahead": Param(default=False, type="boolean", title="Allow a savepoint that may count some input twice"),
    "allow_damaged": Param(default=False, type="boolean", title="Allow a savepoint of damaged state"),
    "replace": params.replace(),
    "delete": params.delete("Only with replace: those that the savepoint does not know"),
    "safety": params.safety(),
    "offsets": params.offsets(
        "",
        "Empty: as configured. exact, earliest, latest, timestamp:2026-11-21T12:00:00Z, duration:P1DT2H, shift:-100, "
        "specific:orders:0=17,orders:1=42, or file:<name in the configuration directory>. Only exact agrees with the restored state; any "
        "other needs the confirmation below.",
    ),
    "compare_keys": params.compare_keys(),
    "confirm": params.confirm(),
    "reason": params.reason(),
}

with DAG(
    "streams_restore_full",
    schedule=None,
    max_active_runs=params.RUNS,
    params=PARAMS,
    doc_md=__doc__,
    description="Restore an application in place, with its state",
    tags=["streams-recovery", "restore"],
    default_args={"retries": 0, "execution_timeout": timedelta(minutes=30)},
):
    asked = {name: f"{{{{ params.{name} }}}}" for name in PARAMS if name != "application"}
    restore_chain("{{ params.application }}", asked, subject="Restore {{ params.application }} in place?")
