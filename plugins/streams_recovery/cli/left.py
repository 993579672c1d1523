"""A command that Ctrl-C or SIGTERM ends says what it leaves, and what to run next. Its teardown is over by then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

from streams_recovery.cli.screen import command_line, say, words
from streams_recovery.core.errors import RecoveryError
from streams_recovery.core.status.left import Left, left_text, next_commands
from streams_recovery.core.words import command
from streams_recovery.operations.context import RecoveryContext

if TYPE_CHECKING:
    from streams_recovery.application.port import InstanceStatus
    from streams_recovery.core.topic_holds.log import OutstandingHold

T = TypeVar("T")


@contextmanager
def report_when_ended(recovery: RecoveryContext) -> Iterator[None]:
    """Say what is left when the block is ended from outside, unless the call has only read."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        # A terminal that is gone takes no words, and nothing may hide how the command ends.
        with suppress(OSError):
            _tell(recovery)
        raise


def _tell(recovery: RecoveryContext) -> None:
    if not recovery.repository.changed:
        say(f"ended before anything of {recovery.application_id} was changed")
        return
    say(f"ended half way. This is how {recovery.application_id} is left:")
    left = left_now(recovery)
    for text in left_text(left):
        say(f"  {text}")
    does, line = next_commands(recovery.config.name, left, command(*words()))
    say(f"Next: {does}")
    say(command_line(line))


def left_now(recovery: RecoveryContext) -> Left:
    """What the application, its topics and its records show now. What cannot be asked is said."""
    # A command that only looks is not to load what a run needs.
    from streams_recovery.operations import quiesce_record, topic_holds  # noqa: PLC0415
    from streams_recovery.operations.unfinished import readable_back, unfinished_restore  # noqa: PLC0415

    unknown: list[str] = []

    def asked(what: str, ask: Callable[[], T], otherwise: T) -> T:
        try:
            return ask()
        except RecoveryError as error:
            unknown.append(f"{what}: {error.reason}")
            return otherwise

    restore = asked("restores", lambda: unfinished_restore(recovery), None)
    last = None if restore is None else next(readable_back(recovery, restore), None)
    no_status: tuple[InstanceStatus, ...] = ()
    no_hold: tuple[OutstandingHold, ...] = ()
    statuses = asked("instances", recovery.application.status, no_status)
    standing = asked("holds of instances", lambda: quiesce_record.left(recovery), None)
    holder = asked("the lock", recovery.lock.holder, None)
    held = asked("holds of topics", lambda: topic_holds.outstanding(recovery), no_hold)
    return Left(
        restore=restore,
        phase="" if last is None else last.phase.value,
        instances=tuple(f"instance {one.name}: {one.state}{f', {one.streams_state}' if one.streams_state else ''}" for one in statuses),
        standing=() if standing is None else standing.instances,
        held=tuple(sorted({one.hold.topic for one in held})),
        lock_of=None if holder is None else holder.owner,
        unknown=tuple(unknown),
    )
