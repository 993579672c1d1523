"""Configurations against each other: those that are each valid and cannot both be right, and the topics that are another one's."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import PurePath

from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.rules import AFTER_SAVEPOINTS
from streams_recovery.config.sandbox import clash
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.escaping import visible
from streams_recovery.core.panels import GROUPS


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A mistake, the applications that have it, and what to do."""

    reason: str
    names: frozenset[str]
    next_step: str


def contradictions(configs: Mapping[str, ApplicationConfig], *, configured: Collection[str]) -> dict[str, ConfigInvalid]:
    """The mistake of each application that contradicts another one, by name. Only a person knows which of the two is right, so both are named. ``configured``
    are all names that there are, those of files that could not be read as well.
    """
    found: dict[str, list[Contradiction]] = {}
    for one in (
        *_same_application(configs),
        *_same_instances(configs),
        *_same_dags(configs),
        *_shared_topics(configs),
        *_clones_without_original(configs, configured),
        *_unknown_sources(configs, configured),
        *_scheduled_and_off(configs),
        *_behind_nothing(configs),
    ):
        for name in one.names:
            found.setdefault(name, []).append(one)
    return {name: _together(several) for name, several in found.items()}


def neighbours(config: ApplicationConfig, configs: Mapping[str, ApplicationConfig]) -> dict[str, frozenset[str]]:
    """The other applications among ``configs`` that are reached by the same connection, and what their drills and intervals run as: the changelogs of their
    stores by application id.
    """
    found: dict[str, frozenset[str]] = {}
    for name, other in configs.items():
        if name == config.name.partition(":")[0] or config.source.connection not in _connections(other):
            continue
        sandboxes = (section.application_id for section in (other.drill, other.reprocess) if section is not None and section.enabled)
        for application_id in (other.application.id, *sandboxes):
            changelogs = (name.replace(other.application.id, application_id, 1) for name in other.changelogs.values())
            found[application_id] = found.get(application_id, frozenset()).union(changelogs)
    found.pop(config.application.id, None)
    return found


def _connections(config: ApplicationConfig) -> frozenset[str]:
    """The clusters of all its sites. That of a configuration at one site is among them: it was written so."""
    return frozenset({config.source.connection, *(site.connection for site in config.sites.values())})


def _same_application(configs: Mapping[str, ApplicationConfig]) -> Iterator[Contradiction]:
    for (one, first), (other, second) in combinations(configs.items(), 2):
        shared = _connections(first) & _connections(second)
        if shared and first.application.id == second.application.id:
            yield Contradiction(
                f"{other} and {one} both describe the application {first.application.id} on {min(shared)}",
                frozenset({one, other}),
                "keep one of the two files: two schedules would work on one consumer group",
            )


def _same_instances(configs: Mapping[str, ApplicationConfig]) -> Iterator[Contradiction]:
    """Files that were copied and half changed: a stop of one application would stop the other one, or remove its state."""
    users: dict[str, set[str]] = {}
    for name, config in configs.items():
        state = PurePath(*config.dialect.state_directory(config.application.id).parts)
        for runs in (config.runs, *(site.runs for site in config.sites.values())):
            for what in runs.chosen.reached(state):
                users.setdefault(what, set()).add(name)
    # One thing that they share is enough: two copies share every instance.
    shared = {frozenset(names): what for what, names in reversed(users.items()) if len(names) > 1}
    for names, what in shared.items():
        yield Contradiction(
            f"runs of {' and '.join(sorted(names))} are about the same: {what}; to stop one would be to stop the other",
            names,
            "give each application what is its own: runs.process.directory, addresses and state directories, or a workload",
        )


def _same_dags(configs: Mapping[str, ApplicationConfig]) -> Iterator[Contradiction]:
    """Names by which two DAGs would have one id: rights on one, and what the page starts, would be about the other."""
    longer = {(short, other.removeprefix(f"{short}_")) for short in GROUPS for other in GROUPS if other.startswith(f"{short}_")}
    for name, config in configs.items():
        for short, rest in sorted(longer):
            other = name.removeprefix(f"{rest}_")
            both = other != name and other in configs
            if name == rest or (both and (config.access.own_dags or configs[other].access.own_dags)):
                whose = f"that of {other}" if name != rest else "that of all applications"
                yield Contradiction(
                    f"a DAG of {name} would have the id {short}_{name}, and that is {whose}",
                    frozenset({name} if name == rest else {name, other}),
                    f"give {name} a name that does not begin with {rest}",
                )


