"""Airflow's empty database: made once for the installed versions, copied for each stack. Airflow's own commands take ten seconds of a core for it."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib.metadata import distributions
from pathlib import Path

from embedded.built import built
from embedded.jars import cache_directory
from streams_recovery.core.errors import ApplicationNotReady

COMMAND = [sys.executable, "-m", "airflow"]


def prepare_database(target: Path) -> None:
    """An empty database of the installed Airflow at ``target``, where none is. Raises ``ApplicationNotReady``."""
    built(target, _copy)


def template() -> Path:
    """The database that is copied: another one for other versions of Airflow or of a provider, or of what it stores with."""
    names = ("apache-airflow", "sqlalchemy", "alembic")
    versions = sorted({f"{found.name} {found.version}" for found in distributions() if found.name.lower().startswith(names)})
    key = hashlib.sha256("\n".join(versions).encode()).hexdigest()[:16]
    return built(cache_directory() / "airflow" / f"{key}.db", _migrate)


def migrate(environment: dict[str, str]) -> None:
    """Bring the database of this environment to the installed version. Raises ``ApplicationNotReady``."""
    done = subprocess.run([*COMMAND, "db", "migrate"], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ApplicationNotReady(f"airflow db migrate failed: {done.stderr[-800:]}", next_step="see the message")


def _migrate(target: Path) -> None:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    settings = {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{target}", "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    # What Airflow writes beside it, a file of settings and logs, goes with the directory in which it is made.
    migrate({**inherited, **settings, "AIRFLOW_HOME": str(target.parent / "home")})


def _copy(target: Path) -> None:
    # By SQLite, and not as a file: some of what was written may still be in its write-ahead log.
    with closing(sqlite3.connect(template())) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)
