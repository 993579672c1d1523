"""Restores that broke off after they had begun to destroy: until one of them is finished, the application has no state worth saving."""

from __future__ import annotations

from streams_recovery.core.errors import NotFound, Refused
from streams_recovery.core.journal import JournalEntry, Phase, may_restart
from streams_recovery.storage.numbered import NumberedLog
from streams_recovery.workbench import Workbench


def unfinished_restore(bench: Workbench) -> str | None:
    """The newest restore's id when it is neither finished nor harmless, else None. A later one replaces an earlier one."""
    keys = bench.repository.keys(bench.layout.restores)
    newest = max((key.removeprefix(bench.layout.restores).split("/")[0] for key in keys), default=None)
    last = None if newest is None else _journal(bench, newest).last()
    return None if last is None or may_restart(last.phase) or last.phase is Phase.CLOSED else newest


def refuse_if_unfinished(bench: Workbench) -> None:
    """Raise ``Refused`` while a restore is unfinished: topics that are half loaded look as still as those of an application that was stopped."""
    restore_id = unfinished_restore(bench)
    if restore_id is not None:
        raise Refused(
            f"restore {restore_id} of {bench.application_id} broke off after it had begun to replace internal topics: its state is no savepoint",
            next_step="clear the failed task of that run, or restore again; if the application was brought back in another way, "
            f"say so with `streams-recovery dismiss <name> {restore_id}`",
            restore=restore_id,
        )


def dismiss(bench: Workbench, restore_id: str) -> None:
    """Declare a restore over that nobody will finish. Raises ``NotFound``."""
    log = _journal(bench, restore_id)
    if log.last() is None:
        raise NotFound(f"there is no restore {restore_id} of {bench.application_id}", next_step="use the id from the error message")
    log.append(JournalEntry(phase=Phase.CLOSED, at=bench.clock(), created=()))


def _journal(bench: Workbench, restore_id: str) -> NumberedLog[JournalEntry]:
    return NumberedLog(bench.repository, bench.layout.journal(restore_id), JournalEntry)
