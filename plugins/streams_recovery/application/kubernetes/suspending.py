"""Argo CD and Flux: what owns a workload is suspended while it is down, and is afterwards as it was before.

What is going to be suspended stands in the record of the stop, with what was there, before it is changed. The start reads it from there.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from streams_recovery.application.kubernetes.cluster import Cluster
from streams_recovery.core.errors import ApplicationNotReady, ConfigInvalid, ManagedByAnother, NotFound
from streams_recovery.core.escaping import logger
from streams_recovery.core.kubernetes.controllers import Right
from streams_recovery.core.kubernetes.owners import (
    Owner,
    Suspension,
    how_to_leave_alone,
    is_busy,
    is_suspended,
    leaves_alone,
    makers_of,
    owners_of,
    put_back_by,
)
from streams_recovery.core.kubernetes.workload import Workload
from streams_recovery.core.waiting import poll

LOGGER = logger("streams_recovery.application.kubernetes.suspending")
_LOOK_SECONDS: Final = 0.25
# A controller that has read the object right before it was suspended has written by then that it is at work.
_BEGUN_SECONDS: Final = 1.0


def required(cluster: Cluster, workload: Workload) -> tuple[Suspension, ...]:
    """The owners that have to be suspended for a stop, and can be. Changes nothing. Raises ``ManagedByAnother`` naming every other one that is not suspended,
    or of which that cannot be seen.
    """
    found, refused = list[Suspension](), dict[Owner, tuple[str, str]]()
    for owner in owners_of(workload, cluster.section.argocd_namespace):
        seen, problem = _seen(cluster, owner)
        if seen is not None and is_suspended(owner, seen):
            continue
        if seen is not None and not problem:
            problem = _not_to_suspend(cluster, owner, seen)
        if seen is None or problem:
            refused[owner] = problem, owner.resume(seen)
        else:
            found.append(Suspension.of(owner, seen))
    if refused:
        raise ManagedByAnother(
            f"{workload.name} belongs to " + ", and to ".join(f"{owner}, {problem}" for owner, (problem, _) in refused.items()),
            next_step="give the right to suspend it (include/kubernetes/rbac.yaml); or suspend it by hand, run this again, and end the suspension when the "
            "application runs",
            owners=[str(owner) for owner in refused],
        ).then(*(owner.suspend for owner in refused), *(resume for _, resume in refused.values()))
    return tuple(found)


def together(before: Iterable[Suspension], now: Iterable[Suspension]) -> tuple[Suspension, ...]:
    """What an earlier stop has suspended and what this one suspends. An owner that was at work again has the newer one."""
    return tuple(({one.owner: one for one in before} | {one.owner: one for one in now}).values())


def suspended(cluster: Cluster, owners: Sequence[Suspension], *, seconds: float) -> None:
    """Suspend these, and wait until what they had begun is over. Raises ``ApplicationNotReady``."""
    several, busy = [one.owner for one in owners], list[Owner]()
    for one in owners:
        cluster.patch_owner(one.owner, one.patch)
    began = time.monotonic()

    def over() -> bool | None:
        busy[:] = [owner for owner in several if is_busy(owner, cluster.owner(owner))]
        return None if busy or time.monotonic() < began + _BEGUN_SECONDS else True

    if several and poll(over, seconds=seconds, interval=_LOOK_SECONDS, what="what Argo CD and Flux have begun") is None:
        named = ", ".join(map(str, busy))
        raise ApplicationNotReady(
            f"{named} is suspended, and has been at work for {seconds:.0f} s on what it had begun before",
            next_step="wait until it is done, then run this again",
            owners=[str(owner) for owner in busy],
        )


def given_back(cluster: Cluster, workload: Workload, suspensions: Iterable[Suspension]) -> None:
    """Give each its setting back as it was. One that somebody has changed since is left as it is, and one that is gone is passed over. So is one that does not
    own the workload: whoever may write the record could name any.
    """
    own = owners_of(workload, cluster.section.argocd_namespace)
    for one in suspensions:
        if one.owner not in own:
            LOGGER.warning("%s is left as it is: it was suspended for %s, and does not own it any more", one.owner, workload.name)
            continue
        try:
            if one.holds(cluster.owner(one.owner)):
                cluster.patch_owner(one.owner, one.undo)
        except NotFound:
            continue


def _seen(cluster: Cluster, owner: Owner) -> tuple[Mapping[str, Any] | None, str]:
    """The owner's object, or the reason why it cannot be seen."""
    if not owner.name or not owner.namespace:
        return None, "whose own object is not named on the workload, so whether it is suspended cannot be seen"
    try:
        return cluster.owner(owner), ""
    except (ConfigInvalid, NotFound) as error:
        return None, f"of which cannot be seen whether it is suspended ({error.reason})"


def _not_to_suspend(cluster: Cluster, owner: Owner, found: Mapping[str, Any]) -> str:
    """The reason why an owner at work is not suspended from here, empty without one."""
    again = "which is not suspended and would scale it up again"
    if manager := put_back_by(owner, found):
        return f"{again}; {manager} applies {'.'.join(owner.setting)} of it from Git, so a suspension has to be written there"
    for maker in makers_of(owner, found, cluster.section.argocd_namespace):
        seen, problem = _seen(cluster, maker)
        if seen is None:
            return f"{again}; {maker} makes it, {problem}"
        if not leaves_alone(maker, seen, owner.name):
            return f"{again}; {maker} makes it and would end a suspension, unless its spec has {how_to_leave_alone(maker)}"
    right = Right(
        verb="patch",
        group=owner.group,
        resource=owner.plural,
        namespace=owner.namespace,
        name=owner.name,
        why="to suspend it while the workload is down",
    )
    return f"{again}, and this may not {right}" if cluster.missing((right,)) else ""
