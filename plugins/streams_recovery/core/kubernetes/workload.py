"""The Deployment or StatefulSet that runs an application."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Self, cast

from streams_recovery.core.errors import ConfigInvalid

WorkloadKind = Literal["deployment", "statefulset"]
# As the API calls them.
API_KINDS: Final[Mapping[WorkloadKind, str]] = {"deployment": "Deployment", "statefulset": "StatefulSet"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadName:
    """Which workload, as ``kubectl`` writes it: ``deployment/orders``."""

    kind: WorkloadKind
    name: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ``ValueError`` for what is no such name."""
        kind, _, name = text.partition("/")
        if kind not in API_KINDS or not name or "/" in name:
            raise ValueError(f"{text[:80]!r} is no workload: write deployment/NAME or statefulset/NAME")
        return cls(kind=cast("WorkloadKind", kind), name=name)

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaler:
    """Who wrote the replica count last, and when, as far as the object says it."""

    manager: str
    at: str

    def __str__(self) -> str:
        return f"{self.manager} at {self.at}" if self.at else self.manager


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The workload as it is. ``replicas`` are those that are wanted, ``first`` is the number of the first pod of a StatefulSet. ``at_rest``: no pod is wanted,
    its controller has seen that, and counts none. Without it pods may still come, however few there are now.
    """

    name: WorkloadName
    replicas: int
    at_rest: bool
    first: int
    selector: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    managers: frozenset[str]
    scaler: Scaler
    template: Mapping[str, Any]
    claim_templates: tuple[str, ...]


def workload_of(name: WorkloadName, found: Mapping[str, Any]) -> Workload:
    """From the object. Raises ``ConfigInvalid`` for one that selects pods in a way that is not known."""
    metadata, spec = found["metadata"], found["spec"]
    written = metadata.get("managedFields") or ()
    replicas = 1 if spec.get("replicas") is None else spec["replicas"]
    return Workload(
        name=name,
        replicas=replicas,
        at_rest=not replicas and _at_rest(metadata, found.get("status") or {}),
        first=(spec.get("ordinals") or {}).get("start") or 0,
        selector=selector_text(spec["selector"], str(name)),
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        managers=frozenset(entry.get("manager", "") for entry in written),
        scaler=_scaler(written),
        template=spec["template"],
        claim_templates=tuple(claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates") or ()),
    )


def _at_rest(metadata: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    # A Deployment's controller writes the generation only after it has scaled its ReplicaSets, and the count is the sum of theirs.
    return (status.get("observedGeneration") or 0) >= (metadata.get("generation") or 0) and not status.get("replicas")


def selector_text(selector: Mapping[str, Any], where: str) -> str:
    """A label selector as the API takes it in a query."""
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for rule in selector.get("matchExpressions") or ():
        key, values = rule["key"], ",".join(rule.get("values") or ())
        known = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key, "DoesNotExist": f"!{key}"}
        if rule["operator"] not in known:
            raise ConfigInvalid(
                f"{where} selects its pods by {rule['operator']}, which this version does not know",
                next_step="use In, NotIn, Exists or DoesNotExist in its selector",
                workload=where,
            )
        parts.append(known[rule["operator"]])
    return ",".join(parts)


def _scaler(entries: Iterable[Mapping[str, Any]]) -> Scaler:
    # Kubernetes 1.35 keeps no name for a count of zero that came by the subresource scale (an empty number is left out of a Scale), and none for
    # the next count that comes that way. Whoever writes the workload itself is always known, with the time.
    writers = [entry for entry in entries if "f:replicas" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})]
    newest = max(writers, key=lambda entry: entry.get("time") or "", default={})
    return Scaler(manager=newest.get("manager") or "a client that left no name", at=newest.get("time") or "")