def _shared_topics(configs: Mapping[str, ApplicationConfig]) -> Iterator[Contradiction]:
    """Drills and reprocessing remove topics that begin with their application ids, so no other application may have these ids."""
    ids = [(name, name, config.application.id) for name, config in configs.items()]
    scratch = []
    for name, config in configs.items():
        if config.drill is not None and config.drill.enabled:
            scratch.append((name, f"the drill of {name}", config.drill.application_id))
        if config.reprocess is not None and config.reprocess.enabled:
            scratch.append((name, f"reprocessing of {name}", config.reprocess.application_id))
    for owner, what, mine in scratch:
        for other, whose, theirs in (*ids, *scratch):
            if what != whose and clash(mine, theirs):
                yield Contradiction(
                    f"{what} and {whose} would share topics: {mine} and {theirs}",
                    frozenset({owner, other}),
                    "give it an application id of its own that no other begins with",
                )


def _clones_without_original(configs: Mapping[str, ApplicationConfig], configured: Collection[str]) -> Iterator[Contradiction]:
    for name, config in configs.items():
        if config.clone is not None and config.clone.of not in configured:
            yield Contradiction(
                f"{name} is a clone of {config.clone.of}, which is not configured; known: {', '.join(sorted(configured))}",
                frozenset({name}),
                "correct clone.of; once the old application is given up, name the real outputs in topics.outputs and remove the clone section",
            )


def _unknown_sources(configs: Mapping[str, ApplicationConfig], configured: Collection[str]) -> Iterator[Contradiction]:
    for name, config in configs.items():
        unknown = [source for source in config.access.sources if source not in configured]
        if unknown:
            yield Contradiction(
                f"access.sources of {name}: {', '.join(unknown)} is not configured; known: {', '.join(sorted(configured))}",
                frozenset({name}),
                "correct access.sources",
            )


def _scheduled_and_off(configs: Mapping[str, ApplicationConfig]) -> Iterator[Contradiction]:
    """Groups that are off and have DAGs that are to run by themselves: no savepoint would be taken, none would expire, and nobody would be told."""
    for name, config in configs.items():
        for group in dict.fromkeys(config.dags.without):
            runs = [one for one in _scheduled(config) if GROUPS[one.dag_id] is group]
            if runs:
                yield Contradiction(
                    f"dags.without of {name} has '{group}', and DAGs of that group are to run by themselves: {', '.join(one.because for one in runs)}",
                    frozenset({name}),
                    f"take '{group}' out of dags.without, or write {' and '.join(one.never for one in runs)}",
                )


def _behind_nothing(configs: Mapping[str, ApplicationConfig]) -> Iterator[Contradiction]:
    """Second places that are to be filled behind savepoints that no schedule takes."""
    for name, config in configs.items():
        second = config.storage.second_place
        if second is not None and second.schedule == AFTER_SAVEPOINTS and config.backup.schedule is None:
            yield Contradiction(
                f"storage.mirror.schedule of {name} is {AFTER_SAVEPOINTS}, and backup.schedule is none: the second place would be filled behind nothing",
                frozenset({name}),
                "give storage.mirror.schedule times of its own, or write none there and fill it by `streams-recovery mirror`",
            )


@dataclass(frozen=True, slots=True)
class _Scheduled:
    """A DAG that is to run by itself, ``because`` of a key, and what to write if it is ``never`` to."""

    dag_id: str
    because: str
    never: str


def _scheduled(config: ApplicationConfig) -> Iterator[_Scheduled]:
    sections = {
        "streams_backup": ("backup", config.backup.schedule),
        "streams_check": ("check", config.check.schedule),
        "streams_monitor": ("monitor", config.monitor.schedule),
        "streams_run": ("run", config.run.schedule),
        "streams_drill": ("drill", config.drill.schedule if config.drill is not None and config.drill.enabled else None),
        "streams_compact": ("compact", config.compact.schedule),
        "streams_expire": ("retention", config.retention.schedule),
        "streams_mirror": ("storage.mirror", None if config.storage.second_place is None else config.storage.second_place.schedule),
    }
    for dag_id, (section, schedule) in sections.items():
        if schedule is not None:
            yield _Scheduled(dag_id, f"{section}.schedule is {schedule}", f"{section}.schedule: none")
    if config.archive.enabled and config.archive.dag:
        yield _Scheduled("streams_archive", "archive.enabled is true", "archive.dag: false")


def _together(several: list[Contradiction]) -> ConfigInvalid:
    return ConfigInvalid(
        "\n".join(dict.fromkeys(visible(one.reason) for one in several)),
        next_step="; ".join(dict.fromkeys(one.next_step for one in several)),
        names=sorted({name for one in several for name in one.names}),
    )
