"""A new version beside the old one: cut-over, the way back, and an upgrade in one go. Steps of a pair get the old application's context first."""

from __future__ import annotations

from typing import Final

from streams_recovery.operations import rollout
from streams_recovery.operations.rollout import CutoverPlan, CutoverTicket
from streams_recovery.workflows import restore, savepoint
from streams_recovery.workflows.step import LONG, Step, When, Workflow

PLAN: Final = Step(name="plan", call=rollout.plan_cutover, result=CutoverPlan, pair=True)
OPEN: Final = Step(name="open", call=rollout.open_cutover, result=CutoverTicket, pair=True)
STOP: Final = Step(
    name="stop",
    call=rollout.stop,
    result=rollout.StoppedForCutover,
    needs=(OPEN,),
    pair=True,
    limit=LONG,
    message=lambda _: "stopped",
)
TRANSFER_OUTPUTS: Final = Step(
    name="transfer_outputs",
    call=rollout.transfer_outputs,
    result=rollout.OutputsTransferred,
    needs=(OPEN,),
    pair=True,
    message=lambda _: "outputs transferred",
)
START_LIVE: Final = Step(
    name="start_live",
    call=rollout.start_live,
    result=rollout.LiveStarted,
    needs=(OPEN,),
    pair=True,
    message=lambda started: f"{started.application_id} started",
)
AWAIT_LIVE: Final[Step[None]] = Step(
    name="await_live", call=rollout.await_live, result=None, needs=(OPEN, START_LIVE), pair=True, limit=LONG
)
FINISH: Final = Step(name="finish", call=rollout.finish, result=rollout.CutoverReport, needs=(OPEN, STOP), pair=True)
ABANDON: Final = Step(
    name="abandon",
    call=rollout.abandon,
    result=rollout.LeftAs,
    needs=(OPEN,),
    pair=True,
    when=When.FAILURE,
    retries=3,
    message=lambda left: f"{', '.join(f'{one} is {role}' for one, role in left.roles.items())}: {left.next_step}",
    commands=lambda left: left.commands,
)
CUTOVER: Final = Workflow(
    before=(PLAN,),
    opening=OPEN,
    steps=(STOP, TRANSFER_OUTPUTS, START_LIVE, AWAIT_LIVE, FINISH, ABANDON),
    result=FINISH,
)

PLAN_UPGRADE: Final = Step(name="plan", call=rollout.plan_upgrade, result=rollout.UpgradePlan, pair=True)
RETIRE: Final[Step[None]] = Step(
    name="retire",
    call=rollout.retire,
    result=None,
    needs=(savepoint.BEGIN, savepoint.CAPTURE_CUT),
    pair=True,
    message=lambda _: "the old application is stopped, and stays down",
)
BRING_BACK: Final = Step(
    name="bring_back",
    call=rollout.bring_back,
    result=rollout.BroughtBack,
    needs=(savepoint.BEGIN,),
    pair=True,
    when=When.ALWAYS,
    retries=3,
    message=lambda brought: f"{brought.live} writes the outputs",
)
MAKE_LIVE: Final = Step(name="make_live", call=rollout.make_live, result=rollout.BroughtBack, needs=(restore.OPEN_RESTORE,), pair=True)
# For the old application: it is stopped for this savepoint and stays down. BRING_BACK is the end of the whole upgrade.
RETIREMENT: Final = Workflow(
    before=(PLAN_UPGRADE,),
    opening=savepoint.BEGIN,
    steps=(
        savepoint.CAPTURE_CUT,
        RETIRE,
        savepoint.COPY_RECORDS,
        savepoint.PUBLISH,
        savepoint.FINISH,
    ),
    result=savepoint.PUBLISH,
    after=(BRING_BACK,),
)
# For the clone: it writes the real outputs from its start on.
UPGRADE: Final = Workflow(
    before=(restore.PLAN,),
    opening=restore.OPEN_RESTORE,
    steps=(
        *restore.REPLACE_STATE,
        restore.RESET_CONSUMER_GROUP,
        restore.WIPE_STATE,
        MAKE_LIVE,
        restore.START_APPLICATION,
        restore.AWAIT_RECOVERED,
        restore.FINISH,
        restore.ABANDON,
    ),
    result=restore.FINISH,
)
