"""Pausing, resuming and asking all instances of an application over HTTP, however they are run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from streams_recovery.application import http_control
from streams_recovery.application.http_control import Reported, token_in
from streams_recovery.application.instance_record import InstanceFiles
from streams_recovery.application.port import ForeignOwner, InstanceState, InstanceStatus, NoKeyRoute
from streams_recovery.config.runs.process import Control
from streams_recovery.core.connection import require_encrypted
from streams_recovery.core.errors import ApplicationNotReady, ConfigInvalid, Damaged, Refused, TransientError
from streams_recovery.core.state.key_query import KeyAnswer, KeyQuestion, NamedOwner

if TYPE_CHECKING:
    from streams_recovery.core.rollout.described import DescribedTopology

_AT_ONCE = 16
_SETTLE_SECONDS = 5.0
_RETRY_SECONDS = 0.25
# A wrong application.server stays wrong.
_FOREIGN_SECONDS = 10.0

Statuses = Callable[[], tuple[InstanceStatus, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The HTTP side of an application. ``urls`` has one address an instance; ``statuses`` looks at all of them. An instance without an address does not
    answer.

    Raises ``ConfigInvalid`` for an address that the network could read and answer for, and when the token cannot be read.
    """

    urls: Mapping[str, str]
    control: Control
    statuses: Statuses

    def __post_init__(self) -> None:
        """Look at the addresses before anything is sent to one."""
        for url in self.urls.values():
            try:
                require_encrypted(url, allowed=self.control.allow_http, setting="control.allow_http")
            except ValueError as error:
                raise ConfigInvalid(str(error), next_step="correct the address, or the control section", url=url) from None

    def reports(self, names: Iterable[str]) -> dict[str, Reported]:
        """The reports of these instances, asked for at the same time: one that hangs costs its time-out once. Empty where there is no way to ask."""
        requested = list(names)
        if not requested or self.control.health is None:
            return {}
        token = token_in(self.control.token_file)
        with ThreadPoolExecutor(max_workers=min(len(requested), _AT_ONCE)) as pool:
            found = pool.map(lambda name: self._reported(name, token), requested)
            return dict(zip(requested, found, strict=True))

    def completed(self, looks: Mapping[str, InstanceStatus]) -> tuple[InstanceStatus, ...]:
        """These instances, with what those that are not gone report of themselves."""
        reported = self.reports(name for name, look in looks.items() if look.state is not InstanceState.GONE)
        silent = self.control.health is None
        return tuple(reported[name].on(look) if name in reported else replace(look, silent=silent) for name, look in looks.items())

    def pause(self) -> None:
        """Pause every instance and see that each says so. Instances that had been paused before a failure stay paused."""
        if self.control.pause is None:
            raise Refused("this application offers no way to pause", next_step="set control.pause, or use consistency mode stop")
        token = token_in(self.control.token_file)
        for name in self._alive():
            http_control.post(self._url(name), self.control.pause, token=token)
        await_all(self.statuses, "not paused", paused=True)

    def resume(self) -> None:
        """Let every running instance process again and see that none says it is paused."""
        if self.control.resume is None:
            await_all(self.statuses, "paused, and there is no way to resume", paused=False, seconds=0)
            return
        alive = [status.name for status in self.statuses() if status.state is not InstanceState.GONE]
        token = token_in(self.control.token_file)
        for name in alive:
            http_control.post(self._url(name), self.control.resume, token=token)
        await_all(self.statuses, "still paused", paused=False)

    def close(self, runs: Mapping[str, str], files: Mapping[str, InstanceFiles], *, seconds: float) -> None:
        """Put on record that these runs are asked to end. Where there is a way to, let each close Kafka Streams first, all at the same time, for up to
        ``seconds``, and put on record whether it said that it was done.
        """
        reports = self.reports(runs)
        for name, run in runs.items():
            # False until an answer has come: this process may be killed before.
            files[name].ask_to_stop(run, _state(reports, name), reported_closed=None if self.control.close is None else False)
        for name, reported_closed in self.closed(runs, seconds=seconds).items():
            files[name].ask_to_stop(runs[name], _state(reports, name), reported_closed=reported_closed)

    def closed(self, names: Iterable[str], *, seconds: float) -> dict[str, bool]:
        """True for each of these instances that says that it has closed Kafka Streams, asked all at the same time. Empty where there is no way to ask."""
        requested, path = [name for name in names if name in self.urls], self.control.close
        if path is None or not requested:
            return {}
        token = token_in(self.control.token_file)
        with ThreadPoolExecutor(max_workers=len(requested)) as pool:
            answers = pool.map(lambda name: http_control.close(self.urls[name], path, seconds=seconds, token=token), requested)
            return dict(zip(requested, answers, strict=True))

    def query(self, store: str, *, seconds: float) -> dict[str, object]:
        """Every key over all running instances. While the application rebalances, asked again for up to ``seconds``."""
        template = self.control.query
        if template is None:
            raise NoKeyRoute("this application offers no queries", next_step="set control.query in the configuration", store=store)
        deadline = time.monotonic() + seconds
        while True:
            try:
                return self._merged(template, store)
            except (TransientError, _Overlap):
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_RETRY_SECONDS)

    def query_keys(self, questions: Sequence[KeyQuestion], *, seconds: float) -> tuple[KeyAnswer, ...]:
        """The answers of the running instances for these keys, each from the key's owner. While the application rebalances, asked again for up to
        ``seconds`` for all. An owner that is no instance may be one that has just left: then it is asked again for some seconds.
        """
        deadline = time.monotonic() + seconds
        requested: list[str] | None = None
        foreign: float | None = None
        found: list[KeyAnswer] = []
        while len(found) < len(questions):
            try:
                requested = self._alive() if requested is None else requested
                found.append(self._of_key(questions[len(found)], requested))
            except (TransientError, ForeignOwner) as error:
                until = deadline
                if isinstance(error, ForeignOwner):
                    foreign = time.monotonic() if foreign is None else foreign
                    until = min(deadline, foreign + _FOREIGN_SECONDS)
                if time.monotonic() >= until:
                    raise
                time.sleep(_RETRY_SECONDS)
                requested = None
        return tuple(found)

    def _of_key(self, question: KeyQuestion, requested: Sequence[str]) -> KeyAnswer:
        """One hop: the first instance names the owner, and the owner answers. If no instance names it, or the owner has no such key, each is asked: a key is
        absent only when all of them say so.
        """
        template, token = self.control.query_key, token_in(self.control.token_file)
        if template is None:
            raise NoKeyRoute("this application offers no queries by key", next_step="set control.query_key in the configuration")
        owner = self._owner(question, requested, token)
        order = requested if owner is None else [owner, *(name for name in requested if name != owner)]
        absent = None
        for name in order:
            answer = http_control.key(self._url(name), template, question, instance=name, token=token)
            if answer is not None and answer.found:
                return answer
            # A producer may choose partitions in a way of its own: then the owner by Kafka's partitioner does not have the key, and another one does.
            absent = absent or answer
        if absent is not None:
            return absent
        raise ApplicationNotReady(
            f"no instance has the partition of this key of store {question.store} at this moment",
            next_step="ask again when the application has rebalanced",
            store=question.store,
        )

    def _owner(self, question: KeyQuestion, requested: Sequence[str], token: str | None) -> str | None:
        """The instance that has a key, by the first that answers; None when it does not tell."""
        if self.control.owner is None:
            return None
        silent: ApplicationNotReady | None = None
        for name in requested:
            try:
                named = http_control.owner(self._url(name), self.control.owner, question, token=token)
            except ApplicationNotReady as error:
                silent = error
                continue
            return None if named is None else self._known(named, name)
        raise silent or ApplicationNotReady("no instance was asked", next_step="ask again")

    def _known(self, named: NamedOwner, by: str) -> str:
        owner = named.among(self.urls)
        if owner is None:
            raise ForeignOwner(
                f"{by} says that {named.host[:100]}:{named.port} has the key, which is not the address of one instance of this application; "
                "nothing was sent there",
                next_step="set application.server of each instance to the host and port at which it is asked here, or control.owner: null",
                host=named.host,
                port=named.port,
            )
        return owner

    def _merged(self, template: str, store: str) -> dict[str, object]:
        requested, token = self._alive(), token_in(self.control.token_file)
        merged: dict[str, object] = {}
        for name in requested:
            found = http_control.store(self._url(name), template, store, token=token)
            # Two answers that agree are no contradiction: a global store is whole on every instance.
            differing = [key for key, value in found.items() if key in merged and merged[key] != value]
            if differing:
                raise _Overlap(
                    f"{name} and another instance hold {len(differing)} keys of store {store} with different values: {differing[0][:100]!r}",
                    next_step="if this stays after the rebalance, the local state of one of them is stale: stop that one, wipe its local "
                    "state and start it, and it reads its changelogs "
                    "again; where a topic of the state is missing do not, and restore instead",
                    store=store,
                    keys=tuple(differing[:10]),
                )
            merged.update(found)
        if self._alive() != requested:
            raise ApplicationNotReady("instances came or went while they were asked", next_step="ask again", store=store)
        return merged

    def topology(self) -> DescribedTopology | None:
        """The description that the first running instance has which offers one. Without a way to ask an instance, none is asked."""
        alive = {one.name for one in self.statuses() if one.state is not InstanceState.GONE} if self.urls else set()
        token = token_in(self.control.token_file) if alive else None
        for url in (url for name, url in sorted(self.urls.items()) if name in alive):
            found = http_control.topology(url, token=token)
            if found is not None:
                return found
        return None

    def _reported(self, name: str, token: str | None) -> Reported:
        url, path = self.urls.get(name), self.control.health
        return Reported(state=None) if url is None or path is None else http_control.reported(url, path, token=token)

    def _url(self, name: str) -> str:
        if name not in self.urls:
            raise ApplicationNotReady(f"{name} has no address yet", next_step="wait until it was started", instance=name)
        return self.urls[name]

    def _alive(self) -> list[str]:
        alive = [status.name for status in self.statuses() if status.state is not InstanceState.GONE]
        if not alive:
            raise ApplicationNotReady("no instance is running", next_step="start the application")
        return alive


def _state(reports: Mapping[str, Reported], name: str) -> str | None:
    return reports[name].state if name in reports else None


def await_all(statuses: Statuses, what: str, *, paused: bool, seconds: float = _SETTLE_SECONDS) -> None:
    """Wait until every instance is paused, or none is. Raises ``ApplicationNotReady`` with the others when the time is up; ``what`` is the problem with
    them.
    """
    deadline = time.monotonic() + seconds
    while True:
        others = [status for status in statuses() if (status.streams_state == "PAUSED") is not paused]
        if not others:
            return
        if time.monotonic() >= deadline:
            named = ", ".join(f"{status.name} ({status.state}, {status.streams_state or 'no answer'})" for status in others)
            raise ApplicationNotReady(f"{what}: {named}", next_step="look at the logs of these instances", instances=named)
        time.sleep(_RETRY_SECONDS)


class _Overlap(Damaged):
    """Raised when two instances contradict each other; during a rebalance that passes."""
