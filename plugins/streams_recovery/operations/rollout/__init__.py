"""An application and its clone: transferring the outputs to the clone and back, and an upgrade in one go.

A cut-over is plan, (approve), open, stop, transfer outputs, start, wait, finish; whatever fails, ``abandon`` leaves the two as the repository says they are.
"""

from streams_recovery.core.rollout.cutover import CutoverPlan, CutoverStep, UpgradePlan
from streams_recovery.operations.rollout.cutover import (
    await_live,
    bring_back,
    finish,
    make_live,
    plan_upgrade,
    require_retired,
    retire,
    start_live,
    stop,
    transfer_outputs,
)
from streams_recovery.operations.rollout.open import abandon, open_cutover, plan_cutover
from streams_recovery.operations.rollout.values import (
    BroughtBack,
    CutoverReport,
    CutoverRequest,
    CutoverTicket,
    LeftAs,
    LiveStarted,
    OutputsTransferred,
    StoppedForCutover,
)
