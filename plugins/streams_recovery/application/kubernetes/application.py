"""The application port on a Deployment or a StatefulSet."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from streams_recovery.application.instances import Fleet
from streams_recovery.application.kubernetes import autoscaling, checks
from streams_recovery.application.kubernetes.cluster import Cluster
from streams_recovery.application.kubernetes.ending import PodWatch
from streams_recovery.application.kubernetes.looks import looks
from streams_recovery.application.kubernetes.ownership import require_unmanaged
from streams_recovery.application.kubernetes.record import StopRecord, requested
from streams_recovery.application.kubernetes.wiping import require_no_wipe, wiped
from streams_recovery.application.port import InstanceState, InstanceStatus, StopReport, WipeReport
from streams_recovery.config.runs import KubernetesRuns
from streams_recovery.core.errors import ApplicationRunning, Refused
from streams_recovery.core.kubernetes.pods import Pod, in_slots
from streams_recovery.core.kubernetes.workload import Workload
from streams_recovery.core.preflight.findings import PreflightFinding
from streams_recovery.core.state.key_query import KeyAnswer, KeyQuestion

# For a program to end whose Kafka Streams took all the time to close, and for one that has to be killed.
_END_SECONDS: Final = 1.0
_KILL_SECONDS: Final = 30.0
# An autoscaler looks every 15 seconds.
_AUTOSCALER_SECONDS: Final = 60.0


class KubernetesApplication:
    """See the port. An instance is a pod; since pods of a Deployment have new names each time, instances are numbered.

    Gone means that the pod's object does not exist, or that all its containers have ended for good, and that the workload's controller has seen that no pod
    is wanted: until then it may make one at any moment, and an instance without a pod is unknown. So is a pod whose object goes on existing on a node that
    does not answer. Clean means that the container was seen to end with 0 or 143 after a stop of ours, not for want of memory, and that it had said
    it was closed where it can. What a stop finds is written down in a ConfigMap before the workload is scaled.
    The section's ``start_timeout`` bounds a wipe and the wait for an answer to a query as well.
    """

    def __init__(self, section: KubernetesRuns, application_id: str) -> None:
        self._section, self._application_id = section, application_id
        self._opened: Cluster | None = None

    @property
    def can_pause(self) -> bool:
        """See the port."""
        return self._section.no_pause_because is None

    def status(self) -> tuple[InstanceStatus, ...]:
        """Every pod, and at zero every pod that was stopped."""
        return self._status()[0]

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Scale back to what is written down, and wait until autoscalers are on again. More pods than that are left. An ``environment`` is refused.

        Raises ``ApplicationNotReady`` while a Job that wipes its state cannot be removed.
        """
        if environment:
            raise Refused(
                f"pods of {self._section.workload} cannot be started with another environment ({', '.join(sorted(environment))})",
                next_step="make a workload for that application, and a configuration of its own",
            )
        workload, record = self._cluster.workload(), self._cluster.record()
        require_no_wipe(self._cluster, self._application_id, workload)
        wanted = workload.replicas if workload.replicas and record is None else self._replicas(record)
        if workload.replicas < wanted:
            self._cluster.scale(wanted)
        autoscaling.resumed(self._cluster, record.paused if record else (), seconds=_AUTOSCALER_SECONDS)
        autoscaling.proven_on(self._cluster, seconds=_AUTOSCALER_SECONDS)
        if record is not None:
            # Last: as long as something is left to be done, the next start needs the record.
            self._cluster.write(None)

    def stop(self, *, timeout: float) -> StopReport:
        """Close, where it is offered, scale to zero, and wait until every pod is gone; those that are left when the time (seconds) is up are killed.

        Raises ``ManagedByAnother``, ``ScaledByAnother``, ``ApplicationNotReady`` for an autoscaler that is not proven off.
        """
        workload = self._cluster.workload()
        deadline = time.monotonic() + timeout
        watch = PodWatch(self._cluster, workload, self._seen)
        if workload.replicas or watch.left:
            require_unmanaged(self._cluster, workload, self._section.argocd_namespace)
            autoscaling.require_no_scaling_from_zero(self._cluster)
            self._ask(workload, watch.left, seconds=timeout)
            self._cluster.scale(0)
        watch.await_gone(seconds=max(_END_SECONDS, deadline - time.monotonic()))
        for pod in watch.left:
            self._cluster.end_pod(pod, seconds=1)
        watch.await_gone(seconds=_KILL_SECONDS)
        if not watch.left:
            autoscaling.proven_off(self._cluster, seconds=_AUTOSCALER_SECONDS)
        return StopReport(instances=self.status())

    def pause(self) -> None:
        """POST to every pod, then see that each says it is paused."""
        self._status()[1].pause()

    def resume(self) -> None:
        """POST to every running pod, then see that none says it is paused."""
        self._status()[1].resume()

    def wipe_state(self) -> WipeReport:
        """See that the state of every pod is gone with it, or wipe the claims that outlive pods, those of replicas that were scaled away included."""
        running = [f"{status.name} ({status.detail})" for status in self.status() if status.state is not InstanceState.GONE]
        if running:
            raise ApplicationRunning(
                f"the state of instances that are not gone cannot be wiped: {', '.join(running)}", next_step="stop them", instances=running
            )
        return wiped(self._cluster, self._application_id)

    def query(self, store: str) -> dict[str, object]:
        """All keys over all pods. While the application rebalances, asked again until the start timeout."""
        return self._status()[1].query(store, seconds=self._section.start_timeout)

    def query_keys(self, questions: Sequence[KeyQuestion], *, seconds: float | None = None) -> tuple[KeyAnswer, ...]:
        """See the port: each key from the instance that has it."""
        return self._status()[1].query_keys(questions, seconds=self._section.start_timeout if seconds is None else seconds)

    def preflight(self, *, stops: bool, wipes: bool = False) -> tuple[PreflightFinding, ...]:
        """Rights that are missing, owners and autoscalers that would keep it from being stopped, and state that could not be wiped."""
        return checks.findings(self._cluster, stops=stops, wipes=wipes)

    @property
    def _cluster(self) -> Cluster:
        # Only when something is asked: a configuration can be read where there is no cluster.
        self._opened = self._opened or Cluster(self._section)
        return self._opened

    def _status(self) -> tuple[tuple[InstanceStatus, ...], Fleet]:
        workload = self._cluster.workload()
        record = None if workload.replicas else self._cluster.record()
        pods = in_slots(workload.name.name, self._cluster.pods(workload)[0], record.instances if record else {})
        found = looks(workload, pods, record, self._section.replicas, self._cluster.node, datetime.now(UTC))
        fleet = self._fleet(pods)
        return fleet.completed(found), fleet

    def _fleet(self, pods: Mapping[str, Pod]) -> Fleet:
        urls = {name: f"http://{_host(pod.ip)}:{self._section.port}" for name, pod in pods.items() if pod.ip}
        return Fleet(urls=urls, control=self._section.control, statuses=self.status)

    def _ask(self, workload: Workload, left: tuple[Pod, ...], *, seconds: float) -> None:
        """Write down what is being stopped, pause what would start it again, and have it close."""
        stored = self._cluster.record()
        # What an earlier stop has written down of pods counts while the workload is at zero, and is old once it was started again.
        before = None if workload.replicas else stored
        pods = in_slots(workload.name.name, left, before.instances if before else {})
        fleet = self._fleet(pods)
        closes = self._section.control.close is not None
        to_pause = autoscaling.pause_keda(self._cluster)
        record = StopRecord(
            # While something is written down nothing was started again as it should be: another one may have scaled it to less.
            replicas=max(workload.replicas, stored.replicas if stored else 0) or self._section.replicas or len(left),
            pods=requested(pods, fleet.reports(pods), before, closes=closes),
            paused=(*(stored.paused if stored else ()), *to_pause),
        )
        # Before anything is paused: whoever starts it after a kill has to know what to resume.
        self._cluster.write(record)
        autoscaling.paused(self._cluster, to_pause, seconds=_AUTOSCALER_SECONDS)
        answers = fleet.closed(pods, seconds=seconds)
        if answers:
            self._cluster.write(record.with_answers({pods[name].uid: answer for name, answer in answers.items()}))

    def _seen(self, pods: tuple[Pod, ...]) -> None:
        record = self._cluster.record()
        if record is not None and (known := record.with_ends(pods)) != record:
            self._cluster.write(known)

    def _replicas(self, record: StopRecord | None) -> int:
        count = record.replicas if record else self._section.replicas
        if count is None:
            raise Refused(
                f"{self._section.workload} is at zero, and how many pods it is to have is written down nowhere",
                next_step="set runs.kubernetes.replicas, or scale it by hand",
                record=self._section.record_name,
            )
        return count


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address
