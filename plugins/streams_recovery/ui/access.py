"""The visitor of the page, and what Airflow lets them see and start. Every route depends on ``visitor``: without a login it answers 401."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.base_auth_manager import BaseAuthManager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.configuration import conf
from airflow.models.dag import DagModel
from fastapi import Depends

from streams_recovery.config.loader import id_of

# Who may see one of these DAGs of an application may see the application.
_SHOWN_WITH: Final = ("streams_backup_{}", "streams_configuration_{}")


@dataclass(frozen=True, slots=True)
class Visitor:
    """A user who is logged in, with the DAGs that there are and that they may see."""

    user: BaseUser
    dag_ids: frozenset[str]

    @property
    def name(self) -> str:
        """The name with which Airflow shows who has triggered a run, and who has answered."""
        return self.user.get_name()

    def sees(self, name: str) -> bool:
        """True when the user may see the application."""
        return any(pattern.format(id_of(name)) in self.dag_ids for pattern in _SHOWN_WITH)

    def may_trigger(self, dag_id: str) -> bool:
        """True when Airflow would let the user trigger this DAG, and there is one."""
        return dag_id in self.dag_ids and self._authorized("POST", DagAccessEntity.RUN, dag_id)

    def may_answer(self, dag_id: str) -> bool:
        """True when Airflow would let the user answer an approval of this DAG; the question itself may be put to others."""
        return dag_id in self.dag_ids and self._authorized("PUT", DagAccessEntity.HITL_DETAIL, dag_id)

    def _authorized(self, method: str, entity: DagAccessEntity, dag_id: str) -> bool:
        manager: BaseAuthManager[BaseUser] = get_auth_manager()
        teams = conf.getboolean("core", "multi_team", fallback=False)
        details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id) if teams else None)
        return manager.is_authorized_dag(method=method, access_entity=entity, details=details, user=self.user)  # type: ignore[arg-type]


def visitor(user: GetUserDep) -> Visitor:
    """The visitor. Raises 401 for a person who is not logged in, before anything is looked up."""
    manager: BaseAuthManager[BaseUser] = get_auth_manager()
    return Visitor(user, frozenset(manager.get_authorized_dag_ids(user=user, method="GET")))


VisitorDep = Annotated[Visitor, Depends(visitor)]
