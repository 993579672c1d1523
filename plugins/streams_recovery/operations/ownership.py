"""The role of an application: live, a standby clone, or retired in favour of its clone. Every start goes by it.

The repository says so, and a stranger may have written that. So a start asks the configuration, the other application, its group and its log as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from streams_recovery.application.factory import open_application
from streams_recovery.application.port import (
    InstanceState,
    InstanceStatus,
    StateSince,
    StopReport,
    StreamsApplication,
    WipeMark,
    WipeReport,
)
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.sandbox_application import live
from streams_recovery.core.errors import RecoveryError
from streams_recovery.core.escaping import logger
from streams_recovery.core.group_members import state_by_group
from streams_recovery.core.kafka_types import QuiesceMode, TopicPartition
from streams_recovery.core.names import is_name
from streams_recovery.core.preflight.findings import PreflightFinding
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.ownership import (
    Agreed,
    Counterpart,
    OwnershipEntry,
    Role,
    against_live,
    agreed,
    moved_since,
    not_live,
    start_as,
    two_writers,
)
from streams_recovery.core.savepoint.cut import QuiesceRecord
from streams_recovery.core.state.key_query import KeyAnswer, KeyQuestion
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.repository import Repository

if TYPE_CHECKING:
    from streams_recovery.core.rollout.described import DescribedTopology
    from streams_recovery.kafka.groups import ConsumerGroups

LOGGER = logger("streams_recovery.operations.ownership")
# Every configured application, by name.
Applications = Callable[[], Mapping[str, ApplicationConfig]]


def ownership_log(repository: Repository, layout: Layout) -> AppendLog[OwnershipEntry]:
    """The log of what an application has been."""
    return AppendLog(repository, layout.ownership, OwnershipEntry, restricts=lambda entry: entry.role is Role.RETIRED)


def entries_of(log: AppendLog[OwnershipEntry]) -> list[OwnershipEntry]:
    """What such a log has, oldest first. An entry that cannot be read is passed over."""
    return list(log.readable_back(whole=False))[::-1]


def _related(one: ApplicationConfig, other: ApplicationConfig) -> bool:
    """True when one of the two is configured as a clone of the other, or both write the same outputs."""
    clones = (one.clone is not None and one.clone.of == other.name) or (other.clone is not None and other.clone.of == one.name)
    return clones or not {*_written(one)}.isdisjoint(_written(other))


def _written(config: ApplicationConfig) -> tuple[str, ...]:
    return config.topics.outputs if config.clone is None else (*config.topics.outputs, *live(config).topics.outputs)


def _other(
    config: ApplicationConfig, last: OwnershipEntry | None, applications: Mapping[str, ApplicationConfig]
) -> ApplicationConfig | None:
    """The other application of the pair. For a clone it is the configured original, else the application that the log names."""
    named = next((one for one in applications.values() if last is not None and one.application.id == last.other), None)
    if config.clone is not None and (last is None or last.role is not Role.RETIRED) and not _is_child(named, config):
        return applications.get(config.clone.of)
    return named


def _is_child(other: ApplicationConfig | None, config: ApplicationConfig) -> bool:
    return other is not None and other.clone is not None and other.clone.of == config.name


def _family(config: ApplicationConfig, applications: Mapping[str, ApplicationConfig]) -> list[ApplicationConfig]:
    """Every other application that may have the outputs of this one: all that a chain of clones connects with it."""
    pairs = [(name, one.clone.of) for name, one in {**applications, config.name: config}.items() if one.clone is not None]
    names = {config.name}
    while more := {name for pair in pairs if names.intersection(pair) for name in pair} - names:
        names |= more
    return [
        one for name, one in sorted(applications.items()) if name in names - {config.name} and one.application.id != config.application.id
    ]


def agreed_by_logs(config: ApplicationConfig, repository: Repository, applications: Mapping[str, ApplicationConfig]) -> tuple[str, Agreed]:
    """The role of a clone by its own log and that of its original, with the id of the original. An entry that cannot be read is passed over."""
    own = entries_of(ownership_log(repository, Layout(config.application.id)))
    of = applications.get(config.clone.of) if config.clone is not None else None
    named = next((entry.other for entry in own if entry.role is Role.LIVE), "")
    other = of.application.id if of is not None else named if is_name(named) else ""
    theirs = entries_of(ownership_log(repository, Layout(other))) if other and own else []
    return other, agreed(own, theirs, application_id=config.application.id, of=other)


def current_owner(config: ApplicationConfig, repository: Repository, applications: Applications) -> ApplicationConfig:
    """The configuration in force: a live clone has the real outputs. The repository is asked for clones only. A clone's log counts only if the log of the other
    application agrees. No cluster is asked.
    """
    if config.clone is None:
        return config
    last = next(ownership_log(repository, Layout(config.application.id)).readable_back(whole=False), None)
    if last is None:
        return config
    found = agreed_by_logs(config, repository, applications())[1].role
    if last.role not in (found, Role.RETIRED):
        LOGGER.warning(
            "%s is on record as %s towards %s by run %s, and both logs together say that it is %s: that counts",
            config.application.id,
            last.role,
            last.other,
            last.run,
            found,
        )
    return live(config) if found is Role.LIVE else config


class MayStart(Protocol):
    """Raises ``Refused`` where an application may not be started. ``own``: this run itself has stopped it, under a lock that it still holds."""

    def __call__(self, *, own: bool) -> None: ...


def _anybody(*, own: bool) -> None:
    """Nothing besides its role keeps it down."""


def topology_of(config: ApplicationConfig) -> DescribedTopology | None:
    """The topology of a running instance of an application that a run is not about. None where no instance tells it."""
    return open_application(config.runs, config.application.id, config.application.kind).topology()


class StartedByRole:
    """An application that is started in its present role: a clone with its own outputs or with the real ones, a replaced application not at all. Its caller (a
    restore, a savepoint that had stopped it, a run) need not know the role. ``may_start`` is asked first: it raises ``Refused`` where the application belongs
    to another site, or runs there. It is told whether this run itself has stopped the application, under a lock that it still holds.
    """

    def __init__(
        self,
        config: ApplicationConfig,
        repository: Repository,
        groups: ConsumerGroups,
        applications: Applications,
        may_start: MayStart = _anybody,
    ) -> None:
        self._config, self._id, self._repository, self._groups, self._applications = (
            config,
            config.application.id,
            repository,
            groups,
            applications,
        )
        self._may_start = may_start
        self._log = ownership_log(repository, Layout(self._id))
        self._application: StreamsApplication = open_application(config.runs, self._id, config.application.kind)
        self._live = None if config.clone is None else open_application(live(config).runs, self._id, config.application.kind)

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Launch every instance that is gone. Raises ``Refused`` when its clone writes the outputs, and wherever two might write them."""
        self._start(self._role_by_log, environment, own=False)

    def restart(self, *, ran: Role | None) -> None:
        """Launch what a savepoint had stopped. ``ran`` is the role in which this very run stopped the application, under a lock that the run still holds: that
        role is kept, whatever was added to a log or committed since. None: the run that has stopped it is dead, and outputs that were transferred since stay
        so. Raises ``Refused`` where two would write them.
        """
        if ran is not None:
            self._start(lambda: ran, None, own=True)
            return
        last = self._log.last()
        # A cut-over or a way back that was killed half way leaves one that is retired, or a standby that must not read on.
        had = last is not None and last.role is Role.LIVE
        self._start(self._role_it_had if had else self._role_by_log, None, own=False)

    def _start(self, role: Callable[[], Role], environment: Mapping[str, str] | None, *, own: bool) -> None:
        """The one door: nothing else in this project starts an application."""
        self._may_start(own=own)
        chosen = role()
        self._refuse_second_writer(chosen)
        self._as(chosen).start(environment)

    def _role_by_log(self) -> Role:
        last = self._log.last()
        if last is None and self._live is None:
            return Role.LIVE
        seen = self.counterpart(last)
        role = start_as(last, seen, application_id=self._id, is_clone=self._live is not None)
        if last is not None and last.role is Role.RETIRED:
            LOGGER.warning(
                "%s is on record as retired for %s by run %s, which is not so by what is configured and seen: it is started",
                self._id,
                last.other,
                last.run,
            )
        # What is no clone has no outputs but the real ones, whatever its log calls it.
        had = self._live is None or seen.child or (last is not None and last.role is Role.RETIRED)
        return self._role_it_had() if had else role

    def role(self) -> Role:
        """Its role by both logs, in which it runs. No cluster is asked."""
        return Role.LIVE if self._live is None else agreed_by_logs(self._config, self._repository, self._applications())[1].role

    def _role_it_had(self) -> Role:
        """Its role by both logs. Raises ``Refused`` for a clone that is live by them while the other application has moved since, or is in use: started as a
        standby the clone would write nothing to the real outputs, without any message.
        """
        if self._live is None:
            return Role.LIVE
        applications = self._applications()
        other, found = agreed_by_logs(self._config, self._repository, applications)
        if found.role is not Role.LIVE or found.theirs is None:
            return Role.STANDBY
        of = next((one for one in applications.values() if one.application.id == other), None)
        if against := against_live(other, moved_since(found.theirs, self._committed(other)), self._in_use(other, of)):
            raise not_live(self._id, other, against)
        return Role.LIVE

    def refuse_stop(self) -> None:
        """Raise ``Refused`` when what runs could not be started again as what it is, because another application writes the same outputs or has written them
        since. Called before a stop.
        """
        self._refuse_second_writer(self._role_it_had())

    def _refuse_second_writer(self, role: Role) -> None:
        """Raise ``Refused`` if another application of the family has the outputs and is in use: only one may write them, whatever the log of this one says."""
        if role is not Role.LIVE:
            return
        applications = self._applications()
        for other in _family(self._config, applications):
            has_them = other.clone is None or agreed_by_logs(other, self._repository, applications)[1].role is Role.LIVE
            if has_them and (in_use := self._in_use(other.application.id, other)):
                raise two_writers(self._id, other.application.id, in_use)

    def _as(self, role: Role) -> StreamsApplication:
        return self._live if self._live is not None and role is Role.LIVE else self._application

    def counterpart(self, last: OwnershipEntry | None) -> Counterpart:
        """Look at the other application that this entry concerns."""
        applications = self._applications()
        other = _other(self._config, last, applications)
        other_id = other.application.id if other is not None else "" if last is None else last.other
        if not is_name(other_id):
            return Counterpart(other=other_id, related=False, moved=(), in_use=(), last=None)
        theirs = ownership_log(self._repository, Layout(other_id)).last()
        retired = [(name, one) for name, one in ((self._id, last), (other_id, theirs)) if one is not None and one.role is Role.RETIRED]
        # What a plain start needs no proof of is not asked for.
        asked = last is not None and last.role is not Role.STANDBY
        return Counterpart(
            other=other_id,
            related=self._config.name not in applications or (other is not None and _related(self._config, other)),
            moved=tuple(name for who, entry in retired[:1] for name in moved_since(entry, self._committed(who))),
            in_use=(*self._in_use(other_id, other), *self._held(other_id)) if asked else (),
            last=theirs,
            child=_is_child(other, self._config),
        )

    def _committed(self, application_id: str) -> dict[TopicPartition, int]:
        partitions = self._groups.committed_partitions(application_id)
        found = self._groups.committed(application_id, partitions) if partitions else {}
        return {tp: known.offset for tp, known in found.items() if known is not None}

    def _held(self, application_id: str) -> tuple[str, ...]:
        """A savepoint that has stopped the other one starts it again."""
        log = AppendLog(self._repository, Layout(application_id).quiesce_records, QuiesceRecord)
        held = next(log.readable_back(whole=False), None)
        stopped = held is not None and held.kind == "begins" and held.mode is QuiesceMode.STOP
        return (f"run {held.run} has stopped it and starts it again",) if held is not None and stopped else ()

    def _in_use(self, application_id: str, config: ApplicationConfig | None) -> tuple[str, ...]:
        statuses = () if config is None else open_application(config.runs, application_id, config.application.kind).status()
        alive = [f"{one.name} ({one.detail})" for one in statuses if one.state is not InstanceState.GONE]
        group = self._groups.describe(application_id)
        return (*alive, *(() if group.empty else (f"consumer group {application_id} in state {group.state}",)))

    @property
    def can_pause(self) -> bool:
        """See the port."""
        return self._application.can_pause

    def status(self) -> tuple[InstanceStatus, ...]:
        """See the port, as for the others below. Instances that have no way to say how they are get a state by the members of the group."""
        statuses = self._application.status()
        running = [one for one in statuses if one.silent and one.state is InstanceState.RUNNING and one.streams_state is None]
        if not running:
            return statuses
        try:
            group = self._groups.describe(self._id)
        except RecoveryError:
            # A cluster that does not answer keeps nobody from stopping an application.
            return statuses
        word = state_by_group(group.state, group.members, sum(one.state is not InstanceState.GONE for one in statuses))
        return tuple(replace(one, streams_state=word) if one in running else one for one in statuses)

    def require_same_version(self) -> None:
        """See the port."""
        self._application.require_same_version()

    def stop(self, *, timeout: float) -> StopReport:
        """End every instance."""
        return self._application.stop(timeout=timeout)

    def pause(self) -> None:
        self._application.pause()

    def resume(self) -> None:
        """Let it process again."""
        self._application.resume()

    def wipe_state(self) -> WipeReport:
        """Remove local state."""
        return self._application.wipe_state()

    def state_since(self, marks: Sequence[WipeMark]) -> StateSince:
        """The age of local state."""
        return self._application.state_since(marks)

    def query(self, store: str) -> dict[str, object]:
        """Every key of a store."""
        return self._application.query(store)

    def query_keys(self, questions: Sequence[KeyQuestion], *, seconds: float | None = None) -> tuple[KeyAnswer, ...]:
        """The values of keys of stores."""
        return self._application.query_keys(questions, seconds=seconds)

    def topology(self) -> DescribedTopology | None:
        """The topology of a running instance."""
        return self._application.topology()

    def preflight(self, *, stops: bool, wipes: bool = False) -> tuple[PreflightFinding, ...]:
        """Findings that would keep the verbs from working."""
        return self._application.preflight(stops=stops, wipes=wipes)


def start_again(application: StreamsApplication, *, ran: Role | None) -> None:
    """Launch what a run has stopped. ``ran``: the role in which this run itself has stopped it, under a lock that it still holds."""
    if isinstance(application, StartedByRole):
        application.restart(ran=ran)
    else:
        application.start()


def role_by_logs(application: StreamsApplication) -> Role:
    """The role that an application has by both logs."""
    return application.role() if isinstance(application, StartedByRole) else Role.LIVE


def refuse_stop(application: StreamsApplication) -> None:
    """Raise ``Refused`` when an application could not be started again as what it is, because another one writes the same outputs or has since."""
    if isinstance(application, StartedByRole):
        application.refuse_stop()
