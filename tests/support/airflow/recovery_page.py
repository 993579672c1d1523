"""The page *Recovery* with Airflow's own auth manager and database, over repositories in a directory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient
from playwright.sync_api import BrowserContext
from sqlalchemy import Table

from streams_recovery.core import codec
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.core.repository.seal import SealKeys
from streams_recovery.core.status.report import StatusReport
from streams_recovery.core.status.savepoint_detail import savepoint_detail
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.seals import new_private_key
from tests.support.examples.manifests import copied, manifest_with, partition
from tests.support.examples.statuses import report, summary

BUNDLE = "page-tests"
# Where Airflow has the page.
MOUNTED = "/streams-recovery"
SAVEPOINT = summary(0).savepoint_id
KINDS = ("backup", "drill", "check", "expire")
SHARED = ("restore_full", "restore_pitr", "restore_rebuild", "failover", "clone", "undo", "compare", "compare_outputs", "look_up")


class Site:
    """Applications with their configurations, stored statuses and the rows of their DAGs in Airflow's database."""

    def __init__(self, directory: Path) -> None:
        self.configs = directory / "configs"
        self.configs.mkdir(parents=True)
        self._repositories = directory / "secret-place"
        self._keys: SealKeys | None = None

    def configure(self, name: str, **more: object) -> None:
        """A configuration file."""
        config = {
            "version": 1,
            "name": name,
            "application": {"id": f"{name}-app", "guarantee": "exactly_once_v2"},
            "topics": {"inputs": ["orders", "inventory"]},
            "backup": {"survive_cluster_loss": False},
            "storage": {"backend": "filesystem", "path": str(self._repositories)} | self._seal,
            "runs": {"kind": "command", "command": {verb: ["true"] for verb in ("status", "stop", "start", "wipe")}},
        }
        (self.configs / f"{name}.yaml").write_text(json.dumps(config | more))

    def break_configuration(self, name: str) -> None:
        """A file that cannot be used: the fourth line has a key that there is not."""
        (self.configs / f"{name}.yaml").write_text(
            "version: 1\napplication: {id: clicks, guarantee: exactly_once_v2}\nbackup:\n  consistancy: {}\n"
        )

    def repository(self) -> Repository:
        """Where savepoints and statuses are."""
        self._repositories.mkdir(exist_ok=True)
        return Repository(StorageLocation(backend="filesystem", path=str(self._repositories)), seal=self._keys)

    @property
    def _seal(self) -> dict[str, object]:
        if self._keys is None:
            return {}
        # Others can read this file, so whoever asked for the private key would be refused: the page works without it.
        file = self.configs / "seal.key"
        file.write_text(str(self._keys.private))
        file.chmod(0o644)
        return {"seal": {"public_keys": list(self._keys.public), "key_file": str(file)}}

    def seal(self, *names: str) -> Repository:
        """From now on these applications are sealed. Returns the repository of somebody without the private key."""
        private, public = new_private_key()
        stranger = self.repository()
        self._keys = SealKeys(public=(public,), private=private)
        for name in names:
            self.configure(name)
        return stranger

    def observed(self, report: StatusReport) -> None:
        """Store a status as the monitor does."""
        AppendLog(self.repository(), Layout(report.application_id).status, StatusReport).append(report)

    def lose_repository(self) -> None:
        """From now on the repository does not answer: a file is where its directory was."""
        self._repositories.rename(self._repositories.with_name("elsewhere"))
        self._repositories.write_text("no directory")


def at_sites(*names: str) -> dict[str, object]:
    """The section of a configuration with these other sites."""
    return {
        name: {
            "connection": f"kafka_{name}",
            "runs": {"kind": "command", "command": {verb: ["true", name] for verb in ("status", "stop", "start", "wipe")}},
        }
        for name in names
    }


def two_applications(directory: Path) -> Site:
    """Two applications that were observed, and a configuration that cannot be used."""
    found = Site(directory)
    for name in ("orders", "payments"):
        found.configure(name)
        found.observed(report(name))
    found.break_configuration("clicks")
    detail = savepoint_detail(manifest_with(partition([copied(0, 5)], [], end=5)))
    stored = codec.encode(detail) | {"application_id": "orders-app", "savepoint_id": SAVEPOINT}
    found.repository().create(Layout("orders-app").detail(SAVEPOINT), codec.dumps(stored))
    parsed([*dag_ids("orders", "payments"), "streams_configuration_clicks"])
    return found


def dag_ids(*names: str) -> list[str]:
    """The DAGs of these applications, and those that all share."""
    return [*(f"streams_{kind}_{name}" for name in names for kind in KINDS), *(f"streams_{kind}" for kind in SHARED)]


def parsed(ids: Sequence[str]) -> None:
    """Put the DAGs into Airflow's database, as its parser does."""
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.session import create_session

    with create_session() as session:
        # Other tests of this process have run DAGs: what refers to them goes first.
        for table in reversed(_of_dags(DagModel.metadata.sorted_tables)):
            session.execute(table.delete())
        session.merge(DagBundleModel(name=BUNDLE))
        session.flush()
        session.add_all(DagModel(dag_id=dag_id, bundle_name=BUNDLE) for dag_id in ids)


def _of_dags(tables: Sequence[Table]) -> list[Table]:
    """The table of DAGs and those whose rows need it, each behind those that it refers to."""
    found: dict[str, Table] = {}
    for table in tables:
        if table.name == "dag" or any(key.column.table.name in found for key in table.foreign_keys):
            found[table.name] = table
    return list(found.values())


def client_of(app: Any, role: str | None) -> TestClient:
    """A browser in which a user of this role is logged in, or nobody."""
    client = TestClient(app, raise_server_exceptions=False, follow_redirects=False)
    if role is not None:
        client.cookies.set(*_cookie(role))
    return client


def log_in(context: BrowserContext, role: str, url: str) -> None:
    """Give a real browser what it gets when a user of this role logs in."""
    name, value = _cookie(role)
    context.add_cookies([{"name": name, "value": value, "url": url}])


def _cookie(role: str) -> tuple[str, str]:
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.base_auth_manager import COOKIE_NAME_JWT_TOKEN
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    user = SimpleAuthManagerUser(username=role, role=role.upper())
    return COOKIE_NAME_JWT_TOKEN, get_auth_manager().generate_jwt(user)
