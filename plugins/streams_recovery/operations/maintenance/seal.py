"""Vouching for a repository that is older than its seals."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass

from streams_recovery.core.approval import check_approved, hash_of
from streams_recovery.core.codec import MOST_BYTES
from streams_recovery.core.errors import Damaged, Forged, LockHeld, NotFound, Refused
from streams_recovery.core.escaping import Markdown, code, joined, md
from streams_recovery.core.repository.seal import Adoption, Weight, carries_seal, standing_of
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.renewed_lock import held_lock
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.lock import ApplicationLock
from streams_recovery.storage.repository import Repository

# Keys that a plan names of each kind.
_SAMPLE = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SealPlan:
    """The records that an adoption would vouch for: ``records`` has the SHA-256 of each record without a seal, by key. ``sealed`` records have a good seal
    already. ``refused`` have one that is wrong, with the reason: these are never adopted. ``too_large`` cannot be read.
    """

    application_id: str
    records: dict[str, str]
    sealed: int
    refused: tuple[str, ...]
    too_large: tuple[str, ...]

    @property
    def hash(self) -> str:
        """Identifies what is vouched for."""
        return hash_of([self.application_id, self.parts])

    @property
    def parts(self) -> dict[str, object]:
        return {"records that are vouched for": sorted(self.records.items())}

    @property
    def text(self) -> Markdown:
        """The plan: how many records of each kind, and the newest ones of each."""
        kinds: dict[str, list[str]] = {}
        for key in sorted(self.records):
            kinds.setdefault(key.split("/")[1], []).append(key)
        wrong = [*self.refused, *(f"{key} is too large to be read" for key in self.too_large)]
        return joined(
            [
                md("### Vouch for the records of {} that have no seal", code(self.application_id)),
                md(""),
                md("**{:,} records** have no seal; {:,} have a good one.", len(self.records), self.sealed),
                md(""),
                md("Whoever approves says that nobody forged them. Look at savepoints, restores and pins first."),
                md(""),
                md("| kind | records | the last ones |"),
                md("|---|---:|---|"),
                *(
                    md("| {} | {:,} | {} |", code(kind), len(keys), joined(map(code, keys[-_SAMPLE:]), md(", ")))
                    for kind, keys in kinds.items()
                ),
                *([md("\n**{} records are not adopted**\n", len(wrong)), *(md("- **{}**", one) for one in wrong)] if wrong else []),
            ]
        )


def plan_adoption(recovery: RecoveryContext) -> SealPlan:
    """Every record without a seal. Changes nothing. Raises ``Refused`` where ``storage.seal`` is not set."""
    if recovery.repository.seals is None:
        raise Refused(
            f"the configuration of {recovery.config.name} has no storage.seal, so nothing is sealed",
            next_step="make a pair of keys with `streams-recovery seal-key FILE`, and write the public one into storage.seal.public_keys",
        )
    records: dict[str, str] = {}
    counted: Counter[str] = Counter()
    refused, too_large = [], []
    for key in recovery.repository.keys(f"{recovery.application_id}/"):
        if not carries_seal(key):
            continue
        try:
            found = recovery.repository.unchecked(key, most_bytes=MOST_BYTES)
            recovery.repository.seals.check(key, found)
            counted["sealed"] += 1
        except Forged as error:
            if standing_of(error).weight is Weight.RESTRICTS:
                records[key] = hashlib.sha256(found.content).hexdigest()
            else:
                refused.append(error.reason)
        except Damaged:
            too_large.append(key)
        except NotFound:
            continue
    return SealPlan(
        application_id=recovery.application_id,
        records=records,
        sealed=counted["sealed"],
        refused=tuple(refused),
        too_large=tuple(too_large),
    )


def adopt(recovery: RecoveryContext, *, run_id: str, requested_by: str, reason: str, approved: str | None = None) -> SealPlan:
    """Vouch for what has no seal, under the application's lock: whatever there is, or exactly the plan whose hash is ``approved``. Raises ``LockHeld`` also
    for a lock without a seal, and ``PlanChanged``.
    """
    # A sealed repository does not see a lock without a seal: look at it as an unsealed process sees it.
    unsealed = Repository(recovery.config.storage.location, recovery.credentials)
    held = ApplicationLock(unsealed, recovery.layout, recovery.clock).holder()
    if held is not None:
        raise LockHeld(
            f"{held.purpose} works on {recovery.application_id}, perhaps without seals",
            next_step="let it end, switch its configuration to storage.seal, then adopt",
            owner=held.owner,
        )
    planned = plan_adoption(recovery)
    if approved is not None:
        check_approved(planned, approved)
    with held_lock(recovery, f"seal {run_id}", purpose="adoption of records without a seal"):
        if planned.records:
            _adoption_log(recovery).append(
                Adoption(at=recovery.clock(), requested_by=requested_by, reason=reason, records=dict(planned.records))
            )
        return planned


def _adoption_log(recovery: RecoveryContext) -> AppendLog[Adoption]:
    """The log of what persons vouched for, oldest first."""
    return AppendLog(recovery.repository, recovery.layout.adopted, Adoption, most_bytes=MOST_BYTES)
