"""Brings a second application to a moment T of the first one: the state of a savepoint before T, and the archived input from there up to T.

*plan* finds the newest exact savepoint that had read nothing later than T, cuts the archived inputs at T and shows both; nothing is changed. After the
approval the tasks are those of a restore: internal topics from the savepoint, copies of the inputs from the archive, verified, offsets set. The
application then processes its copies to their ends, and *stop_at_ends* stops it there: its state is that of T, as far as
docs/strategies/pitr.md says that this can be claimed. The first application is not touched and may run.

With `in_place` it is the application itself that goes back, and what is later than T comes out of its inputs: only with all producers stopped, which is
proven as far as it can be, and every other reader named and stopped. `streams_append_quarantine` puts it back behind them.
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
        title="Application whose past it is",
        description="The application above reads copies of its inputs and writes to outputs of its own (restore.topic_map). Empty: the same, which "
        "works in another cluster, or with in_place.",
    ),
    "as_of": Param(
        "",
        type="string",
        maxLength=80,
        pattern=r"^(|\d{4}-\d{2}-\d{2}T\d{2}:\d{2}.*(Z|[+-]\d{2}:?\d{2}| [A-Za-z][A-Za-z0-9_+/-]+))$",
        title="Moment T",
        description="With its time zone: 2026-11-21T12:00:00Z, 2026-11-21T13:00:00+01:00 or 2026-11-21T13:00:00 Europe/Vienna. "
        "Empty: restore.time_window_end of the configuration.",
    ),
    "by": Param(
        "timestamp",
        type="string",
        enum=["timestamp", "position"],
        title="What belongs to the moment",
        description="timestamp: every record no later than T. position: every record before the first one that is later.",
    ),
    "savepoint": Param(
        "latest",
        type="string",
        pattern=f"^(latest|none|{PATTERN})$",
        title="Base",
        description="latest: the newest exact savepoint that had read nothing later. none: no state, all of it is built from the archived input.",
    ),
    "allow_ahead": Param(default=False, type="boolean", title="Allow a named base that may count some input twice"),
    "in_place": Param(
        default=False,
        type="boolean",
        title="Cut the inputs where they are",
        description="Takes what is later than T out of the application's own inputs, for everybody who reads them. All producers must have stopped, and "
        "a savepoint have been taken since. Needs replace.",
    ),
    "groups": Param(
        "",
        type="string",
        maxLength=10_000,
        title="Other groups to move",
        description="Only with in_place: every other consumer group that has read the inputs, separated by commas. They must be empty.",
    ),
    "replace": params.replace(),
    "delete": params.delete("Only with replace: those that the savepoint does not know"),
    "safety": params.safety(),
    "compare_keys": params.compare_keys(),
    "confirm": params.confirm(),
    "reason": params.reason(),
}

with DAG(
    "streams_restore_pitr",
    schedule=None,
    max_active_runs=params.RUNS,
    params=PARAMS,
    doc_md=__doc__,
    description="Bring an application to a moment in the past of another one",
    tags=["streams-recovery", "restore"],
    default_args={"retries": 0, "execution_timeout": timedelta(minutes=30)},
):
    asked = {name: f"{{{{ params.{name} }}}}" for name in PARAMS if name != "application"}
    restore_chain(
        "{{ params.application }}",
        {**asked, "allow_damaged": "False", "offsets": "exact"},
        subject="Bring {{ params.application }} to the moment shown?",
        stops=True,
    )
