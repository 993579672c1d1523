"""The stored status of each application, for requests: read in threads and kept for some seconds. A request waits for a moment only, and gets what was
read last when that is over.

A reading that takes longer than the limit is a repository that does not answer: then the reason is given too. One reading of an application's status is
under way at a time, and few of its savepoints (``details.py``). Each application has threads of its own for that: a repository that hangs holds these, no
request, and none that reads another application.
"""

from __future__ import annotations

import concurrent.futures
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from streams_recovery.core.errors import ConfigInvalid, Damaged, Forged, NotFound, RepositoryUnavailable
from streams_recovery.core.escaping import logger
from streams_recovery.core.outputs.comparison import OutputsReport
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.sites import SiteEntry
from streams_recovery.core.state.inspection import Inspection
from streams_recovery.core.status.report import StatusReport
from streams_recovery.core.status.savepoint_detail import SavepointDetail
from streams_recovery.core.status.under_way import UnderWay
from streams_recovery.operations.rollout import compared
from streams_recovery.operations.state import inspections
from streams_recovery.operations.status import read
from streams_recovery.operations.status.read import StoredStatus
from streams_recovery.operations.status.under_way import under_way
from streams_recovery.storage.repository import Repository
from streams_recovery.ui.details import AT_ONCE, Details

LOGGER = logger("streams_recovery.ui")

# Of one application: its status, what people looked up, its outputs that were compared, and savepoints. None of these waits for another.
_READERS: Final = 3 + AT_ONCE
T = TypeVar("T")

Place = tuple[Repository, Layout]


@dataclass(frozen=True, slots=True)
class KnownStatus:
    """What is known of an application. ``problem`` says why the newest reading failed, None when it did not. ``report`` is None while none is known;
    ``asked`` is false before the first reading is over. ``under_way`` is the run that works on the application, None when none does or it could not be read.
    ``sealed`` is true where what was read is believed by its seal. ``site`` is the entry that says at which site it is, None where it was never moved.
    """

    stored: StoredStatus | None = None
    problem: str | None = None
    asked: bool = False
    under_way: UnderWay | None = None
    sealed: bool = False
    site: SiteEntry | None = None

    @property
    def report(self) -> StatusReport | None:
        return None if self.stored is None else self.stored.report


