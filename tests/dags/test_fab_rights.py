"""What the rights of `access.roles` are worth in the FAB auth manager: on the application's own DAGs, and on no other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.utils.session import create_session

from streams_recovery.config.backup import Access
from streams_recovery.operators.form import rights

OWN, SHARED, EXPIRE = "streams_restore_full_payments", "streams_restore_full", "streams_expire_payments"
ACCESS = Access.model_validate({"own_dags": True, "roles": {"payments-team": "run", "support": "view"}})
# What a role needs besides, which is no right on a single DAG.
COMMON = [("can_read", name) for name in ("Website", "DAG Runs", "Task Instances", "Task Logs", "XComs", "HITL Detail")]
APPROVES = ("can_edit", "HITL Detail")


class User:
    """A user of FAB with one role."""

    def __init__(self, role: Any) -> None:
        self.perms = {(one.action.name, one.resource.name) for one in role.permissions}


@pytest.fixture
def users(metadata: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, User]]:
    """A user of each role, after Airflow has taken over the rights that the DAGs name."""
    monkeypatch.setenv("AIRFLOW__CORE__AUTH_MANAGER", "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager")
    from airflow.providers.fab.auth_manager.models.db import FABDBManager
    from airflow.providers.fab.www.security_appless import ApplessAirflowSecurityManager

    with create_session() as session:
        FABDBManager(session).initdb()
        manager = ApplessAirflowSecurityManager(session=session)
        for name in ("payments-team", "support"):
            manager.add_role(name)
            for action, resource in (*COMMON, APPROVES):
                manager.add_permission_to_role(manager.find_role(name), manager.create_permission(action, resource))
        manager.sync_perm_for_dag(OWN, rights(ACCESS))
        manager.sync_perm_for_dag(EXPIRE, rights(ACCESS, run=False))
        manager.sync_perm_for_dag(SHARED, None)
        yield {name: User(manager.find_role(name)) for name in ("payments-team", "support")}


def may(user: User, dag_id: str) -> set[str]:
    """What the user may do with a DAG."""
    from airflow.providers.fab.auth_manager.fab_auth_manager import FabAuthManager

    asked: dict[str, tuple[Any, DagAccessEntity | None]] = {
        "see": ("GET", None),
        "see runs": ("GET", DagAccessEntity.RUN),
        "see tasks": ("GET", DagAccessEntity.TASK_INSTANCE),
        "see logs": ("GET", DagAccessEntity.TASK_LOGS),
        "trigger": ("POST", DagAccessEntity.RUN),
        "approve": ("PUT", DagAccessEntity.HITL_DETAIL),
        "delete": ("DELETE", None),
        "set the state of tasks": ("PUT", DagAccessEntity.TASK_INSTANCE),
    }
    manager, details = FabAuthManager(), DagDetails(id=dag_id)
    return {
        what
        for what, (method, entity) in asked.items()
        if manager.is_authorized_dag(method=method, access_entity=entity, details=details, user=user)  # type: ignore[arg-type]
    }


@pytest.mark.remedy("access-roles")
def test_rights_reach_as_far_as_the_application(users: dict[str, User]) -> None:
    seen = {"see", "see runs", "see tasks", "see logs"}
    assert may(users["payments-team"], OWN) == {*seen, "trigger", "approve"}
    assert may(users["support"], OWN) == seen
    assert {name: may(user, EXPIRE) for name, user in users.items()} == {"payments-team": seen, "support": seen}
    assert {name: may(user, SHARED) for name, user in users.items()} == {"payments-team": set(), "support": set()}
