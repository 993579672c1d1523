"""No state: the application builds it again from its input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from streams_recovery.core.forms import CONFIRM, FieldKind, FormField
from streams_recovery.core.offsets.strategies import OffsetStrategy
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.request import FIRST_OFFSETS, NOTHING_REPLACED, REPLACE, SAFETY, OutputPolicy, Safeguards, delete_field
from streams_recovery.core.words import PATTERN
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.rebuild_plan import RebuildSource, lost_input, plan_rebuild
from streams_recovery.operations.restore.strategies.strategy import RestoreStrategy

INPUT_TOPICS: Final = FormField(
    name="input_topics",
    title="Inputs that begin anew",
    kind=FieldKind.TOPICS,
    help="Empty: all. Other inputs keep their offsets, so the state will lack what lies before these. Needs the confirmation below then. One a line.",
    option_help="Only these inputs begin anew; others keep their offsets, and the state will lack what lies before these. Repeatable, or with commas.",
)
INTERNAL_TOPICS: Final = FormField(
    name="internal_topics",
    title="Internal topics that are expected to go",
    kind=FieldKind.TOPICS,
    help="Empty: whatever there is. Else the run stops unless these are all of the application's internal topics: one that stayed would count input "
    "twice. One a line.",
    option_help="All internal topics that are expected to go. One that is left out stops the run: it would count input twice. Repeatable, or with "
    "commas.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuild(RestoreStrategy):
    """No state: the application builds it again from its input. With ``accept_gap`` also where older input is gone. Inputs, globals and outputs that the
    cluster has lost are made from the savepoint ``inputs_from`` first, an id or ``latest``; empty is for none. ``input_topics`` are the inputs that begin
    anew, empty for all; the others keep their offsets. ``internal_topics`` are what is expected to go: another set is refused; empty expects nothing.
    ``archive_entry``: see ``RestoreSource``.
    """

    KIND: ClassVar = "rebuild"
    DAG: ClassVar = "streams_restore_rebuild"
    COMMAND: ClassVar = "rebuild"
    offsets: Annotated[OffsetStrategy, FIRST_OFFSETS]
    input_topics: Annotated[tuple[str, ...], INPUT_TOPICS] = ()
    accept_gap: Annotated[
        bool,
        FormField(
            title="Accept missing older input",
            kind=FieldKind.SWITCH,
            help="Begin where the input begins, although older input is gone: state that needs it will be wrong.",
            option_help="Accept missing older input: begin where the input begins now.",
        ),
    ] = False
    inputs_from: Annotated[
        str,
        FormField(
            title="Savepoint of lost inputs",
            help="For a cluster that has lost inputs: they, globals and outputs are made from this savepoint first, where they are gone. latest: the "
            "newest. Empty: all of them are there.",
            option_help="A savepoint's id, or `latest`: inputs, globals and outputs that are gone are made from it first.",
            pattern=f"latest|{PATTERN}",
        ),
    ] = ""
    outputs: Annotated[
        OutputPolicy,
        FormField(
            title="Outputs",
            kind=FieldKind.CHOICE,
            option_help="recreate: empty the outputs first.",
            default=OutputPolicy.KEEP.value,
            choices={
                OutputPolicy.KEEP.value: "Keep: results come once more, behind those that are there",
                OutputPolicy.RECREATE.value: "Recreate: the topics are emptied first",
            },
        ),
    ] = OutputPolicy.KEEP
    safeguards: Annotated[Safeguards, REPLACE, delete_field("Those of which only the names say whose they are"), SAFETY, CONFIRM] = (
        NOTHING_REPLACED
    )
    internal_topics: Annotated[tuple[str, ...], INTERNAL_TOPICS] = ()
    archive_entry: int | None = None

    def plan(self, recovery: RecoveryContext, mine: Mapping[str, set[str]]) -> RestorePlan:
        """Raises what ``lost_input`` and ``plan_rebuild`` do."""
        archived = lost_input(recovery, self.inputs_from, self.outputs, upto=self.archive_entry) if self.inputs_from else None
        source = RebuildSource(
            archived=archived,
            offsets=self.offsets,
            outputs=self.outputs,
            accept_gap=self.accept_gap,
            input_topics=self.input_topics,
            internal_topics=self.internal_topics,
        )
        return plan_rebuild(recovery, self.safeguards, source)
