"""Lets an application build its state again from its input, without the state of a savepoint.

What Kafka's application reset tool does, and what it leaves to hand work: after an approval that shows every topic and offset, and with a safety savepoint of
what is there, the internal topics of this application and of no other are deleted, offsets are set to where the param says, the local state
of every instance is wiped, and the application processes its input from there on. Inputs, globals and outputs that the cluster has lost are made from a
savepoint first, when `inputs_from` names one. Until *prepare_topics* a failure brings the application
back as it was; after it, the application stays down until its offsets are set.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from streams_recovery.config.directory import load_applications
from streams_recovery.core.ids import PATTERN
from streams_recovery.core.restore.plan import FROM_INPUT
from streams_recovery.operators import restore_params as params
from streams_recovery.operators.restore_chain import restore_chain

NAMES = sorted(load_applications())
PARAMS = {
    "application": params.application(NAMES),
    "offsets": params.offsets(
        "earliest",
        "earliest, latest, timestamp:2026-11-21T12:00:00Z, duration:P1DT2H, shift:-100 from where the application is, "
        "specific:orders:0=17,orders:1=42 with every partition, or file:<name in the configuration directory>.",
    ),
    "accept_gap": Param(
        default=False,
        type="boolean",
        title="Begin where the input begins",
        description="Although older input is gone: state that needs it will be wrong.",
    ),
    "inputs_from": Param(
        "",
        type="string",
        pattern=f"^(|latest|{PATTERN})$",
        title="Savepoint of lost inputs",
        description="For a cluster that has lost inputs: they, globals and outputs are made from this savepoint first, where they are gone. latest: the "
        "newest. Empty: all of them are there.",
    ),
    "outputs": Param(
        "keep",
        type="string",
        enum=["keep", "recreate"],
        title="Outputs",
        description="keep: results come once more, behind those that are there. recreate: the topics are emptied first.",
    ),
    "replace": params.replace(),
    "delete": params.delete("Those that no savepoint and no configured store knows"),
    "safety": params.safety(),
    "confirm": params.confirm(),
    "reason": params.reason(),
}

with DAG(
    "streams_restore_rebuild",
    schedule=None,
    max_active_runs=params.RUNS,
    params=PARAMS,
    doc_md=__doc__,
    description="Rebuild the state of an application from its input",
    tags=["streams-recovery", "restore"],
    default_args={"retries": 0, "execution_timeout": timedelta(minutes=30)},
):
    asked = {name: f"{{{{ params.{name} }}}}" for name in PARAMS if name != "application"}
    restore_chain(
        "{{ params.application }}",
        {**asked, "source": "", "savepoint": FROM_INPUT, "allow_ahead": "False", "allow_damaged": "False"},
        subject="Rebuild the state of {{ params.application }} from its input?",
        from_input=True,
    )
