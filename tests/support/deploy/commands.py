"""Whether the program understands what pods run: its own parser reads the commands, its own models the configuration files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import typer
from pydantic import ValidationError
from typer._click.exceptions import UsageError
from typer.core import TyperGroup
from typer.main import get_command

from streams_recovery.application.docker_compose import DockerComposeSettings
from streams_recovery.cli.app import app
from streams_recovery.config.loader import load_all
from streams_recovery.config.model import ApplicationConfig
from tests.support.deploy.documents import Document, containers, title

PROGRAM = ["python", "-m", "streams_recovery"]
CONFIGS = "/etc/streams-recovery/configs"
_FILE = re.compile(rf"{CONFIGS}/([\w.-]+)")


def parsed(words: Sequence[str]) -> typer.Context:
    """The command that ``words`` call, with its parameters; nothing is run. Raises ``UsageError``."""
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    outer = group.make_context("streams-recovery", list(words))
    name, command, rest = group.resolve_command(outer, [*outer._protected_args, *outer.args])
    assert command is not None
    return command.make_context(name, rest, parent=outer)


def command_problems(documents: Iterable[Document]) -> list[str]:
    """Commands that the program does not understand, and those that name an application without a file."""
    every = list(documents)
    configured = {file.rsplit(".", 1)[0] for file in config_files(every) if file.endswith((".yaml", ".yml"))}
    found = []
    for document, container in containers(every):
        if container.get("command") != PROGRAM:
            found.append(f"{title(document)}: runs {container.get('command')}")
            continue
        try:
            name = parsed(container["args"]).params["name"]
        except UsageError as error:
            found.append(f"{title(document)}: {error.format_message()}")
        else:
            found += [f"{title(document)}: {name} is not configured"] * (name not in configured)
    return found


def config_files(documents: Iterable[Document]) -> dict[str, str]:
    """The configuration files in ConfigMaps."""
    maps = (one for one in documents if one["kind"] == "ConfigMap" and one["metadata"]["name"].endswith("-configs"))
    return {file: text for one in maps for file, text in one["data"].items()}


def config_problems(documents: Iterable[Document], directory: Path) -> list[str]:
    """Files that the models refuse, files that they name and that are not there, and connections that a pod does not have. ``directory`` is empty."""
    every = list(documents)
    files = config_files(every)
    for file, text in files.items():
        (directory / file).write_text(text)
    loaded = load_all(directory, {})
    found = [error.reason for error in loaded.broken.values()]
    found += [f"{file}: {problem}" for file, text in files.items() for problem in _instances_problem(file, text)]
    found += [
        f"{file} names {named}, which is not there" for file, text in files.items() for named in _FILE.findall(text) if named not in files
    ]
    for document, container in containers(every):
        variables = {variable["name"] for variable in container["env"]}
        found += [
            f"{title(document)}: {name} has no connection {connection}"
            for name, config in loaded.applications.items()
            for connection in connections(config)
            if f"AIRFLOW_CONN_{connection.upper()}" not in variables
        ]
    return found if loaded.applications else [*found, "nothing is configured"]


def connections(config: ApplicationConfig) -> list[str]:
    """The ids of the connections that an application needs."""
    seal = config.storage.seal
    signs = seal.connection if seal is not None and seal.enabled else None
    return [one for one in (config.source.connection, config.spark.connection, config.storage.connection, signs) if one]


def _instances_problem(file: str, text: str) -> list[str]:
    if not file.endswith(".json"):
        return []
    try:
        DockerComposeSettings.model_validate_json(text)
    except ValidationError as error:
        return [str(error)]
    return []


def environment_of(container: Mapping[str, list[dict[str, str]]]) -> dict[str, str]:
    """The variables of a container that have a value in its document."""
    return {variable["name"]: variable["value"] for variable in container["env"] if "value" in variable}


def spark_master(container: Mapping[str, list[dict[str, str]]], connection: str = "spark_default") -> str:
    """The master that a container submits to."""
    return str(json.loads(environment_of(container)[f"AIRFLOW_CONN_{connection.upper()}"])["host"])
