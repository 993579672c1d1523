"""Removing the local state of an application: ``{state.dir}/{application.id}``, whole.

Kafka Streams accepts stale state beside a new changelog without an error, so nothing of it may stay, and nothing else may go.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from streams_recovery.application.port import WipeReport
from streams_recovery.core.durable import sync_directory
from streams_recovery.core.errors import ConfigInvalid, Refused
from streams_recovery.core.escaping import logger
from streams_recovery.core.names import checked_name

_log = logger(__name__)
# "/" and its direct children are nobody's state directory.
_LEAST_PARTS = 3


def wipe(state_directories: Iterable[Path], application_id: str) -> WipeReport:
    """Remove the application's directory in each state directory. Everything is checked before anything is removed; what could not be
    removed is in ``remaining``. Raises ``ConfigInvalid`` for a state directory that cannot be one, ``Refused`` for a symbolic link or a file.
    """
    directories = [_checked(Path(state), application_id) for state in dict.fromkeys(state_directories)]
    removed = [directory for directory in directories if _removed(directory)]
    remaining = [directory for directory in directories if directory.exists() or directory.is_symlink()]
    return WipeReport(removed=tuple(map(str, removed)), remaining=tuple(map(str, remaining)))


def _checked(state: Path, application_id: str) -> Path:
    checked_name("application id", application_id)
    if not state.is_absolute() or ".." in state.parts or len(state.parts) < _LEAST_PARTS or state == Path.home():
        raise ConfigInvalid(
            f"{state} cannot be a state directory", next_step="give every instance an absolute directory of its own", path=str(state)
        )
    directory = state / application_id
    for path in (state, directory):
        if path.is_symlink():
            raise Refused(
                f"{path} is a symbolic link; it was not followed",
                next_step="configure the directory it points to, or remove the link by hand",
                path=str(path),
            )
    if directory.exists() and not directory.is_dir():
        raise Refused(f"{directory} is not a directory", next_step="look what it is; local state is a directory", path=str(directory))
    return directory


def _removed(directory: Path) -> bool:
    if not directory.exists():
        return False
    try:
        shutil.rmtree(directory)
        # Or a power cut brings back stale state, which the restore has on record as gone.
        sync_directory(directory.parent)
    except OSError as error:
        # Reported by what remains: a wipe that fails half-way has removed something all the same.
        _log.warning("local state in %s could not be removed whole: %s", directory, error)
    return not directory.exists()
