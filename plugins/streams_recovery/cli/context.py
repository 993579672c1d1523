"""The parts that the commands share: arguments, the open context, who runs a command, and JSON.

Connections come without Airflow, from the same ``AIRFLOW_CONN_<ID>`` variables that Airflow reads, as JSON or as URI.
"""

from __future__ import annotations

import getpass
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from streams_recovery.cli.left import report_when_ended
from streams_recovery.cli.screen import say
from streams_recovery.config.backup import SPARK_CONNECTION
from streams_recovery.config.loader import load_all, load_named
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.connection import StoredConnection, ignored_text
from streams_recovery.core.errors import ConfigInvalid, NotFound
from streams_recovery.core.escaping import logger
from streams_recovery.core.forms import SAVEPOINT, FieldKind, FormField
from streams_recovery.core.kafka_types import QuiesceMode
from streams_recovery.core.names import checked_name
from streams_recovery.core.project_files import config_directory
from streams_recovery.core.repository.layout import Backend
from streams_recovery.core.repository.mirror import FROM_PLACE, Where
from streams_recovery.core.savepoint.request import MODE
from streams_recovery.engine.master import master_of
from streams_recovery.kafka.connection import KafkaConnection, kafka_connection
from streams_recovery.operations import second_place
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.lock_holder import this_process
from streams_recovery.operations.status.current import kept_current
from streams_recovery.storage.backends import credentials_in
from streams_recovery.storage.credentials import StorageCredentials

LOGGER = logger("streams_recovery.cli.context")


def option(field: FormField, **more: Any) -> Any:
    """The option of the command line for a field of a request's form. ``more`` is what only the command line knows of it. Names of topics are held to the
    same rule as there.
    """
    if field.kind is FieldKind.TOPICS:
        more = {"callback": _topics, **more}
    return typer.Option(field.option_name, **{"help": field.option_help, "metavar": field.metavar, **more})


def _topics(names: list[str] | None) -> list[str] | None:
    for name in names or ():
        checked_name("topic", name)
    return names


Name = Annotated[str, typer.Argument(metavar="APP", help="Name of the application's configuration file.")]
Configs = Annotated[Path, typer.Option("--configs", envvar="STREAMS_RECOVERY_CONFIG_DIR", help="Directory of the configuration files.")]
Logs = Annotated[Path, typer.Option("--logs", help="Where Spark's logs go.")]
SavepointId = Annotated[str, typer.Argument(metavar="ID", help="A savepoint's id, or `latest`.")]
RestoreId = Annotated[str, typer.Argument(metavar="[RESTORE]", help="A restore's id, or `latest`.")]
Savepoint = Annotated[str, option(SAVEPOINT)]
Mode = Annotated[QuiesceMode | None, option(MODE)]


FromPlace = Annotated[Where | None, option(FROM_PLACE)]
DEFAULT_CONFIGS, DEFAULT_LOGS = config_directory(), Path("build/logs")


@contextmanager
def recovery_of(
    name: str, configs: Path, site: str | None = None, *, anew: bool = False, place: Where | None = None, lost: bool = True
) -> Iterator[RecoveryContext]:
    """The context of a configured application at ``site``, by default the site that it belongs to, with connections from the environment. At its end the stored
    status has the changes. ``anew`` is as in ``open_context``. ``place`` is where its repository is, by default the first one. Where that one does not answer
    and there is a second one, the error names it. What is done at another ``place`` has to be in one place, so the first one has to be ``lost``, and the
    person is told why it counts as that; False for what only looks. Raises as ``require_lost`` does.
    """
    config, connections = load_named(name, configs, os.environ), EnvironmentConnections(os.environ)

    def applications() -> Mapping[str, ApplicationConfig]:
        return load_all(configs, os.environ).applications

    with (
        second_place.open_at(
            config, connections, place, process=this_process(), applications=applications, site=site, anew=anew
        ) as recovery,
        report_when_ended(recovery),
        kept_current(recovery),
    ):
        if place is not None and lost:
            say(f"Warning: {second_place.require_lost(recovery)}")
        yield recovery


@dataclass(frozen=True, slots=True, kw_only=True)
class Requester:
    """A run from a terminal, and who asked for it."""

    run_id: str
    requested_by: str


def requester() -> Requester:
    """A new run of the person at this terminal."""
    return Requester(run_id=new_run_id(), requested_by=getpass.getuser())


def new_run_id() -> str:
    """The id of a new run from a terminal."""
    return f"cli-{uuid.uuid4().hex}"


def _variable(connection_id: str) -> str:
    return f"AIRFLOW_CONN_{connection_id.upper()}"


class EnvironmentConnections:
    """Connections by id from environment variables: ``{"conn_type": "kafka", "extra": {...}}``, or ``kafka://host:9092?...``."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def kafka(self, connection_id: str) -> KafkaConnection:
        return kafka_connection(self._read(connection_id), where=f"connection {connection_id}")

    def storage(self, connection_id: str | None, backend: Backend) -> StorageCredentials | None:
        """See ConnectionSource. Fields as in Airflow's connections of the backend's type."""
        if connection_id is None:
            return None
        return credentials_in(self._read(connection_id), backend, where=f"connection {connection_id}")

    def secret(self, connection_id: str) -> str | None:
        return self._read(connection_id).password

    def spark_master(self, connection_id: str) -> str:
        """See ConnectionSource. Of the extra only a deploy mode is understood, and that is always ``client``. Where the connection that nobody has named
        is not defined, jobs run on this machine: Airflow has one from its start, a terminal has not.
        """
        if connection_id == SPARK_CONNECTION and _variable(connection_id) not in self._environment:
            return "local[*]"
        found = self._read(connection_id)
        if ignored := {key for key, value in found.extra.items() if (key, value) != ("deploy-mode", "client")}:
            LOGGER.warning("%s", ignored_text(f"connection {connection_id}", ignored))
        return master_of(connection_id, found.conn_type, found.host, found.port)

    def _read(self, connection_id: str) -> StoredConnection:
        variable = _variable(connection_id)
        text = self._environment.get(variable)
        if text is None:
            raise NotFound(
                f"connection {connection_id} is not defined",
                next_step=f"set {variable} to the connection as JSON or URI",
                variable=variable,
            )
        try:
            return StoredConnection.parse(text)
        except ValueError as error:
            # Not the text itself: it may hold a password.
            raise ConfigInvalid(
                f"{variable} cannot be read: {error}", next_step="write the connection as Airflow's JSON or URI", variable=variable
            ) from None
