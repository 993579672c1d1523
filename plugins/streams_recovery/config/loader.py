"""Finding and loading the configured applications: configuration files in, checked models out.

It runs whenever a DAG file is parsed, so it reads local files only and imports nothing heavy.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from streams_recovery.config import reading
from streams_recovery.config.contradictions import contradictions
from streams_recovery.config.fields import MAX_NAME
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.monitor import Notify
from streams_recovery.config.reading import problems
from streams_recovery.config.sandbox_application import SandboxName, in_sandbox
from streams_recovery.config.schedules import resolved
from streams_recovery.core.errors import ConfigInvalid, NotFound
from streams_recovery.core.escaping import visible
from streams_recovery.core.project_files import config_directory

_SUFFIXES = (".yaml", ".yml")
_NOTIFIERS = TypeAdapter(tuple[Notify, ...])
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Configurations:
    """The configured applications by name, and what is wrong with each of those that cannot be used."""

    applications: dict[str, ApplicationConfig]
    broken: dict[str, ConfigInvalid]


def load(path: Path, environment: Mapping[str, str]) -> ApplicationConfig:
    """The application that ``path`` describes, with ``${VARIABLES}`` from ``environment``. Raises ``ConfigInvalid`` with file and lines."""
    document = _document(path, environment)
    if document.data.setdefault("name", path.stem) != path.stem:
        reason = f"name is {document.data['name']!r:.80}, but the file is called {path.name}"
        raise _invalid(path, [(document.line(("name",)), reason)], "give both the same name, or leave the key out")
    try:
        return resolved(ApplicationConfig.model_validate(document.data, context={"directory": path.parent.resolve()}))
    except ValidationError as error:
        found = problems(error.errors(include_url=False, include_context=False, include_input=False), document)
        # The cause is left out: its text repeats the values, and a value may be a secret in the wrong place.
        raise _invalid(path, found, "correct the file; docs/configuration.md explains every key") from None


def load_all(directory: Path, environment: Mapping[str, str]) -> Configurations:
    """Everything configured in ``directory``. A file that cannot be used breaks its own application, files that contradict each other break theirs;
    all others load. Raises ``ConfigInvalid`` when there is no such directory.
    """
    files = _files(directory)
    loaded = {name: _tried(name, paths, environment) for name, paths in files.items()}
    valid = {name: config for name, config in loaded.items() if isinstance(config, ApplicationConfig)}
    broken = {name: error for name, error in loaded.items() if isinstance(error, ConfigInvalid)}
    broken |= contradictions(valid, configured=files)
    return Configurations(
        applications={name: config for name, config in valid.items() if name not in broken},
        broken=dict(sorted(broken.items())),
    )


def _tried(name: str, paths: Sequence[Path], environment: Mapping[str, str]) -> ApplicationConfig | ConfigInvalid:
    try:
        return load(_only(name, paths), environment)
    except ConfigInvalid as error:
        return error
    except Exception as error:  # noqa: BLE001 - whatever is in one file, the applications in the others can still be rescued
        return ConfigInvalid(
            f"{paths[0]} cannot be read: {type(error).__name__}",
            next_step="remove what is unusual in this file, and report it: it should have been refused with its line",
            file=str(paths[0]),
        )


def load_named(name: str, directory: Path, environment: Mapping[str, str]) -> ApplicationConfig:
    """The application called ``name``, or with ``:drill`` behind its name what its drills restore into, or with ``:reprocess:<interval>:<slot>`` what
    processes an interval again. Other files are not read, so a mistake in one does not stand in the way of rescuing another.

    Raises ``NotFound`` with the names there are, and ``ConfigInvalid``.
    """
    sandbox = SandboxName.of(name)
    if sandbox is not None:
        return in_sandbox(load_named(sandbox.application, directory, environment), sandbox)
    files = _files(directory)
    if name not in files:
        known = ", ".join(sorted(files)) or "none"
        raise NotFound(
            f"no application {name[:60]!r} is configured in {directory}; known: {known}",
            next_step=f"choose a known one, or write {directory}/<name>.yaml",
            known=sorted(files),
        )
    return load(_only(name, files[name]), environment)


def _files(directory: Path) -> dict[str, tuple[Path, ...]]:
    """The files of each name: one, or several by mistake."""
    if not directory.is_dir():
        raise ConfigInvalid(
            f"the configuration directory {directory} does not exist", next_step="create it or name another one", directory=str(directory)
        )
    found: dict[str, tuple[Path, ...]] = {}
    for path in sorted(directory.iterdir()):
        if path.suffix.lower() in _SUFFIXES and not path.name.startswith("."):
            found[path.stem] = (*found.get(path.stem, ()), path)
    return found


def _document(path: Path, environment: Mapping[str, str]) -> reading.Document:
    try:
        content = _content(path)
    except OSError as error:
        raise ConfigInvalid(
            f"{path} cannot be read: {error.strerror}", next_step="check the file name and that this user may read it", file=str(path)
        ) from error
    try:
        return reading.read(content, environment)
    except reading.YamlError as error:
        raise _invalid(path, [(error.line, error.reason)], error.hint) from error


def _content(path: Path) -> bytes:
    """The beginning of a file, with one byte more than may be read. Raises ``OSError``."""
    # A pipe would let everybody wait who reads the directory.
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "it is no regular file")
    with path.open("rb") as file:
        return file.read(reading.MAX_BYTES + 1)


def _only(name: str, paths: Sequence[Path]) -> Path:
    if len(paths) > 1:
        raise ConfigInvalid(
            f"{name} is configured twice, as {' and as '.join(path.suffix for path in paths)}, in {paths[0].parent}",
            next_step="keep one of these files",
        )
    return paths[0]


def _invalid(path: Path, found: Sequence[tuple[int | None, str]], next_step: str) -> ConfigInvalid:
    lines = [visible(f"{path}:{line}: {reason}" if line else f"{path}: {reason}") for line, reason in found]
    return ConfigInvalid("\n".join(lines), next_step=next_step, file=str(path), lines=[line for line, _ in found])


def load_application(name: str) -> ApplicationConfig:
    """The application called ``name``. Raises ``NotFound`` and ``ConfigInvalid``."""
    return load_named(name, config_directory(), os.environ)


def configurations() -> Configurations:
    """Everything configured, also configurations that cannot be used. Raises ``ConfigInvalid`` without a directory of configurations."""
    return load_all(config_directory(), os.environ)


def load_applications() -> dict[str, ApplicationConfig]:
    """Every application whose configuration can be used. Raises as ``configurations``."""
    return configurations().applications


def broken_notifiers(name: str) -> tuple[Notify, ...]:
    """``monitor.notify`` of a configuration that cannot be used as a whole; empty if this section cannot be read either."""
    try:
        monitor = _document(_only(name, _files(config_directory())[name]), os.environ).data["monitor"]
        return _NOTIFIERS.validate_python(monitor["notify"])
    except (ConfigInvalid, ValidationError, LookupError, TypeError):
        return ()


def id_of(name: str) -> str:
    """A file's stem as it can stand in an id or a tag of Airflow: a file that is not well named has to be shown too."""
    plain = _NOT_IN_IDS.sub("_", name)[:MAX_NAME]
    # Two names must not become one.
    return plain if plain == name else f"{plain[: MAX_NAME - 9]}-{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:8]}"
