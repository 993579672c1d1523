"""The application port: what a recovery needs from whatever runs the application."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from streams_recovery.core.errors import ApplicationRunning, Damaged, NotFound, Refused
from streams_recovery.core.preflight.findings import PreflightFinding
from streams_recovery.core.state.key_query import KeyAnswer, KeyQuestion

if TYPE_CHECKING:
    from streams_recovery.core.rollout.described import DescribedTopology


class InstanceState(enum.StrEnum):
    """``running`` covers everything from starting to shutting down: only ``gone`` is proof that an instance cannot write any more.
    ``unknown`` must be treated as running.
    """

    RUNNING = "running"
    GONE = "gone"
    UNKNOWN = "unknown"


class AnswerTooLarge(Refused):
    """Raised when a store's answer to a query is larger than what is read of one. The store is no less whole for that."""


class NoKeyRoute(NotFound):
    """Raised when an application cannot be asked for this key: it has no such path or no such store, or cannot read the key. Its stores may still be asked
    as a whole.
    """


class ForeignOwner(Refused):
    """Raised when an instance names an owner of a key that is no instance of the application. Nothing was sent there. ``facts`` have ``host`` and ``port``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnWord:
    """An instance by its own word. ``restoring`` are the records that its stores still have to read from their changelogs, ``standby_tasks`` the tasks it
    keeps ready for others, warm-up tasks among them, ``commit_interval_ms`` the interval at which it commits; each None when it does not tell. ``client_ids``
    are the names of its Kafka Streams or of their consumers, empty when it does not tell.
    """

    restoring: int | None = None
    standby_tasks: int | None = None
    commit_interval_ms: int | None = None
    client_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceStatus(OwnWord):
    """One instance. ``streams_state`` is KafkaStreams#state as the instance reports it, ``PAUSED`` when it says it is paused, or None when it does not
    answer. ``closed_cleanly`` is None while it lives, True when it was seen to end by itself after a stop request, False when it crashed, was killed, or its
    end was not recorded. ``detail`` helps a person find it: pid, pod, container. ``reported_closed`` is True when it said itself that Kafka Streams was
    closed before it ended; else ``closed_cleanly`` rests on how the program ended. ``stopped_here`` is True if it is gone because this software asked its last
    run to end, False if the records say otherwise, None if the port keeps no such record. ``host`` is the address that the brokers see it at, empty when it
    does not tell: by this and by ``client_ids`` the members of the group are known to be its own. ``program_runs`` is False for one that may come at any moment
    and whose program does not run now: no member of the group is its own, but those that an earlier run has left at ``host``, an address that nothing else has.
    ``restarts`` is how often its manager has started the program again after an end that this software did not ask for; 0 if that is not counted. ``silent``
    is True for one that has no way to say how it is: what it does is read off the members of its group.
    """

    name: str
    state: InstanceState
    streams_state: str | None
    closed_cleanly: bool | None
    detail: str
    reported_closed: bool = False
    stopped_here: bool | None = None
    host: str = ""
    program_runs: bool = True
    restarts: int = 0
    silent: bool = False


def standing(
    name: str,
    state: InstanceState,
    detail: str,
    *,
    clean: bool | None = None,
    reported_closed: bool = False,
    stopped_here: bool | None = None,
    host: str = "",
    program_runs: bool = True,
) -> InstanceStatus:
    """An instance as it is seen from outside, without a word of its own."""
    return InstanceStatus(
        name=name,
        state=state,
        streams_state=None,
        closed_cleanly=clean,
        detail=detail,
        reported_closed=reported_closed,
        stopped_here=stopped_here,
        host=host,
        program_runs=program_runs,
    )


def require_gone(instances: Iterable[InstanceStatus]) -> None:
    """Raise ``ApplicationRunning`` for instances that are not gone: their state cannot be wiped."""
    running = [f"{one.name} ({one.detail})" for one in instances if one.state is not InstanceState.GONE]
    if running:
        raise ApplicationRunning(
            f"the state of instances that are not gone cannot be wiped: {', '.join(running)}", next_step="stop them", instances=running
        )


def closed_cleanly(instances: Iterable[InstanceStatus]) -> bool:
    """True when some instance is gone, and each that is was seen to close cleanly. Without any instance no end was seen."""
    gone = [instance.closed_cleanly is True for instance in instances if instance.state is InstanceState.GONE]
    return bool(gone) and all(gone)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReport:
    """All instances after a stop. The caller decides what an unclean close means."""

    instances: tuple[InstanceStatus, ...]

    @property
    def gone(self) -> bool:
        """True when every instance is proven gone."""
        return all(instance.state is InstanceState.GONE for instance in self.instances)

    @property
    def clean(self) -> bool:
        """True when every instance is gone and was seen to close cleanly. No instances at all is not clean: nothing was supervisored."""
        return self.gone and closed_cleanly(self.instances)


@dataclass(frozen=True, slots=True, kw_only=True)
class WipeMark:
    """One place of local state as a wipe left it. ``at`` is the moment (nanoseconds) by the clock of its own file system, 0 where it has none. ``known`` are
    ids of pods and volumes that were there and must not have state again, ``wiped`` ids of places that were emptied and stay.
    """

    place: str
    at: int = 0
    known: tuple[str, ...] = ()
    wiped: tuple[str, ...] = ()


class StaleState(Damaged):
    """Raised when an application has local state that is older than its wipe, beside changelogs that are new. ``facts`` have ``stale``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WipeReport:
    """Local state after a wipe: directories removed (empty when there were none), and the proof that none is left. By the ``marks`` a look after the next
    start tells what was made since.
    """

    removed: tuple[str, ...]
    remaining: tuple[str, ...]
    marks: tuple[WipeMark, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSince:
    """Local state after a start: places that were created after the wipe, older ones, and those of unknown age, each with the reason."""

    fresh: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()


class StreamsApplication(Protocol):
    """One application, all its instances. Every verb is idempotent. Raises ``TransientError`` or ``PermanentError`` of core.errors, nothing else.

    It does not decide: it never checks groups or locks, and it does what it is told. ``stop`` waits until every instance is gone or the
    time is up and kills what does not go; ``start`` returns when the instances have been launched, not when they are RUNNING.
    """

    @property
    def can_pause(self) -> bool:
        """True when it offers to be paused and to be resumed."""

    def status(self) -> tuple[InstanceStatus, ...]:
        """Every instance that is meant to exist, gone ones included."""

    def stop(self, *, timeout: float) -> StopReport:
        """End every instance, cleanly if it lets us."""

    def require_same_version(self) -> None:
        """Raise ``Refused`` if a stop and a start would bring another version than runs now. Asked before a stop that a start follows."""

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Launch every instance that is gone. ``environment`` is laid over the configured one (scratch id, topic map)."""

    def pause(self) -> None:
        """Hold processing on every instance. Raises ``Refused`` when the application offers no way to."""

    def resume(self) -> None:
        """Let every instance process again. Harmless when none is paused."""

    def wipe_state(self) -> WipeReport:
        """Remove ``{state.dir}/{application.id}`` whole, on every instance. Raises ``ApplicationRunning`` when one is not gone."""

    def state_since(self, marks: Sequence[WipeMark]) -> StateSince:
        """Local state as it is now, by what a wipe noted. Only what is seen to be younger than the wipe is ``fresh``; an instance that has made no state yet
        is ``unseen``.
        """

    def query(self, store: str) -> dict[str, object]:
        """Every key of a queryable store over all instances, as the application reports it. Keys that two instances claim are ``Damaged``, more than
        is read is ``AnswerTooLarge``.
        """

    def query_keys(self, questions: Sequence[KeyQuestion], *, seconds: float | None = None) -> tuple[KeyAnswer, ...]:
        """The answers of the running application for these keys. The owner of a key is asked, and only an instance of the application: ``ForeignOwner``
        for any other. Asked again while it rebalances, for up to ``seconds`` for all of them; None is the configured time. Raises ``NoKeyRoute``.
        """

    def topology(self) -> DescribedTopology | None:
        """What a running instance answers to ``GET /topology``; None where none does, or none that can be read."""

    def preflight(self, *, stops: bool, wipes: bool = False) -> tuple[PreflightFinding, ...]:
        """Whatever would keep these verbs from working, found before anything is done. ``stops``: it may be stopped, else only held and asked. ``wipes``:
        its local state is to be removed.
        """
