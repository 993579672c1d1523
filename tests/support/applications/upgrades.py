"""Upgrades in place of the application that counts: how one is asked for, carried out, killed behind a step, and taken back."""

from __future__ import annotations

import uuid
from typing import Any

from streams_recovery.cli import runs
from streams_recovery.cli.runner import Runner
from streams_recovery.core.restore.report import RestoreReport
from streams_recovery.operations import restore
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.unfinished import unfinished_restore
from streams_recovery.workflows import restore as workflows
from tests.support.applications.counting import Counting
from tests.support.applications.pair import Here
from tests.support.examples.topologies import counting, processor, rendered, source, topology


def at_work(app: Counting, keys: str) -> None:
    """Saved once, and at work since."""
    app.worked(keys)
    with app.recovery() as recovery:
        app.savepoint(Here(recovery))
    app.start()


def more(app: Counting, *, read: str | None = None) -> str:
    """The description of the version that has a further store."""
    name = read or app.input.topic
    return rendered(topology([source("read", name), processor("count", "read", "totals"), processor("again", "read", "more")]))


def same(app: Counting, store: str = "totals") -> str:
    return rendered(counting(store, read=app.input.topic))


def asked(app: Counting, description: str | None = None, **fields: Any) -> restore.UpgradeInPlace:
    return restore.UpgradeInPlace(topology=same(app) if description is None else description, reason="2.0", **fields)


def runner_of(recovery: RecoveryContext) -> Runner:
    return Runner(recovery=recovery, submitter=Here(recovery), say=print)


def requester() -> runs.Requester:
    return runs.Requester(run_id=uuid.uuid4().hex, requested_by="test")


def upgraded(app: Counting, request: restore.UpgradeInPlace) -> RestoreReport:
    with app.recovery() as recovery:
        return runs.restore_in_place(runner_of(recovery), request, requester(), approve=lambda planned: bool(planned.text))


def is_whole(app: Counting) -> bool:
    """Whether it runs, and what it has is what its input says, with nothing half done and nobody at it."""
    with app.recovery() as recovery:
        unfinished = unfinished_restore(recovery)
    return (app.running, app.state() == app.truth(), unfinished, app.free(), app.committed()) == (
        True,
        True,
        None,
        True,
        app.end(app.input),
    )


def opened(app: Counting, recovery: RecoveryContext, request: restore.UpgradeInPlace, steps: int) -> restore.RestoreTicket:
    """An upgrade that was killed behind so many of its steps."""
    planned = restore.plan(recovery, request)
    ticket = restore.open_restore(recovery, request, run_id="killed", requested_by="test", approved_hash=planned.hash)
    assert runner_of(recovery).take(workflows.UPGRADE.steps[:steps], {workflows.OPEN_RESTORE.name: ticket}).error is None
    recovery.lock.release(ticket.lock)
    return ticket


def back(app: Counting, ticket: restore.RestoreTicket, **more: Any) -> restore.Undo:
    safeguards = restore.Safeguards(replace=True, confirm=app.id, **more)
    return restore.Undo(restore_id=ticket.restore_id, reason="it is wrong", safeguards=safeguards)
