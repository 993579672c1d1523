"""Actions that can be started from the page: a DAG with its params filled in. The browser triggers it through Airflow's own API, which checks rights and
params.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.approval import refusal
from streams_recovery.core.forms import CONFIRM, SAVEPOINT, FieldKind, FormField
from streams_recovery.core.outputs.comparison import BEGIN, RELATIVE, TOLERANCE
from streams_recovery.core.repository.mirror import FROM_PLACE, Where
from streams_recovery.core.repository.sites import PRIMARY, SiteEntry, site_of
from streams_recovery.core.rescale.numbers import HISTORY, PARTITIONS
from streams_recovery.core.restore.failover import LOST, TO
from streams_recovery.core.restore.request import AS_OF, BASE, IN_PLACE, REASON, REPLACE, SAFETY, SOURCE
from streams_recovery.core.rollout.cutover import STEP
from streams_recovery.core.savepoint.request import REASON as SAVEPOINT_REASON
from streams_recovery.core.state.inspection import KEY, OTHER, STORE, STORES, TOPIC
from streams_recovery.core.status.instant import Instant, Way
from streams_recovery.core.words import LATEST, LIVE
from streams_recovery.ui.overview import iso


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One param in a form. ``kind`` is ``text``, ``switch``, ``choice`` or ``fixed``, which cannot be changed here. A choice with no value
    has to be made. ``ids`` are the application ids that a choice leads to: what is typed as confirmation.
    """

    name: str
    label: str
    kind: str = "text"
    value: str | bool = ""
    options: tuple[tuple[str, str], ...] = ()
    help: str = ""
    ids: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A button. ``destroys`` says what is replaced or deleted, empty when nothing is."""

    what: str
    label: str
    dag_id: str
    explains: str
    fields: tuple[Field, ...]
    destroys: str = ""


def actions(
    config: ApplicationConfig,
    plan: Instant,
    configured: Mapping[str, ApplicationConfig],
    may_trigger: Callable[[str], bool],
    *,
    entry: SiteEntry | None = None,
) -> tuple[Action, ...]:
    """The actions that this user may start, for the chosen instant. ``entry`` says at which site the application is."""
    return tuple(_possible(config, plan, configured, may_trigger, entry))


def lost_actions(config: ApplicationConfig, may_trigger: Callable[[str], bool]) -> tuple[Action, ...]:
    """The actions that this user may start while the repository does not answer: the way back from its second place."""
    dag = _dag("restore_full", config, may_trigger)
    if config.storage.second_place is None or dag is None:
        return ()
    action = _restore(config, LATEST, dag)
    place = _field(FROM_PLACE, kind="fixed", value=Where.MIRROR.value)
    return (
        replace(
            action,
            what="restore-from-second-place",
            label="Restore from the second place…",
            explains=f"{action.explains} It is refused while the first place answers and has savepoints.",
            fields=(*action.fields[:-1], place, action.fields[-1]),
        ),
    )


def approval(config: ApplicationConfig, user: str) -> dict[str, str | bool | None]:
    """The value of an approval by this user, as far as no single run matters: ``refused`` says why it would not count. With ``exclude_trigger`` it does not
    count for runs that ``user`` has triggered.
    """
    rule = config.access.approval
    named = replace(rule, exclude_trigger=False)
    return {
        "user": user,
        "refused": refusal(named, triggered_by=None, approved_by=user, cleared=False),
        "exclude_trigger": rule.exclude_trigger,
    }


def _dag(kind: str, config: ApplicationConfig, may_trigger: Callable[[str], bool]) -> tuple[str, bool] | None:
    """The DAG that restores this application and that the user may start, with whether it is the application's own."""
    if not config.has_dag(f"streams_{kind}"):
        return None
    if may_trigger(f"streams_{kind}_{config.name}"):
        return f"streams_{kind}_{config.name}", True
    return (f"streams_{kind}", False) if may_trigger(f"streams_{kind}") else None


def _possible(
    config: ApplicationConfig,
    plan: Instant,
    configured: Mapping[str, ApplicationConfig],
    may_trigger: Callable[[str], bool],
    entry: SiteEntry | None,
) -> Iterator[Action]:
    name, base = config.name, plan.base
    if base is not None and plan.way is not Way.REBUILD:
        if (dag := _dag("restore_full", config, may_trigger)) is not None:
            yield _restore(config, base.savepoint_id, dag)
        if plan.way is Way.MOMENT and (dag := _dag("restore_pitr", config, may_trigger)) is not None:
            yield _moment(config, plan.moment, configured, dag)
        if (dag := _dag("restore_rescale", config, may_trigger)) is not None:
            yield _rescale(config, dag)
        if config.sites and (dag := _dag("failover", config, may_trigger)) is not None:
            yield _failover(config, base.savepoint_id, dag, entry)
        for clone in (one for one in configured.values() if one.clone is not None and one.clone.of == name):
            if (dag := _dag("clone", clone, may_trigger)) is not None:
                yield _clone(clone, base.savepoint_id, dag)
        if may_trigger(f"streams_drill_{name}"):
            yield _drill(config, base.savepoint_id)
    if base is not None and plan.way is Way.REBUILD and (dag := _dag("restore_rebuild", config, may_trigger)) is not None:
        yield _rebuild(config, dag)
    yield from _of_now(config, may_trigger)


