"""The params of DAGs, each with the schema of what it accepts, and for whom a DAG is: its applications and the rights that Airflow gives on it.

A param that may be left out may be empty, and the form does not mark it as required.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from airflow.sdk import Asset, CronTriggerTimetable, Param, conf

from streams_recovery.config.backup import Access, DagRight
from streams_recovery.config.loader import configurations, load_applications
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.forms import FieldKind, FormField
from streams_recovery.core.names import NAME
from streams_recovery.core.panels import is_shared_dag_drawn
from streams_recovery.core.remedies.access import enforce_approvers, enforce_roles
from streams_recovery.core.repository.mirror import FROM_PLACE
from streams_recovery.operators.base import savepoints_of

MOMENT_PATTERN: Final = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}.*(Z|[+-]\d{2}:?\d{2}| [A-Za-z][A-Za-z0-9_+/-]+)$"
# No control characters, and none that turn the direction of writing or have no width.
_SEEN: Final = r"^[^\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]+$"

Rights = dict[str, dict[str, set[str]]]
_FAB: Final = "FabAuthManager"
_SIMPLE: Final = "SimpleAuthManager"
_VIEW: Final = {"DAGs": {"can_read"}, "DAG Runs": {"can_read"}}
_RUN: Final = {"DAGs": {"can_read", "can_edit"}, "DAG Runs": {"can_read", "can_create"}}


def of(*fields: FormField) -> dict[str, Param]:
    """The params of a form, by their names, without those for another application: a scope has them, and knows which there are."""
    return {field.name: _param(field) for field in fields if field.kind is not FieldKind.APPLICATION}


def _param(field: FormField) -> Param:
    made_by = {
        FieldKind.TOPICS: topics,
        FieldKind.GROUPS: groups,
        FieldKind.MOMENT: moment,
        FieldKind.COUNT: count,
        FieldKind.NUMBERS: numbers,
    }
    if field.kind in made_by:
        return made_by[field.kind](field.title, field.help or "")
    if field.kind is FieldKind.SWITCH:
        return switch(field.title, field.help, default=bool(field.default))
    if field.kind is FieldKind.CHOICE:
        return choice(str(field.default or ""), field.title, field.choices, field.help)
    schema: dict[str, Any] = {"pattern": f"^({field.pattern})$"} if field.pattern else {}
    if field.required:
        return Param(field.default, type="string", title=field.title, description=field.help, **schema)
    return Param(field.default, type=["null", "string"], maxLength=field.longest, title=field.title, description=field.help, **schema)


def application(names: Sequence[str], *, title: str = "Application", description: str | None = None) -> Param:
    """One of the configured applications."""
    return Param(names[0] if len(names) == 1 else None, type="string", enum=list(names), title=title, description=description)


def choice(default: str, title: str, labels: Mapping[str, str], description: str | None = None) -> Param:
    """One of several values, each with what a person is shown for it."""
    return Param(default, type="string", enum=list(labels), values_display=dict(labels), title=title, description=description)


def other_application(names: Sequence[str], title: str, description: str) -> Param:
    """Another of the configured applications, or none."""
    return Param(None, type=["null", "string"], enum=[None, *names], title=title, description=description)


def switch(title: str, description: str | None = None, *, default: bool = False) -> Param:
    """Yes or no."""
    return Param(default=default, type="boolean", title=title, description=description)


def count(title: str, description: str) -> Param:
    """A number that is not negative, or none."""
    return Param(None, type=["null", "integer"], minimum=0, title=title, description=description)


def numbers(title: str, description: str) -> Param:
    """Numbers that are not negative, one a line."""
    return Param(None, type=["null", "array"], items={"type": "integer", "minimum": 0}, title=title, description=description)


def topics(title: str, description: str) -> Param:
    """Names of topics, one a line."""
    return Param(None, type=["null", "array"], items={"type": "string", "pattern": f"^{NAME}$"}, title=title, description=description)


def groups(title: str, description: str) -> Param:
    """Ids of consumer groups, one a line. Kafka allows any character in them; a form takes none that a person could not see."""
    items = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": _SEEN}
    return Param(None, type=["null", "array"], items=items, title=title, description=description)


def moment(title: str, description: str) -> Param:
    """A date and a time, with its time zone."""
    return Param(
        None, type=["null", "string"], format="date-time", maxLength=80, pattern=MOMENT_PATTERN, title=title, description=description
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """For whom a restore DAG is: for all applications, of which a param chooses one, or for one that has DAGs of its own.

    ``suffix`` ends the DAG's id. ``application`` is the application's name, or the template of it when it is not ``known``. ``chosen`` is the param that
    chooses, empty for one.
    ``sources`` are the applications whose savepoints a restore may begin from. ``savepoints`` are the assets that it reads. ``second_place`` is true where
    one of them has one.
    """

    suffix: str
    application: str
    known: bool
    chosen: Mapping[str, Param]
    sources: Sequence[str]
    tags: Sequence[str]
    access_control: Rights | None
    savepoints: Sequence[Asset]
    second_place: bool

    @property
    def known_name(self) -> str:
        """The application's name. Empty when a param chooses it."""
        return self.application if self.known else ""

    @property
    def places(self) -> dict[str, Param]:
        """The param that says where the repository is, none where there is no second place."""
        return of(FROM_PLACE) if self.second_place else {}

    def source(self, title: str, description: str) -> dict[str, Param]:
        """The param that names one of ``sources``, none when there are none."""
        return {"source": other_application(self.sources, title, description)} if self.sources else {}


