"""What an application is, by the repository: live, a standby clone, or retired in favour of its clone. Every start goes by it."""

from __future__ import annotations

from collections.abc import Mapping

from streams_recovery.application.factory import open_application
from streams_recovery.application.port import InstanceStatus, StopReport, StreamsApplication, WipeReport
from streams_recovery.config.clone_application import live
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.preflight.findings import PreflightFinding
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.ownership import OwnershipEntry, Role, require_startable, role_of
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.repository import Repository


def ownership_log(repository: Repository, layout: Layout) -> AppendLog[OwnershipEntry]:
    """The log of what an application has been."""
    return AppendLog(repository, layout.ownership, OwnershipEntry)


def current_owner(config: ApplicationConfig, log: AppendLog[OwnershipEntry]) -> ApplicationConfig:
    """The configuration that counts: a clone that is live has the real outputs. Only for a clone the log is read."""
    if config.clone is None:
        return config
    return live(config) if role_of(log.last(), is_clone=True) is Role.LIVE else config


class StartedByRole:
    """An application that is started as what it is at that moment: a clone with its own outputs or with the real ones, one that was replaced not at
    all. Whoever starts it (a restore, a savepoint that had stopped it, a run) need not know.
    """

    def __init__(self, config: ApplicationConfig, log: AppendLog[OwnershipEntry]) -> None:
        self._id, self._log = config.application.id, log
        self._application: StreamsApplication = open_application(config.runs, self._id)
        self._live = None if config.clone is None else open_application(live(config).runs, self._id)

    @property
    def can_pause(self) -> bool:
        """See the port."""
        return self._application.can_pause

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Launch every instance that is gone. Raises ``Refused`` when its clone writes the outputs."""
        last = self._log.last()
        require_startable(last, self._id)
        with_real = self._live if role_of(last, is_clone=self._live is not None) is Role.LIVE else None
        (with_real or self._application).start(environment)

    def status(self) -> tuple[InstanceStatus, ...]:
        """See the port, as for the others below."""
        return self._application.status()

    def stop(self, *, timeout: float) -> StopReport:
        """End every instance."""
        return self._application.stop(timeout=timeout)

    def pause(self) -> None:
        """Hold processing."""
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

    def preflight(self, *, stops: bool, wipes: bool = False) -> tuple[PreflightFinding, ...]:
        """What would keep the verbs from working."""
        return self._application.preflight(stops=stops, wipes=wipes)
