"""Argo CD and Flux: what owns a workload is suspended while it is down, and is afterwards as it was before.

What is going to be suspended stands in the record of the stop before it is changed. The start gives back what is there and has the workload's mark besides:
see ``core.kubernetes.owners``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from streams_recovery.application.kubernetes.cluster import Cluster
from streams_recovery.core.errors import ApplicationNotReady, ConfigInvalid, ControlPlaneUnavailable, ManagedByAnother, NotFound
from streams_recovery.core.escaping import logger
from streams_recovery.core.kubernetes.controllers import Right
from streams_recovery.core.kubernetes.owners import (
    ARGO,
    Owner,
    Suspension,
    how_to_leave_alone,
    is_asked_to_refresh,
    is_busy,
    is_suspended,
    leaves_alone,
    makers_of,
    owners_of,
    put_back_by,
    refresh_request,
    still_for,
)
from streams_recovery.core.kubernetes.workload import Workload
from streams_recovery.core.waiting import poll

LOGGER = logger("streams_recovery.application.kubernetes.suspending")
_LOOK_SECONDS: Final = 0.25
# A controller of Flux that has read the object right before it was suspended has written by then that it is at work.
_BEGUN_SECONDS: Final = 1.0
# A refresh of Argo CD takes seconds. Where no controller runs none is ever done, and nothing is scaled either.
_REFRESH_SECONDS: Final = 60.0
# For an object that others write all the time.
_PATCH_SECONDS: Final = 30.0


def required(cluster: Cluster, workload: Workload) -> tuple[Suspension, ...]:
    """The owners that have to be suspended for a stop, and can be. Changes nothing. Raises ``ManagedByAnother`` naming every other one that is not suspended,
    or of which that cannot be seen.
    """
    found, refused = list[Suspension](), dict[Owner, tuple[str, str]]()
    for owner in owners_of(workload, cluster.owned, cluster.section.argocd_namespace):
        seen, problem = _seen(cluster, owner)
        suspension = None if seen is None else Suspension.of(owner, seen)
        if seen is not None and suspension is None:
            continue
        if seen is not None:
            problem = _not_to_suspend(cluster, owner, seen)
        if suspension is None or problem:
            refused[owner] = problem, owner.resume(seen)
        else:
            found.append(suspension)
    if refused:
        raise ManagedByAnother(
            f"{workload.name} belongs to " + ", and to ".join(f"{owner}, {problem}" for owner, (problem, _) in refused.items()),
            next_step="give the right to suspend it (include/kubernetes/rbac.yaml); or suspend it by hand, run this again, and end the suspension when the "
            "application runs",
            owners=[str(owner) for owner in refused],
        ).then(*(owner.suspend for owner in refused), *(resume for _, resume in refused.values()))
    return tuple(found)


def suspended(cluster: Cluster, owners: Sequence[Suspension], *, seconds: float) -> None:
    """Suspend these, and wait until what they had begun is over. Raises ``ApplicationNotReady``. One that a person has suspended meanwhile is left as it is."""
    several = [one.owner for one in owners]
    before = {owner: _changed(cluster, owner, partial(_suspending, cluster, owner)) for owner in several}
    # The refresh that was asked for before may have begun before: the one that counts is asked for behind it.
    early = {owner for owner, found in before.items() if is_asked_to_refresh(found)}
    began, busy, asked = time.monotonic(), list[Owner](), list[Owner]()

    def over() -> bool | None:
        found = {owner: cluster.owner(owner) for owner in several}
        busy[:] = [owner for owner in several if is_busy(owner, found[owner])]
        asked[:] = [owner for owner in several if owner.tool == ARGO and is_asked_to_refresh(found[owner])]
        for owner in early - {*asked}:
            early.remove(owner)
            _changed(cluster, owner, refresh_request)
            asked.append(owner)
        waited = time.monotonic() - began
        return None if busy or waited < (_REFRESH_SECONDS if asked else _BEGUN_SECONDS) else True

    if several and poll(over, seconds=seconds, interval=_LOOK_SECONDS, what="what Argo CD and Flux have begun") is None and busy:
        named = ", ".join(map(str, busy))
        raise ApplicationNotReady(
            f"{named} is suspended, and has been at work for {seconds:.0f} s on what it had begun before",
            next_step="wait until it is done, then run this again",
            owners=[str(owner) for owner in busy],
        )
    for owner in asked:
        LOGGER.warning(
            "%s was asked to refresh, and its controller did not do it in %.0f s: one that works again may still scale up what is stopped now",
            owner,
            time.monotonic() - began,
        )


def given_back(cluster: Cluster, workload: Workload, suspensions: Iterable[Suspension]) -> None:
    """Take the workload's mark off each, and give a setting back as it was behind the last mark. One that somebody has changed since is left as it is, and one
    that is gone is passed over. So is one that does not own the workload: whoever may write the record could name any.
    """
    own, owners = cluster.owned, owners_of(workload, cluster.owned, cluster.section.argocd_namespace)
    for one in suspensions:
        if one.owner not in owners:
            LOGGER.warning("%s is left as it is: it was suspended for %s, and does not own it any more", one.owner, workload.name)
            continue
        try:
            found = _changed(cluster, one.owner, partial(one.undo, own=own))
        except NotFound:
            continue
        if others := still_for(found, own):
            LOGGER.warning("%s stays suspended until the others that are down are started: %s", one.owner, ", ".join(others))


def _suspending(cluster: Cluster, owner: Owner, found: Mapping[str, Any]) -> Mapping[str, Any] | None:
    now = Suspension.of(owner, found)
    return None if now is None else now.patch(found, cluster.owned)


def _changed(cluster: Cluster, owner: Owner, patch_of: Callable[[Mapping[str, Any]], Mapping[str, Any] | None]) -> Mapping[str, Any]:
    """The owner as it was found and patched by ``patch_of``, which says None where nothing is to be done. Where somebody has changed it between the look and
    the patch it is looked at again. Raises ``ControlPlaneUnavailable``.
    """
    deadline = time.monotonic() + _PATCH_SECONDS
    while True:
        found = cluster.owner(owner)
        if (patch := patch_of(found)) is None:
            return found
        try:
            cluster.patch_owner(owner, patch)
        except ControlPlaneUnavailable:
            if time.monotonic() >= deadline:
                raise
            time.sleep(_LOOK_SECONDS)
        else:
            return found


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
    if is_suspended(owner, found):
        again = "which is suspended only until others that are down are started"
    if manager := put_back_by(owner, found):
        return f"{again}; {manager} applies {'.'.join(owner.setting)} of it from Git, so a suspension has to be written there"
    mark = cluster.owned.mark
    for maker in makers_of(owner, found, cluster.section.argocd_namespace):
        seen, problem = _seen(cluster, maker)
        if seen is None:
            return f"{again}; {maker} makes it, {problem}"
        if not leaves_alone(maker, seen, owner.name, mark):
            return f"{again}; {maker} makes it and would end a suspension, unless its spec has {how_to_leave_alone(maker, mark)}"
    right = Right(
        verb="patch",
        group=owner.group,
        resource=owner.plural,
        namespace=owner.namespace,
        name=owner.name,
        why="to suspend it while the workload is down",
    )
    return f"{again}, and this may not {right}" if cluster.missing((right,)) else ""
