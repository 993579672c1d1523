"""The role of an application: live, a standby clone, or retired in favour of its clone. Every start goes by it.

The repository says so, and somebody else may have written that. So a start asks the configuration, the other application, its group and its log as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from streams_recovery.application.factory import open_application
from streams_recovery.application.port import InstanceState, InstanceStatus, StopReport, StreamsApplication, WipeReport
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.sandbox_application import live
from streams_recovery.core.escaping import logger
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.names import is_name
from streams_recovery.core.preflight.findings import PreflightFinding
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.ownership import Counterpart, OwnershipEntry, Role, logs_agree, moved_since, start_as
from streams_recovery.core.state.key_query import KeyAnswer, KeyQuestion
from streams_recovery.kafka.groups import ConsumerGroups
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.repository import Repository

LOGGER = logger("streams_recovery.operations.ownership")
# Every configured application, by name.
Applications = Callable[[], Mapping[str, ApplicationConfig]]


def ownership_log(repository: Repository, layout: Layout) -> AppendLog[OwnershipEntry]:
    """The log of what an application has been."""
    return AppendLog(repository, layout.ownership, OwnershipEntry)


def _related(one: ApplicationConfig, other: ApplicationConfig) -> bool:
    """True when one of the two is configured as a clone of the other, or both write the same outputs."""
    clones = (one.clone is not None and one.clone.of == other.name) or (other.clone is not None and other.clone.of == one.name)
    return clones or not {*_written(one)}.isdisjoint(_written(other))


def _written(config: ApplicationConfig) -> tuple[str, ...]:
    return config.topics.outputs if config.clone is None else (*config.topics.outputs, *live(config).topics.outputs)


def _other(
    config: ApplicationConfig, last: OwnershipEntry | None, applications: Mapping[str, ApplicationConfig]
) -> ApplicationConfig | None:
    """The one that outputs are transferred from or to: of a clone that which it is configured as a clone of, else that which the log names."""
    if config.clone is not None and (last is None or last.role is not Role.RETIRED):
        return applications.get(config.clone.of)
    return next((one for one in applications.values() if last is not None and one.application.id == last.other), None)


def current_owner(config: ApplicationConfig, repository: Repository, applications: Applications) -> ApplicationConfig:
    """The configuration that counts: a clone that is live has the real outputs. Only of a clone the repository is asked, and its log counts only where that
    of the other application agrees; no cluster is asked.
    """
    if config.clone is None:
        return config
    last = ownership_log(repository, Layout(config.application.id)).last()
    if last is None or last.role is not Role.LIVE:
        return config
    of = applications().get(config.clone.of)
    theirs = ownership_log(repository, Layout(last.other)).last() if is_name(last.other) else None
    if logs_agree(last, None if of is None else of.application.id, theirs, application_id=config.application.id):
        return live(config)
    LOGGER.warning(
        "%s is on record as live for %s by run %s, and the log of %s does not agree: it counts as a clone with outputs of its own",
        config.application.id,
        last.other,
        last.run,
        last.other,
    )
    return config


class MayStart(Protocol):
    """Raises ``Refused`` where an application may not be started. ``own``: this run itself has stopped it, under a lock that it still holds."""

    def __call__(self, *, own: bool) -> None: ...


def _anybody(*, own: bool) -> None:
    """Nothing besides its role keeps it down."""


class StartedByRole:
    """An application that is started as what it is at that moment: a clone with its own outputs or with the real ones, one that was replaced not at
    all. Whoever starts it (a restore, a savepoint that had stopped it, a run) need not know. ``may_start`` is asked first: it raises ``Refused`` where the
    application belongs to another site, or runs there. It is told whether this run itself has stopped the application, under a lock that it still holds.
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
        self._start(environment, own=False)

    def _start(self, environment: Mapping[str, str] | None, *, own: bool) -> None:
        self._may_start(own=own)
        last = self._log.last()
        role = Role.LIVE
        if last is not None or self._live is not None:
            role = start_as(last, self.counterpart(last), application_id=self._id, is_clone=self._live is not None)
            if last is not None and last.role is Role.RETIRED:
                LOGGER.warning(
                    "%s is on record as retired for %s by run %s, which is not so by what is configured and seen: it is started",
                    self._id,
                    last.other,
                    last.run,
                )
        self._as(role).start(environment)

    def restart(self) -> None:
        """Launch what this run itself has stopped, under a lock that it still holds: it ran, and nobody else can have retired it since."""
        last = self._log.last()
        if last is None or last.role is not Role.RETIRED:
            self._start(None, own=True)
            return
        self._may_start(own=True)
        LOGGER.warning("%s ran although it is on record as retired for %s by run %s: it is started again", self._id, last.other, last.run)
        self._application.start()

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
            in_use=self._in_use(other_id, other) if asked else (),
            last=theirs,
        )

    def _committed(self, application_id: str) -> dict[TopicPartition, int]:
        partitions = self._groups.committed_partitions(application_id)
        found = self._groups.committed(application_id, partitions) if partitions else {}
        return {tp: known.offset for tp, known in found.items() if known is not None}

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
        """See the port, as for the others below."""
        return self._application.status()

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

    def query(self, store: str) -> dict[str, object]:
        """Every key of a store."""
        return self._application.query(store)

    def query_keys(self, questions: Sequence[KeyQuestion], *, seconds: float | None = None) -> tuple[KeyAnswer, ...]:
        """The values of keys of stores."""
        return self._application.query_keys(questions, seconds=seconds)

    def preflight(self, *, stops: bool, wipes: bool = False) -> tuple[PreflightFinding, ...]:
        """Findings that would keep the verbs from working."""
        return self._application.preflight(stops=stops, wipes=wipes)


def start_again(application: StreamsApplication) -> None:
    """Launch what this run itself has stopped, under a lock that it still holds."""
    if isinstance(application, StartedByRole):
        application.restart()
    else:
        application.start()
