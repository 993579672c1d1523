"""Owners: objects of Argo CD and Flux that write a workload back to what a Git repository says, unless they are suspended.

A Kustomization and a HelmRelease of Flux are suspended by ``spec.suspend``. Their controllers take up a field of an object only where Git has it (server-side
apply), so a suspension stays, unless Git says itself whether the object is suspended.

An Application of Argo CD is suspended by taking ``spec.syncPolicy.automated`` away. A refresh of its controller that began before still syncs by the copy that
it took at its beginning (its processAppRefreshQueueItem). So another refresh is asked for with the suspension: the controller refreshes an Application once at
a time, and takes the annotation that asks for it away at the end of a refresh whose copy has it. The annotation ``argocd.argoproj.io/skip-reconcile`` is not
used: it is an alpha feature, and a sync or a self-heal that waits in a queue goes on in spite of it.
The automated sync is written in Git where another Application or an ApplicationSet makes the Application, and comes back from there unless that one is told to
leave ``/spec/syncPolicy`` alone.

An object owns many workloads. Each that is down has a mark on it, an annotation with what its setting was before the first one. The last one that is started
gives the setting back. One that is suspended without a mark was suspended by a person.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from streams_recovery.core.codec import Unusable, parsed
from streams_recovery.core.words import shell

ARGO: Final = "Argo CD"
MANAGER: Final = "kafka-streams-recovery"
"""The name under which the API server keeps what this writes."""
_ARGO_GROUP: Final = "argoproj.io"
_ARGO_TRACKING: Final = "argocd.argoproj.io/tracking-id"
_ARGO_REFRESH: Final = "argocd.argoproj.io/refresh"
_ARGO_LABEL: Final = "argocd.argoproj.io/instance"
# What Argo CD before 3.0 tracks by, unless it is told otherwise. Helm and others write it too.
_COMMON_LABEL: Final = "app.kubernetes.io/instance"
_SET: Final = "ApplicationSet"
_KUSTOMIZE: Final = "kustomize.toolkit.fluxcd.io"
_FLUX: Final = {
    _KUSTOMIZE: ("Kustomization", "kustomizations", "v1"),
    "helm.toolkit.fluxcd.io": ("HelmRelease", "helmreleases", "v2"),
}
_FLUX_DISABLED: Final = f"{_KUSTOMIZE}/reconcile"
# Who applies what Git says, as the API server writes it down for each field.
_APPLIERS: Final = ("kustomize-controller", "helm-controller", "argocd")
_AUTOMATED: Final = ("spec", "syncPolicy", "automated")
_SUSPEND: Final = ("spec", "suspend")
# Pointers in the settings by which Argo CD leaves the automated sync of another Application alone.
_POINTERS: Final = ("/spec/syncPolicy", "/spec/syncPolicy/automated")
_RESPECT: Final = "RespectIgnoreDifferences=true"
# Rules of an ApplicationSet by which it changes no Application that is there.
_NO_UPDATE: Final = ("create-only", "create-delete")
_SYNCING: Final = ("Running", "Terminating")
_MARK: Final = "kafka-streams-recovery/suspended-for."
# Of the name of an annotation behind its prefix.
_MOST_NAME: Final = 63
_MOST_WAS: Final = 4096
_FLAGS: Final = (("selfHeal", "--self-heal"), ("prune", "--auto-prune"), ("allowEmpty", "--allow-empty"))


class Marked(Protocol):
    """An object with the marks of the tools that wrote it."""

    @property
    def labels(self) -> Mapping[str, str]: ...

    @property
    def annotations(self) -> Mapping[str, str]: ...

    @property
    def managers(self) -> Collection[str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """The marks of an object. ``managers`` are the names of the clients that wrote it."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    managers: frozenset[str]

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Marks:
        metadata = found.get("metadata") or {}
        written = metadata.get("managedFields") or ()
        return cls(
            labels=metadata.get("labels") or {},
            annotations=metadata.get("annotations") or {},
            managers=frozenset(one.get("manager", "") for one in written),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """The names of an object that may have owners. ``kind`` as the API writes it: ``Deployment``."""

    group: str
    kind: str
    namespace: str
    name: str

    @property
    def tracked_as(self) -> str:
        """The tracking id of Argo CD behind the name of the Application. Another object that was copied with its annotations has another one."""
        return f"{self.group}/{self.kind}:{self.namespace}/{self.name}"

    @property
    def mark(self) -> str:
        """The annotation on an owner that is suspended for this object."""
        text = f"{self.namespace}.{self.kind.lower()}.{self.name}"
        if len(_MARK.partition("/")[2]) + len(text) > _MOST_NAME:
            text = hashlib.sha256(text.encode()).hexdigest()[:40]
        return f"{_MARK}{text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The object of a tool that owns a workload. ``name`` is empty when only the tool's name on the workload's fields is known."""

    tool: str
    kind: str
    group: str
    version: str
    plural: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.tool} {self.kind} {self.namespace}/{self.name}" if self.name else self.tool

    @property
    def suspend(self) -> str:
        """The command for a person to run before the workload is stopped."""
        if self.tool == ARGO:
            return shell("argocd", "app", "set", self._argo_name, "--sync-policy", "none")
        return shell("flux", "suspend", self.kind.lower(), self.name, "-n", self.namespace)

    def resume(self, found: Mapping[str, Any] | None) -> str:
        """The command that takes the suspension back, to what was ``found`` before it. None: nobody could look."""
        if self.tool != ARGO:
            return shell("flux", "resume", self.kind.lower(), self.name, "-n", self.namespace)
        automated = _value(found or {}, _AUTOMATED) or {}
        flags = [flag for name, flag in _FLAGS if automated.get(name)]
        return shell("argocd", "app", "set", self._argo_name, "--sync-policy", "automated", *flags)

    @property
    def _argo_name(self) -> str:
        return f"{self.namespace}/{self.name}" if self.name else "APPLICATION"

    @property
    def setting(self) -> tuple[str, ...]:
        """The field by which it is suspended."""
        return _AUTOMATED if self.tool == ARGO else _SUSPEND


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspension:
    """An owner that is suspended for as long as the workload is down. ``was`` is the JSON of what its setting was before, JSON null where it was not there."""

    owner: Owner
    was: str

    @classmethod
    def of(cls, owner: Owner, found: Mapping[str, Any]) -> Suspension | None:
        """What a stop has to suspend, by the owner as it was ``found``: one at work, or one that is suspended for another workload. None for one that a person
        has suspended.
        """
        if not is_suspended(owner, found):
            return cls(owner=owner, was=json.dumps(_value(found, owner.setting)))
        marks = _marks(found) if _is_ours(owner, found) else {}
        was = next((marks[name] for name in sorted(marks) if _can_have_been(owner, marks[name])), None)
        return None if was is None else cls(owner=owner, was=was)

    def patch(self, found: Mapping[str, Any], own: Owned) -> Mapping[str, Any]:
        """The merge patch that suspends it for ``own``. Marks on an owner at work are removed: somebody has ended the suspension that they are of."""
        left = self.was if is_suspended(self.owner, found) else None
        annotations = {**dict.fromkeys(_marks(found), left), own.mark: self.was}
        refresh = {_ARGO_REFRESH: "normal"} if self.owner.tool == ARGO else {}
        return {"metadata": _at(found, annotations | refresh), **_nested(self.owner.setting, _SUSPENDED[self.owner.tool == ARGO])}

    def undo(self, found: Mapping[str, Any], own: Owned) -> Mapping[str, Any] | None:
        """The merge patch that takes the mark of ``own`` away, and behind the last one gives the setting back as it was; None without such a mark. A setting
        that somebody has changed since is theirs. What cannot have been there is not written.
        """
        marks = _marks(found)
        if own.mark not in marks:
            return None
        unmarked = {"metadata": _at(found, {own.mark: None})}
        was = next((text for text in (marks[own.mark], self.was) if _can_have_been(self.owner, text)), "null")
        is_last = len(marks) == 1 and _is_ours(self.owner, found)
        return {**unmarked, **_nested(self.owner.setting, json.loads(was))} if is_last else unmarked


