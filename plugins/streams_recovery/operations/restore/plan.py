"""The plan of a restore, as its strategy makes it of what is on the cluster now. Changes nothing."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace

from streams_recovery.core.approval import pin_of
from streams_recovery.core.errors import Damaged, NotFound
from streams_recovery.core.repository.encryption import needed_keys
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.checks import check_confirmed
from streams_recovery.operations.restore.strategies import RestoreRequest
from streams_recovery.operations.second_place import lost_if_turned_round
from streams_recovery.operations.unfinished import plan_of


def plan(recovery: RecoveryContext, request: RestoreRequest, *, mine: Mapping[str, set[str]] | None = None) -> RestorePlan:
    """Plan what this restore would do now. Changes nothing. ``mine`` has the ids of topics that an earlier attempt of the same restore created; those count as
    absent.

    Raises ``Refused`` for a missing confirmation, then as ``require_lost`` for another application's savepoints in a second place, then as the request's
    strategy, then ``KeyUnavailable`` for records whose key cannot be had.
    """
    check_confirmed(recovery, request.safeguards)
    if request.source and mine is None:
        # Its savepoints are read in this place too, and the application's own say nothing of them.
        lost_if_turned_round(recovery, request.source)
    planned = request.plan(recovery, mine or {})
    recovery.repository.require_keys(needed_keys(planned))
    deploy = request.deployment(recovery, planned)
    otherwise = _deployed_otherwise(recovery, deploy, request.deployed_before(recovery, planned)) if deploy else ()
    return replace(planned, deploy=deploy, warnings=(*planned.warnings, *otherwise))


def as_approved(request: RestoreRequest, approved: str | None) -> RestoreRequest:
    """The request with the cut of which an approval says that the plan is of its state, whatever cuts there are since."""
    entry = pin_of(approved or "")
    return request if entry is None else request.at_cut(entry)


def _deployed_otherwise(recovery: RecoveryContext, deploy: tuple[str, ...], last: str | None) -> tuple[str, ...]:
    """The configuration still deploys a version that was taken back, until a person changes it."""
    try:
        before = () if last is None else plan_of(recovery, last).deploy
    except (Damaged, NotFound):
        return ()
    if before in ((), deploy):
        return ()
    return (
        f"restore {last} deployed by `{shlex.join(before)}`, and this one deploys by `{shlex.join(deploy)}`: see that this is the version that is to run",
    )
