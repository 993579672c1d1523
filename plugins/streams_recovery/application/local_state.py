"""Removing the local state of an application, whole: ``{state.dir}/{application.id}`` of Kafka Streams, ``{datadir}/v1/tables`` of Faust.

Both accept stale state beside a new changelog without an error, so nothing of it may stay, and nothing else may go.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from streams_recovery.application.port import WipeReport
from streams_recovery.core.application_kind import ApplicationKind, StateDirectory
from streams_recovery.core.durable import sync_directory
from streams_recovery.core.errors import ConfigInvalid, Refused
from streams_recovery.core.escaping import logger
from streams_recovery.core.names import checked_name

_log = logger(__name__)
# "/" and its direct children are nobody's state directory.
_LEAST_PARTS = 3
_NAMED = 5


def wipe(state_directories: Iterable[Path], application_id: str, kind: ApplicationKind = ApplicationKind.KAFKA_STREAMS) -> WipeReport:
    """Remove the application's directory in each state directory. Everything is checked before anything is removed; what could not be
    removed is in ``remaining``. Raises ``ConfigInvalid`` for a state directory that cannot be one, ``Refused`` for a symbolic link or a file, and for what may
    not be state of this application.
    """
    directories = checked(state_directories, application_id, kind)
    removed = [directory for directory in directories if _removed(directory)]
    remaining = [directory for directory in directories if directory.exists() or directory.is_symlink()]
    return WipeReport(removed=tuple(map(str, removed)), remaining=tuple(map(str, remaining)))


def checked(state_directories: Iterable[Path], application_id: str, kind: ApplicationKind) -> list[Path]:
    """What would be removed, whether it is there or not. Changes nothing; raises what ``wipe`` does."""
    checked_name("application id", application_id)
    return [_checked(Path(state), application_id, kind) for state in dict.fromkeys(state_directories)]


def _checked(state: Path, application_id: str, kind: ApplicationKind) -> Path:
    if not state.is_absolute() or ".." in state.parts or len(state.parts) < _LEAST_PARTS or state == Path.home():
        raise ConfigInvalid(
            f"{state} cannot be a state directory", next_step="give every instance an absolute directory of its own", path=str(state)
        )
    layout = kind.dialect.state_directory(application_id)
    directory = state.joinpath(*layout.parts)
    for path in (state, *(state.joinpath(*layout.parts[: count + 1]) for count in range(len(layout.parts)))):
        if path.is_symlink():
            raise Refused(
                f"{path} is a symbolic link; it was not followed",
                next_step="configure the directory it points to, or remove the link by hand",
                path=str(path),
            )
    if directory.exists() and not directory.is_dir():
        raise Refused(f"{directory} is not a directory", next_step="look what it is; local state is a directory", path=str(directory))
    _refuse_other_state(state, directory, application_id, layout)
    return directory


def _refuse_other_state(state: Path, directory: Path, application_id: str, layout: StateDirectory) -> None:
    other = state.joinpath(*layout.beside)
    if layout.beside and other.is_dir():
        raise Refused(
            f"{other} may be state of {application_id} or of another application: its id ends like that of a version, and nobody can tell whether it is one",
            next_step=f"nothing was removed; move {other} away, whole: Faust makes it again from its changelogs",
            path=str(other),
        )
    if layout.children is None or not directory.is_dir():
        return
    strange = sorted(child.name for child in directory.iterdir() if layout.children.fullmatch(child.name) is None or child.is_symlink())
    if strange:
        raise Refused(
            f"{directory} has what is no state of {application_id}: {', '.join(strange[:_NAMED])}",
            next_step="nothing was removed; move that away, or configure the directory that the application really has its tables in",
            path=str(directory),
            strange=strange,
        )


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
