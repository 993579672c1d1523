"""The cluster that an application belongs to: entries of a numbered log, of which the newest that counts decides; pure.

An application at two sites at once processes its input twice, into two states. So a site is entered in the log before anything is changed there, and every
start asks the log first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from streams_recovery.core.errors import Refused

# Entries that are looked at for when an application came to its site: a move has two, and one for each fence that is lifted.
_MOST_OF_A_MOVE: Final = 50
# The site that a configuration describes outside its section ``sites``.
PRIMARY: Final = "primary"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """A site that was left without a proof that nothing runs there any more, on a person's word that it could not be reached. ``cluster_id`` is the last that
    was known of it, empty when none was.
    """

    site: str
    cluster_id: str
    since: int
    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteEntry:
    """One entry of an application's log: it belongs to ``site`` since ``at``, by ``run``. It has ``arrived`` once it was started there; until then the restore
    ``run`` is on its way, and its entry counts only if that restore has begun to replace topics. ``before`` is the site that it came from. ``fences`` are all
    that are in force.
    """

    site: str
    cluster_id: str
    arrived: bool
    before: str
    run: str
    at: int
    requested_by: str
    reason: str
    fences: tuple[Fence, ...]

    def fence_of(self, site: str) -> Fence | None:
        """The fence of a site, None when it has none."""
        return next((fence for fence in self.fences if fence.site == site), None)

    def at_work(self, *, at: int) -> SiteEntry:
        """The entry of an application that was started there."""
        return replace(self, arrived=True, at=at)

    def without(self, site: str, *, at: int) -> SiteEntry:
        """The entry that lifts the fence of a site."""
        return replace(self, fences=tuple(one for one in self.fences if one.site != site), at=at)


def counting(newest_first: Iterable[SiteEntry], has_begun: Callable[[str], bool]) -> SiteEntry | None:
    """The entry that says where the application belongs: the newest that has arrived, or whose restore ``has_begun`` to replace topics. None without one: it
    belongs to the primary site.
    """
    return next((entry for entry in newest_first if entry.arrived or has_begun(entry.run)), None)


def since(newest_first: Iterable[SiteEntry], counted: SiteEntry) -> int:
    """The moment since which it is where the entry ``counted`` says: that of the first entry of its run that says the same. Later ones only lift fences."""
    same = (one.at for one in islice(newest_first, _MOST_OF_A_MOVE) if (one.run, one.arrived) == (counted.run, counted.arrived))
    return min(same, default=counted.at)


def site_of(entry: SiteEntry | None) -> str:
    """The site that the application belongs to."""
    return PRIMARY if entry is None else entry.site


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenSite:
    """A site as it is seen. ``instances`` are those that are not gone, ``members`` those of the consumer group. ``unseen`` says what could not be asked, and
    why. ``cluster_id`` is empty where no broker answers.
    """

    site: str
    cluster_id: str
    instances: tuple[str, ...]
    members: tuple[str, ...]
    unseen: tuple[str, ...]

    @property
    def in_use(self) -> tuple[str, ...]:
        """Instances and members that are known to run there."""
        return (*self.instances, *self.members)


def require_site(entry: SiteEntry | None, here: str, *, application_id: str) -> None:
    """Raise ``Refused`` unless the application belongs to the site ``here``."""
    if site_of(entry) == here:
        return
    since = f" since run {entry.run}" if entry is not None else ""
    raise Refused(
        f"{application_id} belongs to the site {site_of(entry)}{since}, so it is not started at {here}",
        next_step=f"fail over to {here}, or correct the record with the command `sites` if the application was moved by hand",
        site=site_of(entry),
        here=here,
    )


def require_nowhere_else(seen: Iterable[SeenSite], here: str, *, application_id: str) -> None:
    """Raise ``Refused`` naming what runs at other sites: it would process the same input beside this one. A site that does not answer is passed over: the log
    says that the application does not belong there.
    """
    running = {one.site: one.in_use for one in seen if one.in_use}
    if running:
        named = "; ".join(f"{site}: {', '.join(found)}" for site, found in running.items())
        raise Refused(
            f"{application_id} belongs to the site {here}, and runs elsewhere ({named}): two would process the same input",
            next_step="stop what runs there, then try again",
            running={site: list(found) for site, found in running.items()},
        )
