"""Brings back what was there before a restore, from the safety savepoint that the restore took.

The tasks are those of a restore, with the same approval, and what is there now is saved first in its turn: an undo can be undone. What a
safety savepoint found damaged comes back damaged, and only when that is allowed.
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
    "restore": Param(
        "latest",
        type="string",
        pattern=f"^(latest|{PATTERN})$",
        title="Restore to undo",
        description="latest: the last one that took a safety savepoint",
    ),
    "delete": params.delete("Those that appeared after the restore"),
    "allow_ahead": Param(default=False, type="boolean", title="Allow a safety savepoint that may count some input twice"),
    "allow_damaged": Param(default=False, type="boolean", title="Allow a safety savepoint that found parts of the application gone"),
    "compare_keys": params.compare_keys(),
    "confirm": params.confirm(),
    "reason": params.reason(),
}

with DAG(
    "streams_undo",
    schedule=None,
    max_active_runs=params.RUNS,
    params=PARAMS,
    doc_md=__doc__,
    description="Bring back what was there before a restore",
    tags=["streams-recovery", "restore"],
    default_args={"retries": 0, "execution_timeout": timedelta(minutes=30)},
):
    asked = {name: f"{{{{ params.{name} }}}}" for name in ("delete", "allow_ahead", "allow_damaged", "compare_keys", "confirm", "reason")}
    restore_chain(
        "{{ params.application }}",
        {
            **asked,
            "source": "",
            "savepoint": "before:{{ params.restore }}",
            "replace": "True",
            "safety": "required",
            "offsets": "exact",
        },
        subject="Undo the restore of {{ params.application }}?",
    )
