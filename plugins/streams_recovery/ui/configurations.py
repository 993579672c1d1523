"""The configured applications, read again when a file has changed: a request must not parse fifty files."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from typing import Final

from streams_recovery.config.directory import config_directory
from streams_recovery.config.loader import Configurations, load_all
from streams_recovery.core.errors import ConfigInvalid

NOTHING: Final = Configurations(applications={}, broken={})
# What looks like the absolute path of a file: by itself, as a file: address, or behind the name of a machine or a volume. Other addresses, and the keys
# of a repository, are none: something else stands before their slash.
_PATH: Final = re.compile(r"(?:\bfile:(?://[^\s/:'\"]*)?|(?<=\w:)(?!//)|(?<![\w:/.]))(?P<directory>/(?:[^\s/:'\"]+/)+)(?=[^\s/:'\"]*)")
# Every machine has these: they tell nothing of this one, and may be what a sentence is about.
_EVERYWHERE: Final = ("/var/tmp/", "/tmp/", "/dev/shm/", "/run/")  # noqa: S108

Stamp = tuple[tuple[str, int, int], ...]


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
