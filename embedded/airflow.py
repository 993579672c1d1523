"""Airflow with SQLite: scheduler, DAG processor, API server and triggerer as processes of the stack."""

from __future__ import annotations

import json
import secrets
import sys
import time
from pathlib import Path

import httpx

from embedded.airflow_client import AirflowClient
from embedded.airflow_database import COMMAND, migrate, prepare_database
from embedded.ports import HOST
from embedded.processes import Processes
from embedded.stack import PROJECT, Stack
from streams_recovery.core.errors import ApplicationNotReady

# The users, each with a role of Airflow's simple auth manager. The stack itself works as the first one.
ROLES = {"admin": "admin", "operator": "op", "viewer": "viewer"}
USER = next(iter(ROLES))
_PRELOADED = [sys.executable, "-m", "embedded.preloaded"]
# Airflow's log servers listen on every address of the machine, and nothing can tell them not to (airflow.utils.serve_logs). Here the API server reads the
# files itself.
_NO_LOG_SERVER = "--skip-serve-logs"
SERVICES = {
    "api-server": [*COMMAND, "api-server"],
    "scheduler": [*_PRELOADED, "scheduler", _NO_LOG_SERVER],
    "dag-processor": [*_PRELOADED, "dag-processor"],
    "triggerer": [*COMMAND, "triggerer", _NO_LOG_SERVER],
}
_START_SECONDS = 240.0


class Airflow:
    """The Airflow of one stack. Its home is below the stack's directory; the passwords of the users are in ``password_file``, for its owner only."""

    def __init__(self, stack: Stack, processes: Processes) -> None:
        self._stack = stack
        self._processes = processes
        self._home = stack.directory / "airflow"
        self._database = self._home / "airflow.db"
        self.url = f"http://{HOST}:{stack.ports.airflow}"

    @property
    def password_file(self) -> Path:
        """JSON: the password by user."""
        return self._home / "passwords.json"

    def password_of(self, user: str) -> str:
        """The password of one of ``ROLES``."""
        found: str = json.loads(self.password_file.read_text())[user]
        return found

    def make_passwords(self) -> None:
        """Give a password to each user who has none: a stack of `make up` before may have had fewer users."""
        self._home.mkdir(parents=True, exist_ok=True)
        self.password_file.touch(mode=0o600)
        known = json.loads(self.password_file.read_text() or "{}")
        self.password_file.write_text(json.dumps({user: known.get(user) or secrets.token_urlsafe(12) for user in ROLES}))

    def start(self) -> AirflowClient:
        """Have a database, start all services, and wait until each is healthy."""
        self.make_passwords()
        environment = self.environment()
        self.prepare(environment)
        for service, command in self.services().items():
            self._processes.start(f"airflow-{service}", command, environment=environment, cwd=self._home)
        self._await_health()
        return AirflowClient(self.url, USER, self.password_of(USER), environment)

    def services(self) -> dict[str, list[str]]:
        """The command of each service."""
        return SERVICES

    def prepare(self, environment: dict[str, str]) -> None:
        """Have a database of the installed version."""
        if self._database.exists():
            # Of `make up` before: it may be of an older version.
            migrate(environment)
        else:
            prepare_database(self._database)

    def _await_health(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        waiting = "no answer"
        while time.monotonic() < deadline:
            for service in SERVICES:
                self._processes.check(f"airflow-{service}")
            try:
                health = httpx.get(f"{self.url}/api/v2/monitor/health", timeout=5).json()
                # What tasks ask is built by its first request, four seconds of a core: the first task would wait for that.
                httpx.get(f"{self.url}/execution/health", timeout=60).raise_for_status()
            except (httpx.HTTPError, ValueError):
                time.sleep(0.5)
                continue
            sick = [name for name in ("metadatabase", "scheduler", "dag_processor", "triggerer") if health[name]["status"] != "healthy"]
            if not sick:
                return
            waiting = f"not healthy: {', '.join(sick)}"
            time.sleep(0.5)
        raise ApplicationNotReady(
            f"Airflow did not come up in {_START_SECONDS:.0f} s: {waiting}", next_step=f"see the logs in {self._home}"
        )

    def environment(self) -> dict[str, str]:
        """The environment of every service, and of a terminal beside them."""
        ports = self._stack.ports
        settings = {
            "CORE__DAGS_FOLDER": str(PROJECT / "dags"),
            "CORE__PLUGINS_FOLDER": str(PROJECT / "plugins"),
            "CORE__LOAD_EXAMPLES": "False",
            # A supervisor keeps its slot for a heartbeat after its task, and does nothing then.
            "CORE__PARALLELISM": "8",
            # Five by default, and an approval is kept as long, and five seconds more.
            "WORKERS__MIN_HEARTBEAT_INTERVAL": "2",
            "CORE__DAGBAG_IMPORT_TIMEOUT": "120",
            "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{user}:{role}" for user, role in ROLES.items()),
            "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.password_file),
            "API__HOST": HOST,
            "API__PORT": str(ports.airflow),
            "API__BASE_URL": self.url,
            "API__WORKERS": "1",
            "API_AUTH__JWT_SECRET": self._jwt_secret(),
            # One writer at a time: whoever waits no longer than the five seconds of the default is turned away on a busy machine.
            "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self._database}?timeout=60",
            # Longer than the database is waited for: a task that is not answered in time asks again, and is killed after a few times.
            "WORKERS__EXECUTION_API_TIMEOUT": "75",
            "SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
            "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.3",
            "SCHEDULER__ENABLE_HEALTH_CHECK": "False",
            "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",
            "DAG_PROCESSOR__REFRESH_INTERVAL": "300",
            # Longer than the database is waited for: a file that took longer is not read again before the interval is over.
            "DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "180",
        }
        return {
            **self._stack.environment,
            "AIRFLOW_HOME": str(self._home),
            **{f"AIRFLOW__{name}": value for name, value in settings.items()},
        }

    def _jwt_secret(self) -> str:
        file = self._home / "jwt-secret"
        if not file.exists():
            file.touch(mode=0o600)
            file.write_text(secrets.token_urlsafe(64))
        return file.read_text()