class Statuses:
    """See above. ``open_place`` gives the repository of an application, and may raise what opening one raises. ``site_in`` reads there at which site it is."""

    def __init__(
        self,
        open_place: Callable[[str], Place],
        *,
        site_in: Callable[[str, Repository], SiteEntry | None] = lambda _name, _repository: None,
        fresh_seconds: float = 5.0,
        wait_seconds: float,
        limit_seconds: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open_place, self._site_in = open_place, site_in
        self._fresh, self._wait, self._limit, self._clock = fresh_seconds, wait_seconds, limit_seconds, clock
        self._lock = threading.Lock()
        self._readers: dict[str, ThreadPoolExecutor] = {}
        self._known: dict[str, KnownStatus] = {}
        self._read_at: dict[str, float] = {}
        self._under_way: dict[str, tuple[Future[None], float]] = {}
        self._lists: dict[tuple[str, str], Future[tuple[Any, ...]]] = {}
        self._details = Details(self._detail, self._readers_of)

    def of(self, names: Iterable[str], *, patient: bool = False) -> dict[str, KnownStatus]:
        """What is known of these, after a moment; after the limit at the latest for whoever is ``patient``."""
        wanted = list(names)
        futures = [future for name in wanted if (future := self._reading(name)) is not None]
        concurrent.futures.wait(futures, timeout=self._limit if patient else self._wait)
        with self._lock:
            for name in wanted:
                if name in self._under_way and self._clock() - self._under_way[name][1] >= self._limit:
                    known = self._known.get(name, KnownStatus())
                    self._known[name] = replace(known, problem=self._unanswered, asked=True)
            return {name: self._known.get(name, KnownStatus()) for name in wanted}

    def detail(self, name: str, savepoint_id: str) -> SavepointDetail | str | None:
        """A savepoint with its topics, None when nothing was written of it, or the sentence that says why it cannot be read."""
        try:
            return self._details.of(name, savepoint_id, limit_seconds=self._limit)
        except TimeoutError:
            return self._unanswered
        except Exception as error:  # noqa: BLE001 - a page is shown whatever the repository raises
            return _problem(name, error)

    def inspections(self, name: str) -> tuple[Inspection, ...] | str:
        """The newest that people had compared and looked up, or the sentence that says why they cannot be read. They are read once at a time."""
        return self._newest(name, "inspections", inspections.newest, seconds=self._limit, late=self._unanswered)

    def outputs(self, name: str) -> tuple[OutputsReport, ...] | str:
        """The newest comparisons of outputs, or the sentence that says why they are not here. The screen of an application waits for a moment only, and gets
        what was read last when that is over.
        """
        late = "The comparisons are still being read: load this page again."
        return self._newest(name, "outputs", compared.newest, seconds=self._wait, late=late, older=True)

    def _newest(
        self, name: str, what: str, look: Callable[[Repository, Layout], tuple[T, ...]], *, seconds: float, late: str, older: bool = False
    ) -> tuple[T, ...] | str:
        """What a look finds within ``seconds``; else ``late``, or what the look before has found if that may be ``older``."""
        with self._lock:
            before = future = self._lists.get((name, what))
            if future is None or future.done():
                future = self._lists[name, what] = self._readers_of(name).submit(lambda: look(*self._open_place(name)))
        try:
            try:
                return future.result(timeout=seconds)
            except TimeoutError:
                return before.result() if older and before is not None and before.done() else late
        except Exception as error:  # noqa: BLE001 - as above
            return _problem(name, error)

    def _readers_of(self, name: str) -> Executor:
        made = self._readers.get(name) or ThreadPoolExecutor(_READERS, thread_name_prefix=f"streams-recovery-page-{name}")
        # Two requests may be the first ones at once.
        return self._readers.setdefault(name, made)

    def _reading(self, name: str) -> Future[None] | None:
        with self._lock:
            if (under_way := self._under_way.get(name)) is not None:
                return under_way[0]
            if name in self._read_at and self._clock() - self._read_at[name] < self._fresh:
                return None
            future = self._readers_of(name).submit(self._read, name)
            self._under_way[name] = future, self._clock()
            return future

    def _read(self, name: str) -> None:
        before = self._known.get(name, KnownStatus())
        try:
            repository, layout = self._open_place(name)
            stored = read.newest(repository, layout, before.stored)
            at = time.time_ns() // 1_000_000
            after = KnownStatus(
                stored,
                None,
                asked=True,
                under_way=under_way(repository, layout, now=at),
                sealed=repository.seals is not None,
                site=self._site_in(name, repository),
            )
        except Exception as error:  # noqa: BLE001 - as above
            after = replace(before, problem=_problem(name, error), asked=True, under_way=None)
        with self._lock:
            self._known[name] = after
            self._read_at[name] = self._clock()
            self._under_way.pop(name, None)

    def _detail(self, name: str, savepoint_id: str) -> SavepointDetail | None:
        return read.detail(*self._open_place(name), savepoint_id)

    @property
    def _unanswered(self) -> str:
        return f"The repository has not answered within {self._limit:g} s."


def _problem(name: str, error: Exception) -> str:
    """A sentence for people without paths of the server; the log has the error itself."""
    LOGGER.warning("The status of %s could not be read: %s", name, error)
    if isinstance(error, NotFound) and "connection" in error.facts:
        return f"The Airflow connection {error.facts['connection']} does not exist."
    if isinstance(error, RepositoryUnavailable):
        return "The repository does not answer."
    if isinstance(error, Forged):
        return (
            f"{error.facts.get('key')} is not used: {error.facts.get('why')}. If storage.seal was set a short while ago, the next look of "
            "streams_monitor mends this. Else find out who can write to the repository: `streams-recovery verify` names what is forged."
        )
    if isinstance(error, Damaged):
        return "What is stored cannot be read: it is damaged. `streams-recovery verify` says which objects are."
    if isinstance(error, ConfigInvalid):
        return "The repository cannot be opened: its address or its credentials are wrong. The log of the API server says which."
    return "The status could not be read. The log of the API server says why."
