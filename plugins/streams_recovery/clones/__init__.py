"""An application and its clone: handing the outputs over to the clone and back, and an upgrade in one go.

A switch is plan, (approve), open, stop, hand over, start, wait, finish; whatever fails, ``abandon`` leaves the two as the repository says they are.
"""

from streams_recovery.clones.looking import look
from streams_recovery.clones.opening import abandon, open_switch, plan_switch
from streams_recovery.clones.switching import await_live, finish, hand_over, start_live, stop
from streams_recovery.clones.upgrading import bring_back, make_live, plan_upgrade, retire
from streams_recovery.clones.values import (
    BroughtBack,
    HandedOver,
    LeftAs,
    LiveStarted,
    StoppedForSwitch,
    SwitchReport,
    SwitchRequest,
    SwitchTicket,
)
from streams_recovery.core.switch import Pair, Step, SwitchPlan

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
