"""An application and its clone: handing the outputs over to the clone and back, and an upgrade in one go.

A switch is plan, (approve), open, stop, hand over, start, wait, finish; whatever fails, ``abandon`` leaves the two as the repository says they are.
"""

from streams_recovery.core.rollout.cutover import Pair, Step, SwitchPlan
from streams_recovery.operations.rollout.cutover import await_live, finish, hand_over, start_live, stop
from streams_recovery.operations.rollout.discover import look
from streams_recovery.operations.rollout.open import abandon, open_switch, plan_switch
from streams_recovery.operations.rollout.upgrade import bring_back, make_live, plan_upgrade, retire
from streams_recovery.operations.rollout.values import (
    BroughtBack,
    HandedOver,
    LeftAs,
    LiveStarted,
    StoppedForSwitch,
    SwitchReport,
    SwitchRequest,
    SwitchTicket,
)

__all__ = [
    "BroughtBack",
    "HandedOver",
    "LeftAs",
    "LiveStarted",
    "Pair",
    "Step",
    "StoppedForSwitch",
    "SwitchPlan",
    "SwitchReport",
    "SwitchRequest",
    "SwitchTicket",
    "abandon",
    "await_live",
    "bring_back",
    "finish",
    "hand_over",
    "look",
    "make_live",
    "open_switch",
    "plan_switch",
    "plan_upgrade",
    "retire",
    "start_live",
    "stop",
]
