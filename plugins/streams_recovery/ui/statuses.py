"""Caches for requests: the stored status of each application, its savepoints, and the configurations.

A status is read in a thread and kept for some seconds. A request waits for a moment only, and then gets the status that was read last. A reading that takes
longer than the limit is a repository that does not answer: then the reason is given too. One reading of an application's status is under way at a time, and
few of its savepoints. Each application has threads of its own for that. A repository that hangs holds these only, and no request.

Configurations are read again when a file has changed: a request must not parse fifty files.
"""

from __future__ import annotations

import concurrent.futures
import os
import re
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from streams_recovery.config.loader import Configurations, load_all
from streams_recovery.core.errors import ConfigInvalid, Damaged, Forged, NotFound, RepositoryUnavailable
from streams_recovery.core.escaping import logger
from streams_recovery.core.outputs.comparison import OutputsReport
from streams_recovery.core.project_files import config_directory
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.sites import SiteEntry
from streams_recovery.core.state.inspection import Inspection
from streams_recovery.core.status.look import UnderWay
from streams_recovery.core.status.report import StatusReport
from streams_recovery.core.status.savepoint_detail import SavepointDetail
from streams_recovery.operations.rollout import values
from streams_recovery.operations.state import inspect
from streams_recovery.operations.status import read
from streams_recovery.operations.status.read import StoredStatus, under_way
from streams_recovery.storage.repository import Repository

LOGGER = logger("streams_recovery.ui")

# Savepoints of one application that are read at once.
AT_ONCE: Final = 2
# Savepoints of all applications that are kept.
_KEPT: Final = 64
# Of one application: its status, what people looked up, its outputs that were compared, and savepoints. None of these waits for another.
_READERS: Final = 3 + AT_ONCE
NOTHING: Final = Configurations(applications={}, broken={})
# What looks like the absolute path of a file: by itself, as a file: address, or behind the name of a machine or a volume. Other addresses, and the keys of a
# repository, do not match: other characters stand before their slash.
_PATH: Final = re.compile(r"(?:\bfile:(?://[^\s/:'\"]*)?|(?<=\w:)(?!//)|(?<![\w:/.]))(?P<directory>/(?:[^\s/:'\"]+/)+)(?=[^\s/:'\"]*)")
# Every machine has these: they tell nothing of this one, and may be what a sentence is about.
_EVERYWHERE: Final = ("/var/tmp/", "/tmp/", "/dev/shm/", "/run/")  # noqa: S108

T = TypeVar("T")
# The names of an application and of a savepoint.
Key = tuple[str, str]
Found = SavepointDetail | None
Place = tuple[Repository, Layout]
Stamp = tuple[tuple[str, int, int], ...]


class Details:
    """Savepoints with their topics. Each is read once at a time and kept. ``read`` gets the name of the application and the id of the savepoint, in a thread of
    the application's ``readers``.
    """

    def __init__(self, read: Callable[[str, str], Found], readers: Callable[[str], Executor]) -> None:
        self._read, self._readers = read, readers
        self._changed = threading.Condition()
        self._known: OrderedDict[Key, SavepointDetail] = OrderedDict()
        self._under_way: dict[Key, Future[Found]] = {}

    def of(self, name: str, savepoint_id: str, *, limit_seconds: float) -> Found:
        """The savepoint, None when nothing was written of it. Raises what reading raises, and ``TimeoutError`` when it is not there within the limit."""
        key, until = (name, savepoint_id), time.monotonic() + limit_seconds
        with self._changed:
            if not self._changed.wait_for(lambda: key in self._known or key in self._under_way or self._free(name), limit_seconds):
                raise TimeoutError
            if key in self._known:
                return self._known[key]
            future = self._under_way.get(key) or self._begun(key)
        return future.result(timeout=max(0.0, until - time.monotonic()))

    def _free(self, name: str) -> bool:
        return Counter(application for application, _ in self._under_way)[name] < AT_ONCE

    def _begun(self, key: Key) -> Future[Found]:
        self._under_way[key] = future = self._readers(key[0]).submit(self._read_and_kept, key)
        return future

    def _read_and_kept(self, key: Key) -> Found:
        found: Found = None
        try:
            found = self._read(*key)
        finally:
            self._end(key, found)
        return found

    def _end(self, key: Key, found: Found) -> None:
        with self._changed:
            if found is not None:
                self._known[key] = found
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
            del self._under_way[key]
            self._changed.notify_all()


@dataclass(frozen=True, slots=True)
class KnownStatus:
    """Knowledge of an application. ``problem`` says why the newest reading failed, None when it did not. ``report`` is None while none is known;
    ``asked`` is false before the first reading is over. ``under_way`` is the run that works on the application, None when none does or it could not be read.
    ``sealed`` is true if what was read is believed by its seal. ``site`` is the entry that says at which site it is, None if it was never moved.
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
    """Statuses of all applications. ``open_place`` gives the repository of an application, and may raise what opening one raises. ``site_in`` reads there at
    which site it is.
    """

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
        """The statuses of these, after a moment; a ``patient`` call waits up to the limit."""
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
        return self._newest(name, "inspections", inspect.newest, seconds=self._limit, late=self._unanswered)

    def outputs(self, name: str) -> tuple[OutputsReport, ...] | str:
        """The newest comparisons of outputs, or the sentence that says why they are not here. The screen of an application waits for a moment only, and gets
        what was read last when that is over.
        """
        late = "The comparisons are still being read: load this page again."
        return self._newest(name, "outputs", values.newest, seconds=self._wait, late=late, older=True)

    def _newest(
        self, name: str, what: str, look: Callable[[Repository, Layout], tuple[T, ...]], *, seconds: float, late: str, older: bool = False
    ) -> tuple[T, ...] | str:
        """The result of a look within ``seconds``; else ``late``, or the result of the look before if that may be ``older``."""
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


class ConfigurationCache:
    """``load_all`` of the directory, as of its newest change."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stamp: tuple[Path, Stamp] | None = None
        self._loaded = NOTHING

    def get(self) -> Configurations:
        """All configurations. Without a directory there are none."""
        directory = config_directory()
        with self._lock:
            stamp = directory, _stamp(directory)
            if stamp != self._stamp:
                self._loaded, self._stamp = _loaded(directory), stamp
            return self._loaded


def _stamp(directory: Path) -> Stamp:
    try:
        with os.scandir(directory) as entries:
            return tuple(sorted((entry.name, entry.stat().st_mtime_ns, entry.stat().st_size) for entry in entries if entry.is_file()))
    except OSError:
        return ()


def _loaded(directory: Path) -> Configurations:
    try:
        return load_all(directory, os.environ)
    except ConfigInvalid:
        return NOTHING


def without_paths(text: str) -> str:
    """The text without the directories of this machine. The file's name stays, with a mark where something was cut, and so does a place for temporary
    files.
    """
    return _PATH.sub(_cut, text)


def _cut(found: re.Match[str]) -> str:
    directory = found["directory"]
    kept = next((place for place in _EVERYWHERE if directory.startswith(place)), "")
    return kept if kept == directory else f"{kept}…/"
