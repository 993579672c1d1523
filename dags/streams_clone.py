"""Gives an application a clone that runs beside it, and lets the clone take over; or goes back.

The clone is another configured application with a `clone` section. `step` chooses:

* **clone**: the clone gets state and offsets of an exact savepoint while the old application runs, and is started with outputs of its own.
* **cut_over**: once it is caught up, the clone is stopped, the old application is stopped when it has processed at least as much, and the clone is started
  with the real outputs. Records whose output comes twice by it are counted, in the plan and in the result; none is lost.
* **roll_back**: the clone is stopped and the old application started where it stopped. Nothing of either was deleted. Run after a step that failed half way, it
  goes back too.
* **offline_upgrade**: the old application is stopped for an exact savepoint, and the clone is started from it with the real outputs: nothing comes twice.

Each shows its plan first and waits for a person. docs/strategies/clone.md says more.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from streams_recovery.config.directory import load_applications
from streams_recovery.core.ids import PATTERN
from streams_recovery.operators import restore_params as params
from streams_recovery.operators.clone_chain import FIRST, clone_chain

APPLICATIONS = load_applications()
# Without any clone the DAG is there all the same, and says what is missing.
NAMES = sorted(name for name, config in APPLICATIONS.items() if config.clone is not None) or sorted(APPLICATIONS)
PARAMS = {
    "application": Param(
        NAMES[0] if len(NAMES) == 1 else None, type="string", enum=NAMES, title="Clone", description="The new application."
    ),
    "step": Param("clone", type="string", enum=list(FIRST), title="Step"),
    "savepoint": Param(
        "latest",
        type="string",
        pattern=f"^(latest|{PATTERN})$",
        title="Savepoint of the old application",
        description="For clone. latest: the newest exact one. offline_upgrade takes its own.",
    ),
    "replace": Param(
        default=False,
        type="boolean",
        title="Replace the clone's state",
        description="For clone and offline_upgrade, when the clone has been there before. It is saved first. Needs the confirmation below.",
    ),
    "delete": params.delete("Only with replace: those of the clone that the savepoint does not know"),
    "safety": params.safety(),
    "max_lag": Param(
        None,
        type=["null", "integer"],
        minimum=0,
        title="Records the clone may be behind",
        description="For cut_over. Empty: as configured (clone.max_lag).",
    ),
    "restore_first": Param(
        default=False,
        type="boolean",
        title="Leave the old application down",
        description="For roll_back, when its offsets or its input are gone, so that it has to be restored from a savepoint.",
    ),
    "compare_keys": params.compare_keys(),
    "confirm": Param("", type="string", maxLength=249, title="Confirmation", description="With replace: type the clone's application id."),
    "reason": params.reason(),
}

with DAG(
    "streams_clone",
    schedule=None,
    max_active_runs=params.RUNS,
    params=PARAMS,
    doc_md=__doc__,
    description="Run a new version beside the old one, cut over to it, roll back",
    tags=["streams-recovery", "restore", "clone"],
    default_args={"retries": 0, "execution_timeout": timedelta(minutes=30)},
):
    chosen = {name: f"{{{{ params.{name} }}}}" for name in PARAMS}
    clone_chain(
        chosen["application"],
        chosen["step"],
        restore={
            **{name: chosen[name] for name in ("savepoint", "replace", "delete", "safety", "compare_keys", "confirm", "reason")},
            "source": "",
            "allow_ahead": "False",
            "allow_damaged": "False",
            "offsets": "exact",
        },
        switch={name: chosen[name] for name in ("step", "max_lag", "restore_first", "reason")},
    )
