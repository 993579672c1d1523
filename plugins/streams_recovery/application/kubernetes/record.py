"""What a stop writes down in a ConfigMap beside the workload, for whoever starts it again and for whoever asks how it ended."""

from __future__ import annotations

import getpass
import os
import platform
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from streams_recovery.application.http_control import Reported
from streams_recovery.application.instance_record import Ended, StopRequest
from streams_recovery.core.kubernetes.pods import ContainerEnd, Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedPod:
    """One pod that was asked to end. ``ended`` is None until the end of its container was seen."""

    instance: str
    pod: str
    uid: str
    node: str
    request: StopRequest
    ended: ContainerEnd | None

    @property
    def end(self) -> Ended | None:
        """Its end as the other kinds of runs know it."""
        if self.ended is None:
            return None
        return Ended(run=self.uid, status=self.ended.exit_code, left_behind=0, stop_request=self.request, at=self.request.at)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRecord:
    """One stop. ``replicas`` is how many it had, ``paused`` are the ScaledObjects that it has paused. ``wiped``: the state of these pods is gone."""

    replicas: int
    pods: tuple[StoppedPod, ...] = ()
    paused: tuple[str, ...] = ()
    wiped: bool = False

    @property
    def instances(self) -> dict[str, str]:
        """The names of the instances by the uids of their pods."""
        return {one.uid: one.instance for one in self.pods}

    def with_ends(self, seen: Iterable[Pod]) -> StopRecord:
        """With the ends of containers that were seen. The last one counts: a container that crashed may have been started again."""
        ends = {pod.uid: pod.ended for pod in seen if pod.ended is not None}
        return replace(self, pods=tuple(replace(one, ended=ends.get(one.uid, one.ended)) for one in self.pods))

    def with_answers(self, answers: Mapping[str, bool]) -> StopRecord:
        """With what the pods said when they were asked to close, by their uids."""
        return replace(
            self,
            pods=tuple(
                replace(one, request=replace(one.request, reported_closed=answers[one.uid])) if one.uid in answers else one
                for one in self.pods
            ),
        )


def requested(
    pods: Mapping[str, Pod], reports: Mapping[str, Reported], before: StopRecord | None, *, closes: bool
) -> tuple[StoppedPod, ...]:
    """These pods, asked to end now. What the first request found counts: a later one finds an instance that is closing. ``closes``: they can be asked to
    close Kafka Streams, and did not answer yet.
    """
    by, at = f"{getpass.getuser()}@{platform.node()}, pid {os.getpid()}", time.time_ns() // 1_000_000
    known = {one.uid: one for one in before.pods} if before else {}
    asked = tuple(
        known.get(pod.uid)
        or StoppedPod(
            instance=instance,
            pod=pod.name,
            uid=pod.uid,
            node=pod.node,
            request=StopRequest(
                run=pod.uid,
                by=by,
                at=at,
                state_before=reports[instance].state if instance in reports else None,
                reported_closed=False if closes else None,
            ),
            ended=None,
        )
        for instance, pod in pods.items()
    )
    present = {one.uid for one in asked}
    return (*(one for uid, one in known.items() if uid not in present), *asked)
