"""A new version under the same application id: it goes on with the state that is there, once that is saved."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from streams_recovery.core.errors import ConfigInvalid, Refused
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.restore.parts.upgrade import UpgradePart
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.planned import Observed
from streams_recovery.core.restore.request import SafetyPolicy
from streams_recovery.core.rollout.described import DescribedTopology, described
from streams_recovery.core.rollout.upgrade import (
    BEFORE,
    DOUBT_ALLOWED,
    MAY_GO,
    STAYS_SAME,
    TOPOLOGY,
    WATCHED_FOR,
    VersionChange,
    Watch,
    version_change,
    watched_for,
)
from streams_recovery.operations.compatibility import compared, described_by_program, newest_savepoint
from streams_recovery.operations.context import RecoveryContext, not_gone
from streams_recovery.operations.discovery import input_partitions
from streams_recovery.operations.preflight import required_for_restore
from streams_recovery.operations.restore.strategies.strategy import RestoreStrategy
from streams_recovery.operations.unfinished import refuse_if_unfinished


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeInPlace(RestoreStrategy):
    """Deploy another version, and let it go on with the state that is there. ``topology`` is its description and ``before`` that of the version that runs, as
    texts; without a ``topology`` the configured program prints it. ``lose`` are stores and topics whose content may go, ``same`` stores with numbered names
    that are still the same; ``allow_doubt`` says that a person has looked at what the check cannot tell. ``watch`` is how long the new version is watched, a
    duration, empty for the configured one.
    """

    KIND: ClassVar = "upgrade"
    DAG: ClassVar = "streams_upgrade"
    COMMAND: ClassVar = "upgrade"
    topology: Annotated[str, TOPOLOGY] = ""
    before: Annotated[str, BEFORE] = ""
    lose: Annotated[tuple[str, ...], MAY_GO] = ()
    same: Annotated[tuple[str, ...], STAYS_SAME] = ()
    allow_doubt: Annotated[bool, DOUBT_ALLOWED] = False
    watch: Annotated[str, WATCHED_FOR] = ""

    def plan(self, recovery: RecoveryContext, mine: Mapping[str, set[str]]) -> RestorePlan:
        """Compare the newest savepoint's content with the new version. Raises what ``change`` does; ``Refused`` after a restore that failed, and for what would
        be in the way of it or of the way back; and ``NotFound`` without a savepoint, and for inputs that the new version would not find.
        """
        manifest = newest_savepoint(recovery)
        change = self.change(recovery, manifest)
        refuse_if_unfinished(recovery)
        inputs = set(input_partitions(recovery))
        # The way back replaces all of the state.
        found = required_for_restore(recovery, manifest, replace(self.safeguards, replace=True))
        before = {tp: known.offset for tp, known in recovery.groups.last_committed(recovery.application_id).items() if tp in inputs}
        return RestorePlan(
            application_id=recovery.application_id,
            source_application_id=recovery.application_id,
            savepoint_id=None,
            captured_at=None,
            consistency=None,
            safety=SafetyPolicy.REQUIRED,
            delete=(),
            create=(),
            offsets=(),
            strategy="kept",
            offsets_agree=True,
            warnings=tuple(f"for the way back: {one}" for one in found),
            observed=Observed(
                instances=tuple(f"{i.name} ({i.detail})" for i in not_gone(recovery)),
                offsets_replaced={},
                offsets_before=before,
                records_to_catch_up=0,
            ),
            offsets_kept=tuple(sorted(before)),
            part=UpgradePart(upgrade=change),
        )

    def deployed_before(self, recovery: RecoveryContext, planned: RestorePlan) -> str | None:
        """None: the version is to be another one."""
        return None

    def change(self, recovery: RecoveryContext, manifest: Manifest, *, again: bool = False) -> VersionChange:
        """Compare this state with the new version. ``again``: what may be lost may have become no loss since it was asked for. Raises
        ``ConfigInvalid`` where nothing deploys it or takes it back, or describes it, and ``Refused`` where more would be lost than may be.
        """
        deploy = recovery.config.deploy
        if deploy is None or deploy.roll_back is None:
            raise ConfigInvalid(
                f"{'nothing deploys' if deploy is None else 'nothing takes back'} a version of {recovery.application_id}",
                next_step="set deploy.command to what puts the new version there, and deploy.roll_back to what puts back the one that runs now",
            )
        if deploy.roll_back == deploy.command:
            raise ConfigInvalid(
                f"deploy.roll_back of {recovery.application_id} is deploy.command: {shlex.join(deploy.command)}",
                next_step="set deploy.roll_back to what puts the version there that runs now",
            )
        if recovery.config.run.schedule is not None:
            raise Refused(
                f"{recovery.application_id} runs at certain hours, and an upgrade in place would leave it running",
                next_step="deploy between two of its runs: take a savepoint first, and ask the command compatible",
            )
        new, before = self.described(recovery), described(self.before.encode()) if self.before else None
        found = compared(recovery, manifest, new, before=before)
        lose = tuple(name for name in self.lose if not again or any(one.subject == name and one.may_go for one in found.findings))
        same = tuple(name for name in self.same if not again or any(one.subject == name for one in found.findings))
        return version_change(
            recovery.application_id,
            manifest,
            new,
            found.accepting(lose, same=same, doubt=self.allow_doubt),
            roll_back=deploy.roll_back,
            watch=Watch(
                seconds=watched_for(self.watch or deploy.watch),
                max_lag=deploy.max_lag,
                patience=float(recovery.config.restore.catch_up_timeout_seconds),
            ),
        )

    def described(self, recovery: RecoveryContext) -> DescribedTopology:
        """The new version, as it describes itself. Raises ``ConfigInvalid``, and as running a program does."""
        return described(self.topology.encode()) if self.topology else described_by_program(recovery)
