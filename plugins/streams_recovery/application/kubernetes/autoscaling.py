"""Autoscalers of a workload are proven off while it is at zero, and proven on again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from streams_recovery.application.kubernetes.cluster import Cluster
from streams_recovery.core.errors import ApplicationNotReady, Refused
from streams_recovery.core.kubernetes.controllers import Autoscaler, ScaledObject
from streams_recovery.core.waiting import poll
from streams_recovery.core.words import shell

_LOOK_SECONDS: Final = 0.25


def require_left_at_zero(cluster: Cluster) -> None:
    """Raise ``Refused`` for an autoscaler that scales up from zero, as only one that wants at least one pod leaves a workload at zero alone, and for a
    ScaledObject of KEDA that cannot be paused.
    """
    for one in cluster.scaled_objects():
        if one.problem:
            raise Refused(
                f"{one}: {one.problem}",
                next_step="remove that annotation while applications are stopped, or pause it by autoscaling.keda.sh/paused alone",
                autoscalers=[one.name],
            ).then(shell("kubectl", "annotate", f"scaledobject/{one.name}", f"{one.annotation}-", "-n", cluster.section.namespace))
    from_zero = [one.name for one in cluster.autoscalers() if one.least == 0]
    if from_zero:
        raise Refused(
            f"HorizontalPodAutoscaler {', '.join(from_zero)} has minReplicas 0, so it may scale up from zero at any moment",
            next_step="set its minReplicas to 1",
            autoscalers=from_zero,
        ).then(shell("kubectl", "patch", "hpa", from_zero[0], "-n", cluster.section.namespace, "-p", '{"spec":{"minReplicas":1}}'))


def pause_keda(cluster: Cluster) -> tuple[str, ...]:
    """The ScaledObjects that have to be paused and are not: those that a person has paused are left as they are."""
    return tuple(one.name for one in cluster.scaled_objects() if not one.annotated)


def paused(cluster: Cluster, names: Sequence[str], *, seconds: float) -> None:
    """Pause these, and wait until KEDA says of every ScaledObject of the workload that it is. Raises ``ApplicationNotReady``."""
    for name in names:
        cluster.pause_scaled_object(name, paused=True)

    def running() -> Sequence[ScaledObject]:
        return [one for one in cluster.scaled_objects() if not one.paused]

    _await_none(running, "is not paused, as far as KEDA says", seconds)


def resumed(cluster: Cluster, names: Sequence[str], *, seconds: float) -> None:
    """Remove the pause from those that a stop has paused, and wait until KEDA says so: the next stop would take the old word for its own. Not for one that
    KEDA calls paused for another reason. Raises ``ApplicationNotReady``.
    """
    present = {one.name for one in cluster.scaled_objects()} if names else set()
    for name in names:
        if name in present:
            cluster.pause_scaled_object(name, paused=False)

    def held() -> Sequence[ScaledObject]:
        return [one for one in cluster.scaled_objects() if one.name in names and one.paused and not one.problem] if names else []

    _await_none(held, "is still paused, as far as KEDA says", seconds)


def proven_off(cluster: Cluster, *, seconds: float) -> None:
    """Wait until every autoscaler says that it leaves the workload at zero alone. Raises ``ApplicationNotReady``."""

    def on() -> Sequence[Autoscaler]:
        return [one for one in cluster.autoscalers() if not one.proven_off]

    _await_none(on, "has not said that it is off while the workload is at zero", seconds)


def proven_on(cluster: Cluster, *, seconds: float) -> None:
    """Wait until no autoscaler says that it is off. Raises ``ApplicationNotReady``."""

    def off() -> Sequence[Autoscaler]:
        return [one for one in cluster.autoscalers() if not one.proven_on]

    _await_none(off, "has not said that it is on again", seconds)


def _await_none(look: Callable[[], Sequence[object]], what: str, seconds: float) -> None:
    named = ""

    def none() -> bool | None:
        nonlocal named
        named = ", ".join(map(str, look()))
        return None if named else True

    if poll(none, seconds=seconds, interval=_LOOK_SECONDS, what="autoscalers", message=lambda: f"{named} {what}") is None:
        raise ApplicationNotReady(
            f"{named} {what}, after {seconds:.0f} s",
            next_step="see that its controller works (kubectl describe), then run this again",
            autoscalers=named,
        )
