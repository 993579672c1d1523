"""From a claimed interval to a restore that is open: is there input at all, what is the state before it, and may its results go where they should?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streams_recovery.config.sandbox_application import SandboxApplication
from streams_recovery.core.errors import ConfigInvalid, Refused
from streams_recovery.core.ids import LATEST
from streams_recovery.core.restore.plan_text import markdown
from streams_recovery.core.restore.request import NO_STATE
from streams_recovery.core.sandbox.interval_log import IntervalBase, ReprocessRequest
from streams_recovery.core.sandbox.results import PublishPolicy, why_not_replaced
from streams_recovery.core.timestamps import moment
from streams_recovery.operations import restore
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore import RestoreTicket
from streams_recovery.operations.restore.strategies import OfInterval
from streams_recovery.operations.restore.strategies.interval import OwnRecords
from streams_recovery.operations.sandbox import teardown
from streams_recovery.operations.sandbox.teardown import Removed

WHAT = "reprocessing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What an interval would be processed from. ``records`` are its own; with none nothing is to be done. ``late`` more are left out, as the request
    allows. ``text`` is for people.
    """

    records: int
    savepoint: str | None
    text: str
    late: int = 0


def clear(recovery: RecoveryContext, source: str, request: ReprocessRequest, *, run_id: str) -> Removed:
    """Take away what an earlier run of this interval has left, results that it published side by side among it: once ``plan`` would not refuse to make
    them again. ``recovery`` is that of the interval, ``source`` the id of the application itself.
    """
    _checked(recovery, source, request)
    return teardown.clear(recovery, run_id=run_id, what=WHAT)


def plan(recovery: RecoveryContext, source: str, request: ReprocessRequest) -> Planned:
    """What would be done. Changes nothing. ``source`` is the id of the application itself. Raises ``Refused`` for input that may not be whole, when
    there is no base, and when outputs cannot take the results.
    """
    own = _checked(recovery, source, request)
    if own.taken == 0:
        interval = request.slice.interval
        late = f" {own.left:,} records of it come behind the end of their log and are left out." if own.left else ""
        text = f"No input from {moment(interval.start)} to {moment(interval.end)}: 0 records. Nothing is started.{late}"
        return Planned(records=0, savepoint=None, text=text, late=own.left)
    planned = restore.plan(recovery, restore_request(source, request))
    return Planned(records=planned.own_records, savepoint=planned.savepoint_id, text=markdown(planned), late=own.left)


def _checked(recovery: RecoveryContext, source: str, request: ReprocessRequest) -> OwnRecords:
    """How many records the interval has; refused when it could not be processed."""
    wanted = restore_request(source, request)
    own = restore.records_of(recovery, wanted)
    if own.taken:
        topics = {topic.name: len(topic.partitions) for topic in wanted.resolve(recovery).manifest.topics}
        if request.publish is PublishPolicy.REPLACE:
            check_outputs(recovery, topics, request)
    return own


def restore_request(source: str, request: ReprocessRequest, savepoint: str | None = None) -> OfInterval:
    """The restore that begins an interval. ``savepoint`` is the base that was planned, for an interval that has one."""
    base = NO_STATE if request.base is IntervalBase.NONE else savepoint or LATEST
    return OfInterval(source=source, savepoint=base, reason=request.reason or WHAT, slice=request.slice)


def open_interval(
    recovery: RecoveryContext, source: str, request: ReprocessRequest, planned: Planned, *, run_id: str, requested_by: str
) -> RestoreTicket:
    """Take the lock of the interval's application. Nobody has approved a plan: it may replace nothing, and the same records are taken whatever was
    archived since.
    """
    wanted = restore_request(source, request, planned.savepoint)
    return restore.open_restore(
        recovery, wanted, run_id=run_id, requested_by=requested_by, approved_hash=restore.plan(recovery, wanted).hash
    )


def outputs_of(recovery: RecoveryContext) -> dict[str, str]:
    """The interval's own topic for each output of the application."""
    if not isinstance(recovery.config, SandboxApplication):
        raise ConfigInvalid(f"{recovery.config.name} is no interval of an application", next_step="open the interval by its name")
    mapped = set(recovery.config.topics.outputs)
    return {name: own for name, own in recovery.config.own.items() if own in mapped}


def check_outputs(recovery: RecoveryContext, partitions: Mapping[str, int], request: ReprocessRequest) -> None:
    """Raise ``Refused`` naming every output that cannot take results of the interval. ``partitions`` are those of the results, by the outputs' names."""
    outputs = outputs_of(recovery)
    described = recovery.cluster.describe_topics(list(outputs))
    settings = recovery.cluster.settings(list(described))
    problems = [f"{name} does not exist" for name in outputs if name not in described]
    for name, found in described.items():
        expected = partitions.get(name, found.partitions)
        why = why_not_replaced(name, settings[name], found.partitions, expected, request.slice.interval.start, recovery.clock())
        problems += [why] if why else []
    if problems:
        raise Refused(
            f"results of the interval cannot be put into the outputs: {'; '.join(problems)}",
            next_step="nothing was written; leave the results side by side, or change these topics",
            problems=problems,
        )