def _of_now(config: ApplicationConfig, may_trigger: Callable[[str], bool]) -> Iterator[Action]:
    """Actions that no instant matters for."""
    comparable = config.clone is not None or config.reprocess is not None
    if comparable and (dag := _dag("compare_outputs", config, may_trigger)) is not None:
        yield _compare_outputs(config, dag)
    if may_trigger(f"streams_backup_{config.name}"):
        yield _savepoint(config)


def _application(name: str, dag: tuple[str, bool]) -> tuple[Field, ...]:
    """A DAG of one application has no param for it."""
    return () if dag[1] else (Field(name="application", label="Application", kind="fixed", value=name),)


def _field(form: FormField, *, value: str | bool | None = None, **changed: Any) -> Field:
    """A field of a request's form, with the value that it begins with here."""
    kind = form.kind.value if form.kind in (FieldKind.SWITCH, FieldKind.CHOICE) else "text"
    begins = (form.default or (False if form.kind is FieldKind.SWITCH else "")) if value is None else value
    found = Field(name=form.name, label=form.title, kind=kind, value=begins, options=tuple(form.choices.items()), help=form.help or "")
    return replace(found, **changed)


def _replacing(app_id: str) -> tuple[Field, ...]:
    """``app_id`` is what has to be typed."""
    confirm = _field(
        CONFIRM, label=f"Confirmation: type {app_id}", help="Needed when state is replaced, or the safety savepoint is not required."
    )
    return (_field(REPLACE), _field(SAFETY), confirm, _field(REASON))


def _restore(config: ApplicationConfig, savepoint_id: str, dag: tuple[str, bool]) -> Action:
    return Action(
        what="restore",
        label="Restore…",
        dag_id=dag[0],
        explains="Brings the application back to the savepoint, in place. The run shows its exact plan and waits for an approval before it changes anything.",
        destroys=f"With “Replace running state” the internal topics of {config.application.id} are deleted and made again.",
        fields=(
            *_application(config.name, dag),
            _field(SAVEPOINT, value=savepoint_id),
            *_replacing(config.application.id),
        ),
    )


def _rescale(config: ApplicationConfig, dag: tuple[str, bool]) -> Action:
    confirm = _field(CONFIRM, label=f"Confirmation: type {config.application.id}")
    return Action(
        what="rescale",
        label="Rescale…",
        dag_id=dag[0],
        explains="Gives topics other numbers of partitions, with all state and unread input. The run shows its exact plan and waits for an approval before it "
        "changes anything.",
        destroys=f"{config.application.id} is stopped, and its internal topics, and inputs that are named, are deleted and made again.",
        fields=(*_application(config.name, dag), _field(PARTITIONS), _field(HISTORY), confirm, _field(REASON)),
    )


def _failover(config: ApplicationConfig, savepoint_id: str, dag: tuple[str, bool], entry: SiteEntry | None) -> Action:
    """An application that is on its way to a site can be brought there again, or back: which site it leaves then depends on the choice."""
    here = None if entry is not None and not entry.arrived else site_of(entry)
    others = [site for site in (PRIMARY, *config.sites) if site != here]
    left = "the site that it leaves" if here is None else here
    return Action(
        what="failover",
        label="Fail over…",
        dag_id=dag[0],
        explains="Moves the application to another site, with the state of the savepoint. The run shows its exact plan and waits for an approval before it "
        "changes anything.",
        destroys=f"{config.application.id} is stopped at {left}. With “Replace running state” its internal topics at the other site are deleted and made "
        "again.",
        fields=(
            *_application(config.name, dag),
            _field(TO, kind="choice", options=tuple((site, site) for site in others), value=others[0] if len(others) == 1 else ""),
            _field(LOST, label=LOST.title if here is None else f"{LOST.title}: type {here}"),
            _field(SAVEPOINT, value=savepoint_id),
            *_replacing(config.application.id),
        ),
    )


def _moment(config: ApplicationConfig, moment: int, configured: Mapping[str, ApplicationConfig], dag: tuple[str, bool]) -> Action:
    typed = config.application.id
    target: tuple[Field, ...] = ()
    if not dag[1]:
        typed = "the id of the application that gets the state"
        target = (_target(config, configured), _field(SOURCE, kind="fixed", value=config.name))
    return Action(
        what="moment",
        label="Go back to this instant…",
        dag_id=dag[0],
        explains="Brings a second application to this instant, or the application itself, in place. The run shows its exact plan and waits for an approval.",
        destroys="In place, input later than the instant is taken out of the inputs, for everybody who reads them.",
        fields=(
            *target,
            _field(AS_OF, value=iso(moment), help=""),
            _field(BASE),
            _field(IN_PLACE),
            *_replacing(typed),
        ),
    )


