"""Savepoints with their topics, for requests: each is read once at a time and kept, and few of an application are read at once. A repository that hangs
holds these few threads, and none that reads another application.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Final

from streams_recovery.core.status.savepoint_detail import SavepointDetail

# Of one application.
AT_ONCE: Final = 2
_KEPT: Final = 64

Key = tuple[str, str]
Found = SavepointDetail | None


class Details:
    """See above. ``read`` gets the name of the application and the id of the savepoint, in a thread of the application's ``readers``."""

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
