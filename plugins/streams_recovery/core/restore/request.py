"""What several restore requests ask for: what they may replace and give up. The defaults replace nothing and accept no loss. The strategies themselves, each
with what only it asks for, are in ``operations/restore/strategies``.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Final

from streams_recovery.core.forms import FieldKind, FormField, reason_field, savepoint_field
from streams_recovery.core.jobs.spec import CutBy
from streams_recovery.core.offsets import strategies

NO_STATE = "none"


class OutputPolicy(enum.StrEnum):
    """The fate of outputs in a rebuild. ``keep``: results are appended to the existing records. ``recreate``: the topics are deleted and created
    again, empty.
    """

    KEEP = "keep"
    RECREATE = "recreate"


class SafetyPolicy(enum.StrEnum):
    """The rule for saving the present state before it is replaced. ``required``: without a safety savepoint nothing is destroyed. ``best_effort``: if it
    cannot be taken, that is noted and the restore continues. ``skip``: none is taken, so there is no undo.
    """

    REQUIRED = "required"
    BEST_EFFORT = "best_effort"
    SKIP = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Safeguards:
    """Protection against unintended loss. ``replace`` allows deleting internal topics that contain records. ``delete`` names such topics that are not
    proven to belong to the application. ``replace``, ``safety`` other than ``required``, and offsets that disagree with the state need the
    application id typed as ``confirm``.
    """

    replace: bool = False
    delete: tuple[str, ...] = ()
    safety: SafetyPolicy = SafetyPolicy.REQUIRED
    confirm: str = ""


NOTHING_REPLACED: Final = Safeguards()
# Behind what a strategy asks for itself.
_SAVING, _COMPARING = 1, 2


def delete_field(which: str) -> FormField:
    """Topics that may be deleted although nothing but their names says whose they are. ``which`` begins the sentence about them."""
    return FormField(
        name="delete",
        title="Internal topics to delete",
        kind=FieldKind.TOPICS,
        help=f"{which} and are really this application's. One a line.",
        option_help="An internal topic that may go although the savepoint does not know it, or only its name says whose it is. Repeatable.",
    )


SOURCE: Final = FormField(
    name="source",
    title="Source application",
    kind=FieldKind.APPLICATION,
    option_help="Name of another application whose savepoint this one begins from: a clone.",
)
ALLOW_AHEAD: Final = FormField(
    name="allow_ahead",
    title="Allow a savepoint that may count some input twice",
    kind=FieldKind.SWITCH,
    option_help="Accept a savepoint that may count some input twice.",
)
ALLOW_DAMAGED: Final = FormField(
    name="allow_damaged",
    title="Allow a savepoint of damaged state",
    kind=FieldKind.SWITCH,
    option_help="Accept a savepoint of damaged state: parts of the application were gone.",
)
REPLACE: Final = FormField(
    name="replace",
    title="Replace running state",
    kind=FieldKind.SWITCH,
    help="Without it, internal topics that hold records stop the run. Needs the confirmation below.",
    option_help="Replace internal topics that hold records. They are saved first.",
)
DELETE: Final = delete_field("Only with replace: those that the savepoint does not know or of which only the names say whose they are")
SAFETY: Final = FormField(
    name="safety",
    title="Safety savepoint",
    kind=FieldKind.CHOICE,
    help="Of what is there now, taken first. Anything but required needs the confirmation below.",
    option_help="Of what is there now: without it, there is no undo.",
    default=SafetyPolicy.REQUIRED.value,
    choices={
        SafetyPolicy.REQUIRED.value: "Required: nothing is replaced without it",
        SafetyPolicy.BEST_EFFORT.value: "Best effort: go on when it fails",
        SafetyPolicy.SKIP.value: "Skip: no way back",
    },
    rank=_SAVING,
)
OFFSETS: Final = FormField(
    name="offsets",
    title="Input offsets",
    help=f"Empty: as configured. {strategies.HELP}. Files are in the configuration directory. Only exact agrees with the restored state; any other needs "
    "the confirmation below.",
    option_help=f"Where the inputs go on; default: as configured. {strategies.HELP}. A file may be anywhere.",
    pattern=f"|{strategies.PATTERN}",
    longest=100_000,
    rank=_SAVING,
)
FIRST_OFFSETS: Final = replace(
    OFFSETS,
    help=f"{strategies.REBUILD_HELP}. Files are in the configuration directory.",
    option_help=f"Where the inputs begin. {strategies.REBUILD_HELP}. A file may be anywhere.",
    default="earliest",
    rank=0,
)
COMPARE_KEYS: Final = FormField(
    name="compare_keys",
    title="Compare keys",
    kind=FieldKind.SWITCH,
    help="Compares every changelog key by key too, although its records were found equal. Takes a second Spark job.",
    option_help="Compare every changelog key by key too, although its records were found equal. Takes a second Spark job.",
    rank=_COMPARING,
)
REASON: Final = replace(reason_field("the evidence of the restore"), option_help="Kept with the report. Only --plan needs none.")
AS_OF: Final = FormField(
    name="as_of",
    title="Moment T",
    kind=FieldKind.MOMENT,
    help="Empty: restore.time_window_end of the configuration.",
    option_help="Bring it to this moment, with the archived input up to there, and stop: 2026-11-21T12:00:00Z, or `configured`. "
    "--savepoint none builds all state from that input.",
)
BY: Final = FormField(
    name="by",
    title="What belongs to the moment",
    kind=FieldKind.CHOICE,
    option_help="With --as-of: every record no later, or every record before the first later one.",
    default=CutBy.TIMESTAMP.value,
    choices={
        CutBy.TIMESTAMP.value: "Every record no later than T",
        CutBy.POSITION.value: "Every record before the first one that is later",
    },
)
IN_PLACE: Final = FormField(
    name="in_place",
    title="Cut the inputs where they are",
    kind=FieldKind.SWITCH,
    help="Takes what is later than T out of the application's own inputs, for everybody who reads them. All producers must have stopped, and "
    "a savepoint have been taken since. Needs replace.",
    option_help="With --as-of: take what is later out of the application's own inputs. All producers must have stopped.",
)
GROUPS: Final = FormField(
    name="groups",
    title="Other groups to move",
    kind=FieldKind.GROUPS,
    help="Only with in_place: every other consumer group that has read the inputs, one a line. They must be empty.",
    option_help="With --in-place: another group that has read the inputs and is moved too. Repeatable.",
    option="other-group",
)
BASE: Final = savepoint_field(
    NO_STATE,
    title="Base",
    help="latest: the newest exact savepoint that had read nothing later. none: no state, all of it is built from the archived input.",
)
