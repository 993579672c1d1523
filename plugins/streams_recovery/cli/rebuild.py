"""The commands that bring back a part: state from input, later input, single topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand

from streams_recovery.cli import runs
from streams_recovery.cli.approval import approved, show_plan
from streams_recovery.cli.context import recovery_of, requester
from streams_recovery.cli.form import Call, asks, parameter
from streams_recovery.cli.restore import carry_out, requested
from streams_recovery.cli.runner import runner
from streams_recovery.cli.screen import line, print_json
from streams_recovery.core.words import LATEST
from streams_recovery.operations import restore
from streams_recovery.operations.restore.strategies import Rebuild, RestoreTopics
from streams_recovery.operations.restore.strategies.rebuild import INPUT_TOPICS, INTERNAL_TOPICS

# What stands in place of each option of kafka-streams-application-reset that is none here. docs/strategies/rebuild.md has the reasons.
OF_THE_RESET_TOOL: Final[Mapping[str, str]] = {
    "--application-id": "the id is in the configuration (application.id): give the configuration's name",
    "--bootstrap-server": "the connection of the configuration says which cluster it is",
    "--by-duration": "use --offsets duration:P1DT2H30M",
    "--command-config": "settings of the client belong to the connection of the configuration",
    "--config-file": "settings of the client belong to the connection of the configuration",
    "--dry-run": "use --plan",
    "--force": "nothing is needed: members of instances that are proven gone are removed. A running instance would join again and commit over the "
    "new offsets, so it has to be stopped",
    "--from-file": "use --offsets file:NAME",
    "--intermediate-topics": "name the topic under topics.inputs and topics.outputs in the configuration: then it begins at its end",
    "--shift-by": "use --offsets shift:-100",
    "--to-datetime": "use --offsets timestamp:2026-11-21T12:00:00Z, with a time zone",
    "--to-earliest": "use --offsets earliest",
    "--to-latest": "use --offsets latest",
    "--to-offset": "use --offsets offset:1000",
}


class ResetToolCommand(TyperCommand):
    """A command that is asked for with options of Kafka's reset tool, and says what to use here."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Raises ``BadParameter`` for an option of the tool, with its counterpart."""
        for option_name in (word.partition("=")[0] for word in args):
            if (counterpart := OF_THE_RESET_TOOL.get(option_name)) is not None:
                raise typer.BadParameter(f"{option_name} is an option of kafka-streams-application-reset; here, {counterpart}.", ctx)
        return super().parse_args(ctx, args)


def names(given: list[str] | None) -> tuple[str, ...]:
    """Names of topics, each in an option of its own or several with commas: no topic has a comma in its name. Raises ``BadParameter`` for an option without
    any: none at all means all topics, and a variable of a script that is empty does not.
    """
    found = tuple(name.strip() for one in given or () for name in one.split(","))
    if not all(found):
        raise typer.BadParameter("The name of a topic is empty. For all topics, leave --input-topics or --internal-topics out.")
    return found


@asks(
    *Rebuild.FORM,
    input_topics=parameter(INPUT_TOPICS, callback=names),
    internal_topics=parameter(INTERNAL_TOPICS, callback=names),
)
def rebuild(call: Call) -> None:
    """Delete the application's internal topics and let it build its state again from the input. Shows the plan and asks first."""
    carry_out(call, requested(call, Rebuild))


@asks()
def append_quarantine(
    call: Call,
    restore_id: Annotated[str, typer.Argument(metavar="[RESTORE]", help="The restore that has set it aside, or `latest`.")] = LATEST,
) -> None:
    """Append input again that a restore to a moment has taken out of the inputs in place. Nobody else may write to them meanwhile."""
    with recovery_of(call.name, call.configs) as recovery:
        if call.plan_only:
            planned = restore.plan_append(recovery, restore_id)
            show_plan(planned, planned.text, as_json=call.as_json)
            return
        done = runs.append(
            runner(recovery, call.logs),
            restore_id,
            requester(),
            approve=lambda planned: approved(planned, planned.text, call.approve, typed=planned.application_id),
        )
    if call.as_json:
        print_json(done)
    else:
        line(f"{done.rows:,} records appended to {done.partitions} partitions, {done.present:,} of them were there and equal")


@asks(*RestoreTopics.FORM)
def restore_topics(call: Call) -> None:
    """Bring single inputs, outputs or globals back from a savepoint. The application's state stays as it is. Shows the plan and asks first."""
    carry_out(call, requested(call, RestoreTopics))
