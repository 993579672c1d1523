"""The ``access`` section: who may restore this application, and who may approve that."""

from __future__ import annotations

import enum
from typing import Annotated, Self

from pydantic import Field, model_validator

from streams_recovery.config.fields import ConfigurationName, Section, Switch, Text
from streams_recovery.core.approvers import ApprovalRule

Person = Annotated[Text, Field(max_length=256)]
Role = Annotated[Text, Field(max_length=64)]


class DagRight(enum.StrEnum):
    """What a role may do with the DAGs of an application: see them, or run them too."""

    VIEW = "view"
    RUN = "run"


class Access(Section):
    """With ``own_dags`` the application has restore DAGs of its own, so that Airflow can give rights on them. ``roles`` gives these rights to roles of the
    FAB auth manager. ``sources`` are other applications whose savepoints the own DAGs may read. ``approvers`` are the users who may approve a
    plan, empty for everybody whom Airflow lets; with ``approvers_exclude_trigger`` never the one who triggered the run. With ``show_values`` runs
    that compare savepoints and look up keys log and store keys and values.
    """

    own_dags: Switch = False
    roles: dict[Role, DagRight] | None = None
    sources: tuple[ConfigurationName, ...] = ()
    approvers: tuple[Person, ...] = ()
    approvers_exclude_trigger: Switch = False
    show_values: Switch = False

    @property
    def approval(self) -> ApprovalRule:
        """Who may approve."""
        return ApprovalRule(approvers=self.approvers, exclude_trigger=self.approvers_exclude_trigger)

    @model_validator(mode="after")
    def _only_with_own_dags(self) -> Self:
        if not self.own_dags and (self.roles is not None or self.sources):
            raise ValueError(
                "roles and sources are about the application's own DAGs; write own_dags: true: the DAGs that all applications share have the rights of "
                "all of them"
            )
        return self
