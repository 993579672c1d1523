"""``runs.kubernetes``: an application that a Deployment or a StatefulSet runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath, PurePosixPath
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from streams_recovery.config.fields import Integer, LocalPath, Seconds, Text, accepted_by
from streams_recovery.config.runs.kind import Kind
from streams_recovery.config.runs.process import NO_ENDPOINTS, Control
from streams_recovery.core.kubernetes.workload import WorkloadName

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
# "/" and its direct children are never a state directory.
_LEAST_PARTS: Final = 3


def _object_name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError(f"{value[:60]!r} is not the name of an object in Kubernetes: use lower case letters, digits, - and .")
    return value


def _state_directory(value: str) -> str:
    path = PurePosixPath(value)
    if not path.is_absolute() or ".." in path.parts or len(path.parts) < _LEAST_PARTS:
        raise ValueError(f"{value[:60]!r} cannot be a state directory: name the absolute path in the container, below a folder of its own")
    return str(path)


ObjectName = Annotated[str, AfterValidator(_object_name)]


class KubernetesRuns(Kind):
    """Pods of one workload. ``workload`` is ``deployment/NAME`` or ``statefulset/NAME``, ``state_directory`` is ``state.dir`` in the container, and each pod
    answers ``control`` at ``port``. Without a port no pod is asked for anything. ``claims`` says what a wipe does to volumes that outlive a pod;
    ``volumes_without_state`` are those on which no state lies.
    """

    namespace: ObjectName
    workload: Annotated[str, AfterValidator(accepted_by(WorkloadName.parse))]
    state_directory: Annotated[str, AfterValidator(_state_directory)]
    port: Annotated[Integer, Field(ge=1, le=65_535)] | None = None
    container: ObjectName | None = None
    replicas: Annotated[Integer, Field(ge=1, le=10_000)] | None = None
    record: ObjectName | None = None
    claims: Literal["delete", "job"] | None = None
    wipe_image: Text | None = None
    volumes_without_state: tuple[ObjectName, ...] = ()
    kubeconfig: LocalPath | None = None
    context: Text | None = None
    argocd_namespace: ObjectName = "argocd"
    control: Control = Control()
    start_timeout_seconds: Seconds = 120
    stop_timeout_seconds: Seconds = 60

    def is_as(self, other: Kind) -> bool:
        """True for the same workload. A workload of the same name in another context, or by another file, is another one."""
        return isinstance(other, KubernetesRuns) and self.place == other.place

    def reached(self, state: PurePath) -> Iterator[str]:  # noqa: ARG002 - the state of a workload is on its own volumes
        where = "".join(f", {what} {value}" for what, value in (("context", self.context), ("kubeconfig", self.kubeconfig)) if value)
        yield f"{self.workload} in namespace {self.namespace}{where}"

    @property
    def place(self) -> tuple[object, ...]:
        """The facts that tell it from every other workload."""
        return self.kubeconfig, self.context, self.namespace, self.workload_name

    @property
    def start_timeout(self) -> float:
        return float(self.start_timeout_seconds)

    @property
    def stop_timeout(self) -> float:
        return float(self.stop_timeout_seconds)

    @property
    def no_pause_because(self) -> str | None:
        if self.port is None:
            return "runs.kubernetes has no port, so nothing of its pods can be asked"
        return self.control.no_pause_because("runs.kubernetes.control")

    @property
    def endpoints(self) -> Control:
        """The interface of its pods."""
        return NO_ENDPOINTS if self.port is None else self.control

    @property
    def workload_name(self) -> WorkloadName:
        """Kind and name of the workload."""
        return WorkloadName.parse(self.workload)

    @property
    def record_name(self) -> str:
        """The ConfigMap that keeps the replica count and the ends of pods while the workload is at zero."""
        return self.record or f"{self.workload_name.name}-streams-recovery"

    @model_validator(mode="after")
    def _claims_can_be_wiped(self) -> Self:
        if self.claims == "job" and self.wipe_image is None:
            raise ValueError("claims is job, so wipe_image is needed: an image that has the programs rm and test")
        if self.claims == "delete" and self.workload_name.kind == "deployment":
            raise ValueError("claims is delete, and nothing would make the claim of a Deployment again; write claims: job")
        return self

    @model_validator(mode="after")
    def _asked_somewhere(self) -> Self:
        if self.port is None and "control" in self.model_fields_set:
            raise ValueError("control names paths, and there is no port to ask them at: write port, or leave control out")
        return self

    @model_validator(mode="after")
    def _one_context(self) -> Self:
        if self.context is not None and self.kubeconfig is None:
            raise ValueError("context is one of the kubeconfig, which is not named")
        return self
