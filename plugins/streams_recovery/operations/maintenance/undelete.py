"""Brings back what was deleted from a bucket with versions, or written over in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streams_recovery.core.approval import check_approved, hash_of
from streams_recovery.core.errors import Refused
from streams_recovery.core.repository.undelete import Undelete, began_anew, in_order, left_alone, to_undelete
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.renewed_lock import held_lock
from streams_recovery.storage.backends import BUCKETS

if TYPE_CHECKING:
    from streams_recovery.storage.s3 import BucketVersions


@dataclass(frozen=True, slots=True, kw_only=True)
class UndeletePlan:
    """Objects that would come back, segments and range tables before the manifests that name them. ``anew`` are logs that were deleted and have begun anew:
    nothing of them comes back.
    """

    application_id: str
    objects: tuple[Undelete, ...]
    anew: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """The bytes of all objects."""
        return sum(one.bytes for one in self.objects)

    @property
    def hash(self) -> str:
        """Identifies what is brought back."""
        return hash_of([self.application_id, self.parts])

    @property
    def parts(self) -> dict[str, object]:
        return {"objects that are brought back": [[one.key, one.version_id] for one in self.objects]}


def plan_undelete(recovery: RecoveryContext) -> UndeletePlan:
    """Find what the application's part of the repository has lost, but what ``left_alone`` names. Changes nothing.

    What expired is among it as long as the bucket has its versions: the next expiry takes it again. Raises ``Refused`` for a repository that keeps no versions.
    """
    versions = _versions(recovery)
    # All that there is but what is left alone: a kind of object that is added later comes back as well.
    below = versions.below(f"{recovery.application_id}/")
    found = in_order(recovery.layout, to_undelete(below, versions.same))
    if not found and not versions.kept:
        raise Refused(
            f"{recovery.repository.location} keeps no versions, or does not tell this user",
            next_step="look with a user who has s3:GetBucketVersioning; what a bucket without versions lost is gone",
        )
    left = left_alone(recovery.layout)
    anew = tuple(sorted(log for log in began_anew(below, versions.same) if not f"{log}/".startswith(left)))
    return UndeletePlan(application_id=recovery.application_id, objects=found, anew=anew)


def undelete(recovery: RecoveryContext, *, run_id: str, say: Callable[[str], None], approved: str | None = None) -> UndeletePlan:
    """Bring back what was deleted, under the application's lock: whatever there is, or exactly the plan whose hash is ``approved``. Returns what was brought
    back. After an error another call goes on where this one stopped. Raises ``PlanChanged``.
    """
    with held_lock(recovery, f"undelete {run_id}", purpose="bringing back what was deleted"):
        planned = plan_undelete(recovery)
        if approved is not None:
            check_approved(planned, approved)
        versions = _versions(recovery)
        for number, one in enumerate(planned.objects, 1):
            versions.bring_back(one.key, one.version_id)
            say(f"{number} of {len(planned.objects)}: {one.key} ({one.harm})")
        return planned


def _versions(recovery: RecoveryContext) -> BucketVersions:
    location = recovery.repository.location
    kind = BUCKETS.get(location.backend)
    if kind is None:
        raise Refused(f"{location} keeps no versions", next_step="bring its files back from a backup of the directory")
    if kind.undeleted_by is not None:
        raise Refused(f"this software does not bring back what was deleted in {location}", next_step=kind.undeleted_by)
    # Slow to import, and nothing but this and expiry needs it.
    from streams_recovery.storage.s3 import BucketVersions  # noqa: PLC0415

    return BucketVersions(location, recovery.credentials)
