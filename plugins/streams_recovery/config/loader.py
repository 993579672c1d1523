"""Configuration files in, checked models out. Runs whenever a DAG file is parsed, so it reads local files only and imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from streams_recovery.config import yaml_reader
from streams_recovery.config.drill import clash
from streams_recovery.config.drilling import DRILL, drilled
from streams_recovery.config.explain import problems
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.reprocessing import REPROCESS, reprocessed
from streams_recovery.core.errors import ConfigInvalid, NotFound

SUFFIXES = (".yaml", ".yml")


def load(path: Path, environment: Mapping[str, str]) -> ApplicationConfig:
    """The application that ``path`` describes, with ``${VARIABLES}`` from ``environment``. Raises ``ConfigInvalid`` with file and lines."""
    try:
        with path.open("rb") as file:
            content = file.read(yaml_reader.MAX_BYTES + 1)
    except OSError as error:
        raise ConfigInvalid(
            f"{path} cannot be read: {error.strerror}", next_step="check the file name and that this user may read it", file=str(path)
        ) from error
    try:
        document = yaml_reader.read(content, environment)
    except yaml_reader.YamlError as error:
        raise _invalid(path, [(error.line, error.reason)], error.hint) from error
    if document.data.setdefault("name", path.stem) != path.stem:
        reason = f"name is {document.data['name']!r:.80}, but the file is called {path.name}"
        raise _invalid(path, [(document.line(("name",)), reason)], "give both the same name, or leave the key out")
    try:
        return ApplicationConfig.model_validate(document.data, context={"directory": path.parent.resolve()})
    except ValidationError as error:
        found = problems(error.errors(include_url=False, include_context=False, include_input=False), document)
        # The cause is left out: its text repeats the values, and a value may be a secret in the wrong place.
        raise _invalid(path, found, "correct the file; docs/configuration.md explains every key") from None


def load_all(directory: Path, environment: Mapping[str, str]) -> dict[str, ApplicationConfig]:
    """Every application configured in ``directory``, by name. Raises ``ConfigInvalid``, also when two files describe one application id."""
    configs = {path.stem: load(path, environment) for path in _files(directory)}
    owners: dict[tuple[str, str], str] = {}
    for name, config in configs.items():
        key = (config.source.connection, config.application.id)
        if key in owners:
            raise ConfigInvalid(
                f"{name} and {owners[key]} both describe the application {config.application.id} on {config.source.connection}",
                next_step="keep one of the two files: two schedules would work on one consumer group",
                names=[owners[key], name],
            )
        owners[key] = name
    _check_scratch(configs)
    _check_clones(configs)
    return configs


def _check_scratch(configs: Mapping[str, ApplicationConfig]) -> None:
    """What drills and reprocessing remove begins with their application ids, so those must be nobody else's."""
    ids = [(name, name, config.application.id) for name, config in configs.items()]
    scratch = []
    for name, config in configs.items():
        if config.drill is not None and config.drill.enabled:
            scratch.append((name, f"the drill of {name}", config.drill.application_id))
        if config.reprocess is not None and config.reprocess.enabled:
            scratch.append((name, f"reprocessing of {name}", config.reprocess.application_id))
    for owner, what, mine in scratch:
        for other, whose, theirs in (*ids, *scratch):
            if what != whose and clash(mine, theirs):
                raise ConfigInvalid(
                    f"{what} and {whose} would share topics: {mine} and {theirs}",
                    next_step="give it an application id of its own that no other begins with",
                    names=[owner, other],
                )


def _check_clones(configs: Mapping[str, ApplicationConfig]) -> None:
    for name, config in configs.items():
        if config.clone is not None and config.clone.of not in configs:
            raise ConfigInvalid(
                f"{name} is a clone of {config.clone.of}, which is not configured; known: {', '.join(sorted(configs))}",
                next_step="correct clone.of; once the old application is given up, name the real outputs in topics.outputs and remove the clone section",
                names=[name, config.clone.of],
            )


def load_named(name: str, directory: Path, environment: Mapping[str, str]) -> ApplicationConfig:
    """The application called ``name``, or with ``:drill`` behind its name what its drills restore into, or with ``:reprocess:<interval>:<lane>`` what
    processes an interval again. Other files are not read, so a mistake in one does not stand in the way of rescuing another.

    Raises ``NotFound`` with the names there are, and ``ConfigInvalid``.
    """
    if name.endswith(DRILL):
        return drilled(load_named(name.removesuffix(DRILL), directory, environment))
    if REPROCESS in name:
        own, _, which = name.partition(REPROCESS)
        return reprocessed(load_named(own, directory, environment), which)
    files = {path.stem: path for path in _files(directory)}
    if name not in files:
        known = ", ".join(sorted(files)) or "none"
        raise NotFound(
            f"no application {name[:60]!r} is configured in {directory}; known: {known}",
            next_step=f"choose a known one, or write {directory}/<name>.yaml",
            known=sorted(files),
        )
    return load(files[name], environment)


def _files(directory: Path) -> list[Path]:
    if not directory.is_dir():
        raise ConfigInvalid(
            f"the configuration directory {directory} does not exist", next_step="create it or name another one", directory=str(directory)
        )
    found = sorted(path for path in directory.iterdir() if path.suffix in SUFFIXES and not path.name.startswith("."))
    stems = [path.stem for path in found]
    twice = next((path for path in found if stems.count(path.stem) > 1), None)
    if twice:
        raise ConfigInvalid(
            f"{twice.stem} is configured twice, as .yaml and as .yml, in {directory}", next_step="keep one of the two files"
        )
    return found


def _invalid(path: Path, found: list[tuple[int | None, str]] | list[tuple[int, str]], next_step: str) -> ConfigInvalid:
    lines = [f"{path}:{line}: {reason}" if line else f"{path}: {reason}" for line, reason in found]
    return ConfigInvalid("\n".join(lines), next_step=next_step, file=str(path), lines=[line for line, _ in found])
