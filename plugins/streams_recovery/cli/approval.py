"""The one way to see a plan, to approve it, and to confirm it, for every command that changes something.

``--plan`` shows the plan. ``--approve HASH`` carries out exactly that plan. Without either the plan is shown, and the application id is to be typed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from streams_recovery.cli.screen import ask, page, print_json, say, say_command, words
from streams_recovery.core import codec
from streams_recovery.core import words as next_command
from streams_recovery.core.approval import Approvable, approval, check_approved
from streams_recovery.core.errors import PlanChanged, Refused
from streams_recovery.core.escaping import Markdown

PlanOnly = Annotated[bool, typer.Option("--plan", help="Show what would be done. Change nothing.")]
Approve = Annotated[
    str | None,
    typer.Option(
        "--approve", metavar="HASH", help="Carry out the plan of this hash, and no other one, without a question. --plan prints it."
    ),
]
BY_HAND = "by hand"


def reason_of(reason: str, *, plan_only: bool) -> str:
    """The reason that was given. Only a plan needs none."""
    if not reason and not plan_only:
        raise typer.BadParameter("Missing option '--reason'. Say why: it is kept.")
    return reason or BY_HAND


def without_reason(reason: str) -> tuple[str, ...]:
    """The options that the command which carries a plan out needs besides, when the plan was made without a reason."""
    return () if reason else ("--reason", BY_HAND)


def show_plan(planned: Approvable, text: Markdown, *, as_json: bool, more: Sequence[str] = ()) -> None:
    """Print a plan and the command that carries it out. ``more`` are options that this command needs besides those that were given."""
    command = next_command.approved(words(), approval(planned), more=more)
    if as_json:
        print_json({"hash": planned.hash, "approve": approval(planned), "command": command, **codec.encode(planned)})
        return
    page(text)
    say_command("Nothing was changed. This carries the plan out:", command)


def show_unasked(planned: Approvable, text: Markdown, *, as_json: bool) -> None:
    """Print what a command would do that only adds something. It does not ask, so no hash is needed to carry it out."""
    if as_json:
        print_json(codec.encode(planned))
        return
    page(text)
    say_command("Nothing was changed. This carries it out:", next_command.without_plan(words()))


def approved(planned: Approvable, text: Markdown, approve: str | None, *, typed: str) -> bool:
    """True when a person agrees: by the hash, or by typing ``typed`` below the plan. Raises ``PlanChanged`` for the hash of another plan, and ``Refused``
    when something else was typed, or without a terminal to type on.
    """
    if approve is not None:
        try:
            check_approved(planned, approve)
        except PlanChanged:
            page(text, stderr=True)
            say_command("The plan as it is now is above. This carries it out:", next_command.approved(words(), approval(planned)))
            raise
        return True
    page(text, stderr=True)
    try:
        answer = ask(f"Type {typed} to carry this out")
    except typer.Abort:
        say("")
        say_command("Nobody typed it. This carries the plan out without a question:", next_command.approved(words(), approval(planned)))
        answer = ""
    if answer != typed:
        raise Refused("the plan was not approved", next_step="nothing was changed; everything goes on as it was")
    return True
