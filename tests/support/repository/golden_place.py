"""A golden repository in a place of the test's choice, opened as the product opens it: from a configuration file and a connection."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.loader import load_named
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.operations.context import RecoveryContext, open_context, wall_clock
from streams_recovery.storage.credentials import StorageCredentials
from streams_recovery.storage.repository import Repository
from tests.support.project import GOLDEN, PROJECT

GOOD = GOLDEN / "good"
CONFIG = """
version: 1
name: golden
application: {{id: golden, guarantee: exactly_once_v2}}
topics: {{inputs: [orders]}}
storage: {storage}
spark: {{always: {always}}}
backup: {{survive_cluster_loss: false}}
retention: {{keep_last: 1, keep_hourly: 0, keep_daily: 0, keep_weekly: 0, keep_monthly: 0, minimum: 1, grace_days: 7}}
runs: {{kind: command, command: {{status: ["true"], stop: ["true"], start: ["true"], wipe: ["true"]}}}}
"""


def upload_golden(location: StorageLocation, credentials: StorageCredentials, *, without: str = "nothing") -> list[str]:
    """Write a good repository with two savepoints as a writer would, segments first, and return its keys."""
    repository = Repository(location, credentials)
    keys = sorted((path.relative_to(GOOD).as_posix() for path in GOOD.rglob("*") if path.is_file()), key=lambda key: "/savepoints/" in key)
    wanted = [key for key in keys if without not in key]
    for key in wanted:
        repository.put_file(key, GOOD / key)
    return wanted


def environment(credentials: StorageCredentials) -> dict[str, str]:
    """The connections of the configuration. No broker and no Spark cluster is ever asked."""
    return {
        "AIRFLOW_CONN_STORE": json.dumps(connection_of(credentials)),
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}}),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[1]"}),
    }


def connection_of(credentials: StorageCredentials) -> dict[str, object]:
    """The fields of a connection of Airflow that has these credentials."""
    found = credentials.options
    if "service_account_key" in found:
        return {"conn_type": "google_cloud_platform", "extra": {"keyfile_dict": found["service_account_key"]}}
    if "sas_key" in found:
        return {"conn_type": "wasb", "extra": {"sas_token": found["sas_key"]}}
    if "account_key" in found:
        return {"conn_type": "wasb", "password": found["account_key"]}
    return {"conn_type": "aws", "login": found["access_key_id"], "password": found["secret_access_key"]}


def write_config(
    directory: Path,
    location: StorageLocation,
    *,
    connection: str | None = "store",
    always: bool = False,
    mirror: StorageLocation | None = None,
) -> None:
    """The configuration file of the golden application. With ``always`` Spark does small jobs too."""
    storage = _section(location, connection)
    if mirror is not None:
        storage["mirror"] = _section(mirror, connection)
    (directory / "golden.yaml").write_text(CONFIG.format(storage=json.dumps(storage), always=json.dumps(always)))


def _section(location: StorageLocation, connection: str | None) -> dict[str, object]:
    section: dict[str, object] = {"backend": location.backend, "path": location.path}
    if location.bucket is None:
        return section
    address = {"account": location.account, "bucket": location.bucket, "prefix": location.prefix, "endpoint": location.endpoint}
    return {**section, **address, "path_style": True, "allow_http": True, "connection": connection}


@contextmanager
def opened(
    directory: Path, location: StorageLocation, credentials: StorageCredentials, *, days_later: float = 0
) -> Iterator[RecoveryContext]:
    """The context, at a time of the test's choice."""
    write_config(directory, location)
    connections = EnvironmentConnections(environment(credentials))
    ahead = int(days_later * 86_400_000)
    with open_context(load_named("golden", directory, {}), connections, clock=lambda: wall_clock() + ahead) as recovery:
        yield recovery


def approval_of(directory: Path, variables: dict[str, str], *arguments: str, prefix: tuple[str, ...] = ()) -> str:
    """What approves the plan that a command shows now."""
    shown = command(directory, variables, *arguments, "--plan", "--json", prefix=prefix)
    assert shown.returncode == 0, shown
    approval: str = json.loads(shown.stdout)["approve"]
    return approval


def command(directory: Path, variables: dict[str, str], *arguments: str, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own, with nothing but these variables of ours."""
    ours = ("AIRFLOW", "AWS", "STREAMS_RECOVERY")
    base = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return subprocess.run(
        [*prefix, sys.executable, "-m", "streams_recovery", *arguments, "--configs", str(directory)],
        env={**base, "PYTHONPATH": os.pathsep.join([str(PROJECT / "plugins"), str(PROJECT)]), "COLUMNS": "1000", **variables},
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
