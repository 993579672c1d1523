"""The journal of a restore. Entries are numbered and never changed; the last one tells what may be done next, and by whom."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from streams_recovery.core.errors import Refused
from streams_recovery.core.run_artifact import ArtifactRef


class Phase(enum.StrEnum):
    """Phases in their order. ``SAVED`` is reached with a safety savepoint, or with the reason why there is none. From ``DESTROYING`` on the
    application must not be started again except by the restore's own last steps. ``DEPLOYED`` is for restores that deploy a version, and
    ``INPUT_COMPLETE`` for intervals that are processed again.
    """

    OPENED = "opened"
    STOPPED = "stopped"
    SAVED = "saved"
    DESTROYING = "destroying"
    CREATED = "created"
    LOADED = "loaded"
    VERIFIED = "verified"
    OFFSETS_SET = "offsets-set"
    WIPED = "wiped"
    DEPLOYED = "deployed"
    STARTED = "started"
    RECOVERED = "recovered"
    INPUT_COMPLETE = "input-complete"
    CLOSED = "closed"

    @property
    def rank(self) -> int:
        return list(Phase).index(self)


class RestoreScope(enum.StrEnum):
    """The subject of a restore: the whole ``state`` of the application; single ``topics`` of it beside its state; or ``copies`` of topics under names that
    it does not use. Only one of the first kind says anything about the state. The application must not be started on topics of the second kind that are half
    loaded.
    """

    STATE = "state"
    TOPICS = "topics"
    COPIES = "copies"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    """A topic this restore created; its id tells it from any other of the same name."""

    topic: str
    topic_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One step of a restore that is done (or, for ``DESTROYING``, about to begin). ``result`` is what the step found out; a resumed run needs it.
    ``scope`` is the same in all entries of a restore.
    """

    phase: Phase
    at: int
    created: tuple[CreatedTopic, ...]
    result: ArtifactRef | None = None
    scope: RestoreScope = RestoreScope.STATE


def reached(entries: tuple[JournalEntry, ...]) -> Phase:
    """The newest phase. Every restore begins with ``OPENED``."""
    return entries[-1].phase if entries else Phase.OPENED


def created_by(entries: tuple[JournalEntry, ...]) -> dict[str, set[str]]:
    """Ids of the topics this restore has created so far, by name."""
    ids: dict[str, set[str]] = {}
    for entry in entries:
        for topic in entry.created:
            ids.setdefault(topic.topic, set()).add(topic.topic_id)
    return ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Removable:
    """Present topics that restores have created: topics that ``go``, by name with their ids, and ``strange`` topics, whose names are not the application's."""

    go: dict[str, str]
    strange: tuple[str, ...]


def removable(journals: Iterable[tuple[JournalEntry, ...]], own: Collection[str], existing: Mapping[str, str]) -> Removable:
    """Topics that may be removed of those in ``existing``, which has their ids by name. A journal is data that a stranger may have written: it only narrows the
    names in ``own``, down to topics that still have the id with which they were created.
    """
    written = [created_by(entries) for entries in journals]
    there = sorted(name for name, topic_id in existing.items() if any(topic_id in ids.get(name, ()) for ids in written))
    return Removable(go={name: existing[name] for name in there if name in own}, strange=tuple(name for name in there if name not in own))


def result_of(entries: tuple[JournalEntry, ...], *phases: Phase) -> ArtifactRef | None:
    """The result of the newest step of one of these phases, None when it has written nothing down."""
    return next((entry.result for entry in reversed(entries) if entry.phase in phases and entry.result is not None), None)


def require(entries: tuple[JournalEntry, ...], *, at_least: Phase, before: Phase) -> None:
    """Raise ``Refused`` unless the restore has reached ``at_least`` and not yet ``before``: a task that was cleared after the application came
    back must not take its topics or its offsets away again.
    """
    now = reached(entries)
    if at_least.rank <= now.rank < before.rank:
        return
    raise Refused(
        f"this restore is in phase {now}; this step belongs between {at_least} and {before}",
        next_step="trigger a new restore instead of clearing tasks of this one",
        phase=now.value,
        at_least=at_least.value,
        before=before.value,
    )


def may_restart(phase: Phase) -> bool:
    """True while nothing has been destroyed, so that the application may simply go on."""
    return phase.rank < Phase.DESTROYING.rank