def _target(config: ApplicationConfig, configured: Mapping[str, ApplicationConfig]) -> Field:
    """Nothing is chosen beforehand: a restore into the wrong application replaces its state."""
    others = sorted(
        name
        for name, one in configured.items()
        if name != config.name and one.has_dag("streams_restore_pitr") and _takes_the_past(one, config)
    )
    return Field(
        name="application",
        label="Application that gets the state",
        kind="choice",
        options=(*((name, name) for name in others), (config.name, f"{config.name} itself, in place")),
        ids={name: configured[name].application.id for name in (*others, config.name)},
    )


def _takes_the_past(one: ApplicationConfig, source: ApplicationConfig) -> bool:
    """True if it reads the same repository, and the same inputs as copies or in another cluster."""
    # An application that only subscribes by pattern names no input.
    copies = bool(one.restore.topic_map) and set(source.topics.inputs) <= one.restore.topic_map.keys()
    return one.storage.location == source.storage.location and (copies or one.source.connection != source.source.connection)


def _clone(clone: ApplicationConfig, savepoint_id: str, dag: tuple[str, bool]) -> Action:
    return Action(
        what=f"clone-{clone.name}",
        label=f"Clone into {clone.name}…",
        dag_id=dag[0],
        explains="Starts the clone with this state beside the application, which keeps running.",
        destroys=f"With “Replace running state” the internal topics of {clone.application.id} are deleted and made again.",
        fields=(
            *_application(clone.name, dag),
            _field(STEP, kind="fixed", options=()),
            _field(SAVEPOINT, value=savepoint_id),
            *_replacing(clone.application.id),
        ),
    )


def _drill(config: ApplicationConfig, savepoint_id: str) -> Action:
    numbers = "" if config.drill is None else config.drill.numbers
    return Action(
        what="drill",
        label="Try it (drill)…",
        dag_id=f"streams_drill_{config.name}",
        explains="Restores the savepoint into an application of its own, measures the time, compares every record, and removes it."
        + (f" Its topics get other numbers of partitions: {numbers}." if numbers else ""),
        fields=(_field(SAVEPOINT, value=savepoint_id),),
    )


def _rebuild(config: ApplicationConfig, dag: tuple[str, bool]) -> Action:
    return Action(
        what="rebuild",
        label="Rebuild…",
        dag_id=dag[0],
        explains="Builds the state again from the input. The run shows its exact plan and waits for an approval.",
        destroys=f"With “Replace running state” the internal topics of {config.application.id} are deleted.",
        fields=(*_application(config.name, dag), *_replacing(config.application.id)),
    )


def _savepoint(config: ApplicationConfig) -> Action:
    return Action(
        what="savepoint",
        label="Take a savepoint…",
        dag_id=f"streams_backup_{config.name}",
        explains="Takes a savepoint now. The application is held for moments, as configured.",
        fields=(_field(SAVEPOINT_REASON),),
    )


def _compare_outputs(config: ApplicationConfig, dag: tuple[str, bool]) -> Action:
    return Action(
        what="compare-outputs",
        label="Compare outputs…",
        dag_id=dag[0],
        explains="Compares the real outputs key by key with those of the clone, or with the results of an interval. The result is shown here. Nothing is "
        "changed.",
        fields=(*_application(config.name, dag), _field(BEGIN), _field(TOLERANCE), _field(RELATIVE)),
    )


def savepoint_actions(config: ApplicationConfig, savepoint_id: str, may_trigger: Callable[[str], bool]) -> tuple[Action, ...]:
    """The actions on a savepoint that this user may start."""
    found = ((form, _dag(kind, config, may_trigger)) for kind, form in _LOOK_FORMS.items())
    return tuple(form(config, savepoint_id, dag) for form, dag in found if dag is not None)


def _compare(config: ApplicationConfig, savepoint_id: str, dag: tuple[str, bool]) -> Action:
    return Action(
        what="compare",
        label="Compare…",
        dag_id=dag[0],
        explains="Compares the stores key by key. The result is shown with the savepoint. Nothing is changed.",
        fields=(
            *_application(config.name, dag),
            _field(SAVEPOINT, value=savepoint_id, kind="fixed", help=""),
            _field(OTHER, value=LIVE),
            _field(STORES),
        ),
    )


def _look_up(config: ApplicationConfig, savepoint_id: str, dag: tuple[str, bool]) -> Action:
    return Action(
        what="look_up",
        label="Look up…",
        dag_id=dag[0],
        explains="Looks up a key of a store, or the newest records of a topic. The result is shown with the savepoint. Nothing is changed.",
        fields=(
            *_application(config.name, dag),
            _field(SAVEPOINT, value=savepoint_id, kind="fixed", help=""),
            _field(STORE),
            _field(KEY),
            _field(TOPIC),
        ),
    )


_LOOK_FORMS: Final = {"compare": _compare, "look_up": _look_up}
