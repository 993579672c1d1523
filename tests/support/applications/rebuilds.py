"""Rebuilds from the inputs, and applications to rebuild."""

from __future__ import annotations

from dataclasses import replace

from streams_recovery.core.kafka_types import Profile
from streams_recovery.core.offsets.strategies import OffsetStrategy, parse
from streams_recovery.operations import restore
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore import RestoreRequest, RestoreTicket
from tests.support.applications.restore_steps import opened, saved
from tests.support.applications.small import Small, asked, surviving


def strategy(text: str) -> OffsetStrategy:
    """Where inputs begin, as a run says it."""
    return parse(text, group="", read=lambda _: b"")


def rebuild(recovery: RecoveryContext, offsets: str = "earliest", **changes: object) -> RestoreRequest:
    """A request to rebuild the state from the inputs. It names the changelog, of which nothing but the name says whose it is."""
    named = (f"{recovery.application_id}-totals-changelog", *changes.pop("delete", ()))  # type: ignore[call-overload]
    return asked(recovery, restore.Rebuild, replace=True, offsets=strategy(offsets), delete=named, **changes)


def cleared(recovery: RecoveryContext, request: RestoreRequest) -> RestoreTicket:
    """A rebuild whose topics are made anew, with nothing to load."""
    ticket = opened(recovery, request)
    saved(recovery, ticket)
    restore.prepare(recovery, ticket)
    assert restore.plan_load(recovery, ticket).spec is None
    restore.check_load(recovery, ticket, None)
    return ticket


def archiving(small: Small) -> Small:
    """The application with minimal savepoints that survive the loss of the cluster, and whose outputs are archived too."""
    topics = replace(small.recovery.config.topics, include=(small.output.topic,))
    chosen = replace(small, recovery=replace(small.recovery, config=small.recovery.config.model_copy(update={"topics": topics})))
    return surviving(chosen, profile=Profile.MINIMAL)
