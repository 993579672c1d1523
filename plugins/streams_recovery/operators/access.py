"""For whom a DAG is, and which rights Airflow gives on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from airflow.sdk import Asset, Param, conf

from streams_recovery.config.access import Access, DagRight
from streams_recovery.config.directory import configurations, load_applications
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.operators import params
from streams_recovery.operators.assets import savepoints_of

Rights = dict[str, dict[str, set[str]]]
_FAB: Final = "FabAuthManager"
_SIMPLE: Final = "SimpleAuthManager"
_VIEW: Final = {"DAGs": {"can_read"}, "DAG Runs": {"can_read"}}
_RUN: Final = {"DAGs": {"can_read", "can_edit"}, "DAG Runs": {"can_read", "can_create"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """For whom a restore DAG is: for all applications, of which a param chooses one, or for one that has DAGs of its own.

    ``suffix`` ends the DAG's id. ``application`` is the application's name, or the template of it when it is not ``known``. ``chosen`` is the param that
    chooses, empty for one.
    ``sources`` are the applications whose savepoints a restore may begin from. ``savepoints`` are the assets that it reads.
    """

    suffix: str
    application: str
    known: bool
    chosen: Mapping[str, Param]
    sources: Sequence[str]
    tags: Sequence[str]
    access_control: Rights | None
    savepoints: Sequence[Asset]

    @property
    def known_name(self) -> str:
        """The application's name. Empty when a param chooses it."""
        return self.application if self.known else ""

    def source(self, title: str, description: str) -> dict[str, Param]:
        """The param that names one of ``sources``, none when there are none."""
        return {"source": params.other_application(self.sources, title, description)} if self.sources else {}


def restorable() -> dict[str, ApplicationConfig]:
    """The applications that DAGs may restore: without those whose ``access`` section this Airflow cannot enforce."""
    return {name: config for name, config in load_applications().items() if unenforceable(config.access) is None}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusableConfiguration:
    """A configuration that cannot be used, and what is wrong. ``partly``: it can be used, but not for restores."""

    error: ConfigInvalid
    partly: bool


def unusable_configurations() -> dict[str, UnusableConfiguration]:
    """Each configuration that cannot be used, or not for restores, by the application's name."""
    configured = configurations()
    refused = {name: unenforceable(config.access) for name, config in configured.applications.items()}
    return {name: UnusableConfiguration(error=error, partly=False) for name, error in configured.broken.items()} | {
        name: UnusableConfiguration(error=error, partly=True) for name, error in refused.items() if error is not None
    }


def scopes(applications: Mapping[str, ApplicationConfig], **chosen: str) -> list[Scope]:
    """The scopes of a restore DAG: first the one for all ``applications``, then one for each that has DAGs of its own. ``chosen`` has title and description
    of the param.
    """
    names = sorted(applications)
    shared = Scope(
        suffix="",
        application="{{ params.application }}",
        known=False,
        chosen={"application": params.application(names, **chosen)},
        sources=names,
        tags=(),
        access_control=None,
        savepoints=[savepoints_of(name) for name in names],
    )
    return [shared, *(_own(name, config) for name, config in applications.items() if config.access.own_dags)]


def _own(name: str, config: ApplicationConfig) -> Scope:
    original = () if config.clone is None else (config.clone.of,)
    sources = sorted({*config.access.sources, *original})
    return Scope(
        suffix=f"_{name}",
        application=name,
        known=True,
        chosen={},
        sources=sources,
        tags=(name,),
        access_control=rights(config.access),
        savepoints=[savepoints_of(one) for one in (name, *sources)],
    )


def rights(access: Access, *, run: bool = True) -> Rights | None:
    """The rights on a DAG of one application, for the FAB auth manager. None leaves those that were given by hand. Without ``run`` roles only see it."""
    if access.roles is None:
        return None
    return {role: _copied(_RUN if run and right is DagRight.RUN else _VIEW) for role, right in access.roles.items()}


def unenforceable(access: Access) -> ConfigInvalid | None:
    """Why this Airflow cannot enforce an ``access`` section, None when it can."""
    manager = conf.get("core", "auth_manager")
    everybody_is_admin = _SIMPLE in manager and conf.getboolean("core", "simple_auth_manager_all_admins", fallback=False)
    if access.roles is not None and _FAB not in manager:
        return ConfigInvalid(
            f"access.roles: {manager.rpartition('.')[2]} gives no rights on single DAGs",
            next_step="use the FAB auth manager, or remove access.roles",
            auth_manager=manager,
        )
    if access.approval.restricts and everybody_is_admin:
        return ConfigInvalid(
            "access.approvers: everybody is the same administrator here (core.simple_auth_manager_all_admins)",
            next_step="let users log in, or remove access.approvers and access.approvers_exclude_trigger",
            auth_manager=manager,
        )
    return None


def answers_by_name() -> bool:
    """Whether the name of a user is also the id by which Airflow assigns a question to them."""
    return _SIMPLE in conf.get("core", "auth_manager")


def _copied(given: Mapping[str, set[str]]) -> dict[str, set[str]]:
    return {resource: set(actions) for resource, actions in given.items()}
