"""The sites of an application: its current site, what is seen of the others, and instances there that must not run.

The log of sites is data, and a stranger may have written it. So it can name no site that is not configured, and a start asks the other sites as well.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from streams_recovery.application.port import InstanceState
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.sandbox_application import SandboxApplication
from streams_recovery.core.errors import RecoveryError, Refused
from streams_recovery.core.escaping import logger
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.sites import (
    PRIMARY,
    Fence,
    SeenSite,
    SiteEntry,
    require_nowhere_else,
    require_site,
    site_of,
)
from streams_recovery.operations.bring_down import Running, bring_down
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.site_log import entry_in, site_log

if TYPE_CHECKING:
    from streams_recovery.kafka.cluster import KafkaCluster

LOGGER = logger("streams_recovery.operations.sites")
# Another site is asked before every start. One that is lost must not hold the others up for long.
LOOK_SECONDS: Final = 5.0
# Runs of a sandbox do not overlap, so one that has just ended is among the newest.
_NEWEST: Final = 20


class Elsewhere(Running, Protocol):
    """The part of a context at another site that is needed."""

    @property
    def cluster(self) -> KafkaCluster: ...


class Sites:
    """The sites of one application. ``config`` is the configuration as it was written, ``at`` opens the application at a site."""

    def __init__(
        self,
        config: ApplicationConfig,
        repository: Repository,
        clock: Callable[[], int],
        at: Callable[[str], AbstractContextManager[Elsewhere]],
    ) -> None:
        self._config, self._repository, self._clock, self._at = config, repository, clock, at
        self._layout = Layout(config.application.id)
        self.log = site_log(repository, self._layout)

    @property
    def names(self) -> tuple[str, ...]:
        """All sites that are configured, the primary one first."""
        return (PRIMARY, *self._config.sites)

    @property
    def written(self) -> ApplicationConfig:
        """The configuration as it was written, which is that of no site but the primary one."""
        return self._config

    def entry(self) -> SiteEntry | None:
        """See ``entry_in``."""
        return entry_in(self._repository, self._layout)

    def current(self) -> str:
        """The site that the application belongs to. Where none is configured but the primary one, the repository is not asked."""
        return site_of(self.entry()) if self._config.sites else PRIMARY

    def destined(self) -> str:
        """The site for a run that begins now: the site that the application belongs to."""
        return self.current()

    def look(self, site: str) -> SeenSite:
        """Look at a site. What cannot be asked is named, never taken for nothing."""
        cluster_id = ""
        instances: tuple[str, ...] = ()
        members: tuple[str, ...] = ()
        unseen: list[str] = []
        with self._at(site) as there:
            try:
                instances = tuple(f"{one.name} ({one.detail})" for one in there.application.status() if one.state is not InstanceState.GONE)
            except RecoveryError as error:
                unseen.append(f"instances: {error.reason}")
            try:
                cluster_id = there.cluster.cluster_id()
                group = there.groups.describe(there.application_id)
                members = () if group.empty else (f"consumer group {there.application_id} in state {group.state}",)
            except RecoveryError as error:
                unseen.append(f"cluster: {error.reason}")
        return SeenSite(site=site, cluster_id=cluster_id, instances=instances, members=members, unseen=tuple(unseen))

    def require_start(self, here: str, *, own: bool) -> None:
        """Raise ``Refused`` unless the application belongs to the site ``here`` and runs at no other one. Nothing is stopped for a start that no person has
        approved: the log alone says which of two is wanted, and it may be forged.

        ``own``: this very run has stopped it here, under a lock that it still holds. No other run can have moved it since. So an entry against that was written
        by a stranger, and must not leave it down.
        """
        entry = self.entry()
        if own and site_of(entry) != here:
            LOGGER.warning(
                "%s is on record at the site %s by run %s, and was stopped at %s by this run: it is started again there",
                self._config.application.id,
                site_of(entry),
                None if entry is None else entry.run,
                here,
            )
            entry = None
        else:
            require_site(entry, here, application_id=self._config.application.id)
        if not self._config.sites:
            return
        seen = [self.look(site) for site in self.names if site != here]
        require_nowhere_else(seen, here, application_id=self._config.application.id)

    def require_current(self, here: str) -> None:
        """Raise ``Refused`` unless the application belongs to the site ``here`` still. For the holder of its lock: a run that was opened before a failover
        would work at the site that the application has left.
        """
        if self._config.sites and self.current() != here:
            raise Refused(
                f"{self._config.application.id} belongs to the site {self.current()} by now, and this run was opened at {here}",
                next_step="nothing was changed; begin again",
                site=self.current(),
                here=here,
            )

    def lift_fences(self, *, starting: bool = False) -> tuple[str, ...]:
        """Stop what is left at every fenced site that answers again, and lift its fence. Returns these sites. Only for the holder of the application's lock.
        Raises ``ApplicationRunning`` for what cannot be stopped; its fence stays.

        A fence may be forged. So instances are stopped only if the application would run twice: it must run at its own site, or be ``starting`` there by a
        failover that a person has approved.
        """
        lifted = []
        entry = self.entry() if self._config.sites else None
        for fence in entry.fences if entry is not None else ():
            if fence.site not in self.names:
                LOGGER.warning("%s is fenced at the site %s, which is not configured any more", self._config.application.id, fence.site)
                continue
            seen = self.look(fence.site)
            if seen.unseen:
                continue
            if not starting and not self.look(self.current()).in_use:
                LOGGER.warning(
                    "the site %s, which is fenced, answers again, and %s does not run where it belongs: what runs there is left alone (%s)",
                    fence.site,
                    self._config.application.id,
                    ", ".join(seen.in_use) or "nothing",
                )
                continue
            LOGGER.warning(
                "the site %s answers again, and %s is stopped there: %s",
                fence.site,
                self._config.application.id,
                seen.in_use or "nothing runs",
            )
            # Also where nothing is seen yet: machines and pods may come up later than their cluster, and what was told to stop does not.
            with self._at(fence.site) as there:
                bring_down(there, anyway=True)
            current = self.entry()
            if current is not None:
                self.log.append(current.without(fence.site, at=self._clock()))
            lifted.append(fence.site)
        return tuple(lifted)

    def write(self, entry: SiteEntry) -> None:
        """Append an entry, unless it is there already: a step may be repeated."""
        last = next(self.log.readable_back(), None)
        if last is None or (last.site, last.arrived, last.run, last.fences) != (entry.site, entry.arrived, entry.run, entry.fences):
            self.log.append(entry)

    def moving(self, to: str, *, cluster_id: str, run: str, requested_by: str, reason: str, fence: Fence | None) -> SiteEntry:
        """The entry of a restore that moves the application to another site. Fences of other sites stay; that of the site itself is lifted with it."""
        entry = self.entry()
        before, known = site_of(entry), () if entry is None else entry.fences
        # A step that is repeated after the move counts finds its own entry: it leaves where that came from, and adds no second fence.
        if entry is not None and (entry.site, entry.run) == (to, run):
            before = entry.before
            fence = fence and (entry.fence_of(fence.site) or fence)
        fences = tuple(one for one in known if one.site != to and (fence is None or one.site != fence.site))
        return SiteEntry(
            site=to,
            cluster_id=cluster_id,
            arrived=False,
            before=before,
            run=run,
            at=self._clock(),
            requested_by=requested_by,
            reason=reason,
            fences=(*fences, *(() if fence is None else (fence,))),
        )


class SandboxSites(Sites):
    """The site of a sandbox, by its own log. Each drill and each interval is entered there when it begins, so that all of its steps, and its removal, are at
    the same cluster, wherever the application goes meanwhile.
    """

    def __init__(
        self,
        config: SandboxApplication,
        repository: Repository,
        clock: Callable[[], int],
        at: Callable[[str], AbstractContextManager[Elsewhere]],
    ) -> None:
        super().__init__(config, repository, clock, at)
        self._pinned, self._of = config.pinned_site, Sites(config.of, repository, clock, at)

    def current(self) -> str:
        """The site at which its newest run began. An entry that names no configured site counts for nothing."""
        if not self._config.sites:
            return PRIMARY
        entry = self.entry()
        return self.destined() if entry is None or entry.site not in self.names else entry.site

    def destined(self) -> str:
        """The site that its section names, else the site that the application belongs to."""
        return self._pinned or self._of.current()

    def has_been_at(self, here: str) -> bool:
        """True when an earlier run began at the site ``here``. Those that are not in the log were at the primary one."""
        first = True
        for entry in self.log.readable_back():
            if entry.site == here:
                return True
            first = False
        return first and here == PRIMARY

    def begin(self, here: str, *, cluster_id: str, run: str) -> None:
        """Enter that a run begins at the site ``here``."""
        if self._config.sites:
            self.write(replace(self.moving(here, cluster_id=cluster_id, run=run, requested_by="", reason="", fence=None), arrived=True))

    def require_start(self, here: str, *, own: bool) -> None:  # noqa: ARG002 - that of an application has it
        """Raise ``Refused`` unless its run began at the site ``here``. That the application itself is elsewhere is what a drill may be for."""
        if here != self.current():
            raise Refused(
                f"{self._config.application.id} stands at the site {self.current()}, so it is not started at {here}",
                next_step="run the drill, or the interval, again",
                site=self.current(),
                here=here,
            )


def sites_of(
    config: ApplicationConfig, repository: Repository, clock: Callable[[], int], at: Callable[[str], AbstractContextManager[Elsewhere]]
) -> Sites:
    """The sites of an application, or of a sandbox. ``config`` is the configuration as it was written."""
    if isinstance(config, SandboxApplication):
        return SandboxSites(config, repository, clock, at)
    return Sites(config, repository, clock, at)


def sandbox_site(repository: Repository, application_id: str, run: str) -> str | None:
    """The site at which this run of a sandbox began, None when it did not begin, or when the application has one site only."""
    log = site_log(repository, Layout(application_id))
    return next((entry.site for entry in itertools.islice(log.readable_back(), _NEWEST) if entry.run == run), None)