def still_for(found: Mapping[str, Any], own: Owned) -> tuple[str, ...]:
    """The marks of other workloads for which an owner stays suspended that is suspended for ``own`` too; none where it is not."""
    marks = _marks(found)
    return tuple(sorted(marks.keys() - {own.mark})) if own.mark in marks else ()


def is_asked_to_refresh(found: Mapping[str, Any]) -> bool:
    """True until the controller of Argo CD is done with a refresh that was asked for."""
    return _ARGO_REFRESH in ((found.get("metadata") or {}).get("annotations") or {})


def refresh_request(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """The merge patch that asks for a refresh."""
    return {"metadata": _at(found, {_ARGO_REFRESH: "normal"})}


def _marks(found: Mapping[str, Any]) -> dict[str, str]:
    annotations = (found.get("metadata") or {}).get("annotations") or {}
    return {name: str(text) for name, text in annotations.items() if name.startswith(_MARK)}


def _at(found: Mapping[str, Any], annotations: Mapping[str, str | None]) -> Mapping[str, Any]:
    """Metadata of a merge patch that the API server refuses once anybody has changed what was ``found``."""
    version = (found.get("metadata") or {}).get("resourceVersion")
    return {"annotations": annotations, **({"resourceVersion": version} if version else {})}


def _is_ours(owner: Owner, found: Mapping[str, Any]) -> bool:
    """True while its setting is as a suspension has left it. The API server names who wrote ``suspend``: if it is somebody else, it is theirs. Of a field that
    was taken away it names nobody.
    """
    field = [f"f:{part}" for part in owner.setting]
    entries = (found.get("metadata") or {}).get("managedFields") or ()
    writers = {one.get("manager") for one in entries if _value(one.get("fieldsV1"), field) is not None}
    return bool(_value(found, owner.setting) == _SUSPENDED[owner.tool == ARGO]) and writers <= {MANAGER}


def _can_have_been(owner: Owner, text: str) -> bool:
    """True for a setting, as JSON, of an owner at work."""
    try:
        value = parsed(text.encode(), most_bytes=_MOST_WAS)
    except Unusable:
        return False
    return isinstance(value, Mapping) if owner.tool == ARGO else value is None or value is False


# By whether it is an Application of Argo CD.
_SUSPENDED: Final[Mapping[bool, object]] = {True: None, False: True}


def owners_of(marked: Marked, own: Owned, argocd_namespace: str) -> tuple[Owner, ...]:
    """Every owner of the object ``own``, which has these marks."""
    return (*_argo(marked, own, argocd_namespace), *_flux(marked))


def is_suspended(owner: Owner, found: Mapping[str, Any]) -> bool:
    """True when the tool will not write to the workload by itself, by its own object."""
    value = _value(found, owner.setting)
    if owner.tool != ARGO:
        return value is True
    return value is None or value.get("enabled") is False


def is_busy(owner: Owner, found: Mapping[str, Any]) -> bool:
    """True while the tool still carries out what it had begun. A suspension does not end that."""
    status = found.get("status") or {}
    if owner.tool == ARGO:
        return bool(found.get("operation")) or (status.get("operationState") or {}).get("phase") in _SYNCING
    return any(one.get("type") == "Reconciling" and one.get("status") == "True" for one in status.get("conditions") or ())


def put_back_by(owner: Owner, found: Mapping[str, Any]) -> str:
    """The client that has applied the owner's setting from Git, and would apply it again over a suspension; empty without one."""
    for entry in (found.get("metadata") or {}).get("managedFields") or ():
        manager = entry.get("manager") or ""
        own = [f"f:{part}" for part in owner.setting]
        if entry.get("operation") == "Apply" and manager.startswith(_APPLIERS) and _value(entry.get("fieldsV1") or {}, own) is not None:
            return str(manager)
    return ""


def makers_of(owner: Owner, found: Mapping[str, Any], argocd_namespace: str) -> tuple[Owner, ...]:
    """The Applications and ApplicationSets of Argo CD that make this one. Objects that are applied by the server's side of an apply are ``put_back_by``."""
    if owner.tool != ARGO:
        return ()
    sets = [one for one in (found.get("metadata") or {}).get("ownerReferences") or () if one.get("kind") == _SET]
    own = Owned(group=owner.group, kind=owner.kind, namespace=owner.namespace, name=owner.name)
    above = [one for one in _argo(Marks.of(found), own, argocd_namespace) if one.name and one != owner]
    return (*above, *(_application(owner.namespace, one["name"], kind=_SET) for one in sets))


def leaves_alone(maker: Owner, found: Mapping[str, Any], name: str, mark: str) -> bool:
    """True if what makes the Application ``name`` would not bring its automated sync back by itself, nor take the ``mark`` away."""
    spec = found.get("spec") or {}
    policy = spec.get("syncPolicy") or {}
    if maker.kind == _SET:
        # Its controller removes every annotation that is not its own, unless it is named.
        kept = mark in ((spec.get("preservedFields") or {}).get("annotations") or ())
        return policy.get("applicationsSync") in _NO_UPDATE or (kept and _ignores(spec.get("ignoreApplicationDifferences") or (), name))
    own = [one for one in spec.get("ignoreDifferences") or () if (one.get("group"), one.get("kind")) == (_ARGO_GROUP, "Application")]
    # Without the option the difference is only not seen, and the next sync writes all of it.
    return is_suspended(maker, found) or (_RESPECT in (policy.get("syncOptions") or ()) and _ignores(own, name))


def how_to_leave_alone(maker: Owner, mark: str) -> str:
    """The setting in its spec by which ``leaves_alone`` becomes true."""
    if maker.kind == _SET:
        return f'ignoreApplicationDifferences: [{{jsonPointers: ["{_POINTERS[0]}"]}}] and preservedFields: {{annotations: ["{mark}"]}}'
    rule = f'ignoreDifferences: [{{group: {_ARGO_GROUP}, kind: Application, jsonPointers: ["{_POINTERS[0]}"]}}]'
    return f"{rule} and syncPolicy.syncOptions {_RESPECT}"


def _ignores(rules: Iterable[Mapping[str, Any]], name: str) -> bool:
    return any(one.get("name", name) == name and set(_POINTERS) & set(one.get("jsonPointers") or ()) for one in rules)


def _argo(marked: Marked, own: Owned, namespace: str) -> tuple[Owner, ...]:
    tracking, _, tracked_as = marked.annotations.get(_ARGO_TRACKING, "").partition(":")
    tracked = (tracking if tracked_as == own.tracked_as else "") or marked.labels.get(_ARGO_LABEL, "")
    if not tracked and not any("argocd" in manager for manager in marked.managers):
        return ()
    tracked = tracked or marked.labels.get(_COMMON_LABEL, "")
    # An Application outside Argo CD's own namespace is tracked as NAMESPACE_NAME.
    place, _, name = tracked.rpartition("_")
    return (_application(place or namespace, name),)


def _application(namespace: str, name: str, *, kind: str = "Application") -> Owner:
    return Owner(tool=ARGO, kind=kind, group=_ARGO_GROUP, version="v1alpha1", plural=f"{kind.lower()}s", namespace=namespace, name=name)


def _flux(marked: Marked) -> tuple[Owner, ...]:
    left_alone = marked.annotations.get(_FLUX_DISABLED) == "disabled"
    return tuple(
        Owner(
            tool="Flux",
            kind=kind,
            group=group,
            version=version,
            plural=plural,
            namespace=marked.labels.get(f"{group}/namespace", ""),
            name=marked.labels[f"{group}/name"],
        )
        for group, (kind, plural, version) in _FLUX.items()
        if f"{group}/name" in marked.labels and not (left_alone and group == _KUSTOMIZE)
    )


def _value(found: Any, path: Iterable[str]) -> Any:
    for part in path:
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _nested(path: tuple[str, ...], value: object) -> Mapping[str, Any]:
    first, *rest = path
    return {first: _nested(tuple(rest), value) if rest else value}
