"""The request for a savepoint, and how a person is asked for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Final

from streams_recovery.core.forms import CONFIRM, FieldKind, Form, FormField, reason_field
from streams_recovery.core.kafka_types import QuiesceMode
from streams_recovery.core.savepoint.damage import ChangedState

# First here: mostly there is nothing else to say.
REASON: Final = replace(reason_field("the savepoint"), rank=0)
MODE: Final = FormField(
    name="mode",
    title="Mode",
    kind=FieldKind.CHOICE,
    help="How to hold the application.",
    option_help="How a savepoint holds the application; default as configured.",
    choices={
        "": "As configured",
        QuiesceMode.PAUSE.value: "Pause the application",
        QuiesceMode.STOP.value: "Stop the application",
        QuiesceMode.LIVE.value: "Live: hold nothing",
    },
)
CHANGED_STATE: Final = FormField(
    name="changed_state",
    title="State that changed outside a restore",
    kind=FieldKind.CHOICE,
    help="Anything but refuse needs the confirmation below.",
    option_help="What to do when state was lost or replaced outside a restore. All but refuse ask first.",
    default=ChangedState.REFUSE.value,
    choices={
        ChangedState.REFUSE.value: "Refuse: take no savepoint of it",
        ChangedState.DAMAGED.value: "Damaged: save what is left; nothing restores it by default, and retention does not count it",
        ChangedState.INTENDED.value: "Intended: it is the state now",
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointRequest:
    """A request for a savepoint. ``mode`` overrides the configured way of holding the application; None keeps it. ``changed_state`` other than
    ``refuse`` needs the application id typed as ``confirm``.
    """

    FORM = Form()
    run_id: str
    requested_by: str
    reason: Annotated[str, REASON]
    mode: Annotated[QuiesceMode | None, MODE]
    changed_state: Annotated[ChangedState, CHANGED_STATE] = ChangedState.REFUSE
    confirm: Annotated[str, CONFIRM] = ""