def restorable() -> dict[str, ApplicationConfig]:
    """The applications that DAGs may restore."""
    return enforceable(load_applications())


def enforceable(applications: Mapping[str, ApplicationConfig]) -> dict[str, ApplicationConfig]:
    """Those without an ``access`` section that this Airflow cannot enforce."""
    return {name: config for name, config in applications.items() if unenforceable(config.access) is None}


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


def scopes(workflow: str, applications: Mapping[str, ApplicationConfig], **chosen: str) -> list[Scope]:
    """The scopes of a restore DAG: first that for all ``applications``, then one for each application with DAGs of its own. Those that have switched off the
    group of the DAG are offered by neither, and there is none for all if each of them has. ``chosen`` has title and description of the param.
    """
    offered = {name: config for name, config in applications.items() if config.has_dag(workflow)}
    names = sorted(applications)
    shared = Scope(
        suffix="",
        application="{{ params.application }}",
        known=False,
        chosen={"application": application(sorted(offered), **chosen)},
        sources=names,
        tags=(),
        access_control=None,
        savepoints=[savepoints_of(name) for name in names],
        second_place=any(config.storage.second_place is not None for config in offered.values()),
    )
    for_all = [shared] if is_shared_dag_drawn(workflow, [config.dags.without for config in applications.values()]) else []
    return [*for_all, *(_own(name, config) for name, config in offered.items() if config.access.own_dags)]


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
        second_place=config.storage.second_place is not None,
    )


def utc(schedule: str | None) -> CronTriggerTimetable | None:
    """The schedule of a DAG that first runs when it is due: a text would follow the default zone of Airflow, and a date to start from would run it at once."""
    return None if schedule is None else CronTriggerTimetable(schedule, timezone="UTC")


def rights(access: Access, *, run: bool = True) -> Rights | None:
    """The rights on a DAG of one application, for the FAB auth manager. None leaves those that were given by hand. Without ``run`` roles only see it."""
    if access.roles is None:
        return None
    return {role: deepcopy(_RUN if run and right is DagRight.RUN else _VIEW) for role, right in access.roles.items()}


def unenforceable(access: Access) -> ConfigInvalid | None:
    """The error for which this Airflow cannot enforce an ``access`` section, None when it can."""
    manager = conf.get("core", "auth_manager")
    everybody_is_admin = _SIMPLE in manager and conf.getboolean("core", "simple_auth_manager_all_admins", fallback=False)
    if access.roles is not None and _FAB not in manager:
        return ConfigInvalid(
            f"access.roles: {manager.rpartition('.')[2]} gives no rights on single DAGs",
            next_step=str(enforce_roles()),
            auth_manager=manager,
        )
    if access.approval.restricts and everybody_is_admin:
        return ConfigInvalid(
            "access.approvers: everybody is the same administrator here (core.simple_auth_manager_all_admins)",
            next_step=str(enforce_approvers()),
            auth_manager=manager,
        )
    return None


def answers_by_name() -> bool:
    """Return True if the name of a user is also the id by which Airflow assigns a question to them."""
    return _SIMPLE in conf.get("core", "auth_manager")
