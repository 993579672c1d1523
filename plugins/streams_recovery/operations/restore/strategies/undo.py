"""Undo of a restore: the state from before it, from the safety savepoint that it took."""

from __future__ import annotations

import contextlib
import shlex
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Self

from streams_recovery.core import codec
from streams_recovery.core.errors import ConfigInvalid, NotFound, RecoveryError, Refused
from streams_recovery.core.forms import CONFIRM, savepoint_field
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.journal import created_by
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.restore.parts.rescale import RescalePart
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.report import RestoreReport
from streams_recovery.core.restore.request import ALLOW_AHEAD, ALLOW_DAMAGED, COMPARE_KEYS, NOTHING_REPLACED, Safeguards, delete_field
from streams_recovery.core.rollout.upgrade import VersionChange
from streams_recovery.core.words import LATEST, first_names, moment
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.checks import check_state, require_label, require_state
from streams_recovery.operations.restore.placing import RestoreSource
from streams_recovery.operations.restore.strategies.strategy import RestoreStrategy, StateStrategy
from streams_recovery.operations.unfinished import journal_of, last_deploying, last_replacing, plan_of, replaced_nothing
from streams_recovery.storage.savepoints import SavepointStore

_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo(StateStrategy):
    """Restore the state from before the restore ``restore_id``, from its safety savepoint. ``latest`` is the last restore that has one and
    replaced the state: what failed before that has nothing to undo.
    """

    KIND: ClassVar = "undo"
    DAG: ClassVar = "streams_undo"
    COMMAND: ClassVar = "undo"
    REPLACES: ClassVar = True
    restore_id: Annotated[
        str, savepoint_field(name="restore", title="Restore to undo", latest="the last one that replaced the state and saved it")
    ] = LATEST
    safeguards: Annotated[Safeguards, delete_field("Those that appeared after the restore"), CONFIRM] = NOTHING_REPLACED
    allow_ahead: Annotated[bool, replace(ALLOW_AHEAD, title="Allow a safety savepoint that may count some input twice")] = False
    allow_damaged: Annotated[bool, replace(ALLOW_DAMAGED, title="Allow a safety savepoint that found parts of the application gone")] = (
        False
    )
    compare_keys: Annotated[bool, COMPARE_KEYS] = False

    def resolve(self, recovery: RecoveryContext) -> RestoreSource:
        """See RestoreStrategy. Raises ``NotFound`` when no safety savepoint was taken before that restore, ``NotExact`` and ``Damaged`` for one that cannot be
        used.
        """
        manifest = _taken_before(recovery, self.restore_id)
        require_state(recovery, manifest)
        require_label(manifest, allow_ahead=self.allow_ahead, allow_damaged=self.allow_damaged)
        check_state(recovery, recovery.safety, manifest)
        undone = _upgrade_undone(recovery, manifest)
        return RestoreSource(
            manifest=manifest,
            again=_made_by_rescale(recovery, manifest.provenance.run_id),
            deletes=() if undone is None else undone.new_topics,
            warnings=_of_an_earlier_one(recovery, manifest) if self.restore_id == LATEST else (),
        )

    def pinned(self, recovery: RecoveryContext, planned: RestorePlan) -> Self:
        if self.restore_id != LATEST or planned.savepoint_id is None:
            return self
        return replace(self, restore_id=recovery.safety.read(planned.savepoint_id).provenance.run_id)

    def savepoints(self, recovery: RecoveryContext, planned: RestorePlan) -> SavepointStore:
        return recovery.safety

    def deployed_before(self, recovery: RecoveryContext, planned: RestorePlan) -> str | None:
        """The last one before the restore that is undone. None for an upgrade, which says itself how its version is taken back."""
        if planned.savepoint_id is None:
            return None
        safety = recovery.safety.read(planned.savepoint_id)
        return None if _upgrade_undone(recovery, safety) else last_deploying(recovery, before=safety.provenance.run_id)

    def deployment(self, recovery: RecoveryContext, planned: RestorePlan) -> tuple[str, ...]:
        """See RestoreStrategy. After an upgrade it is the command that takes the deployed version back, because the new version does not fit the old state.
        Raises ``ConfigInvalid`` if that command is not configured any more.
        """
        saved, deploy = planned.savepoint_id, recovery.config.deploy
        undone = None if saved is None else _upgrade_undone(recovery, recovery.safety.read(saved))
        if undone is None:
            # No super(): a class with slots is made anew.
            return RestoreStrategy.deployment(self, recovery, planned)
        if deploy is None or deploy.roll_back != undone.roll_back:
            now = "not set" if deploy is None or deploy.roll_back is None else shlex.join(deploy.roll_back)
            raise ConfigInvalid(
                f"deploy.roll_back of {recovery.application_id} is {now}, and what takes back upgrade {self.restore_id} is {shlex.join(undone.roll_back)}",
                next_step="set deploy.roll_back to that for this undo: another version must not begin on its state",
            )
        return undone.roll_back


def _made_by_rescale(recovery: RecoveryContext, restore_id: str) -> tuple[str, ...]:
    """Inputs that a rescale has created again, and that get their old number back. Raises ``Refused`` where that would lose what came since."""
    try:
        planned = plan_of(recovery, restore_id)
    except NotFound:
        return ()
    if not isinstance(planned.part, RescalePart):
        return ()
    found, created = planned.part.rescaled, created_by(tuple(journal_of(recovery, restore_id).read_all()))
    there = recovery.cluster.describe_topics(list(found.anew))
    made = {name for name, topic in there.items() if topic.topic_id in created.get(name, ())}
    loaded = {
        TopicPartition(step.name, part.partition): part.rows for step in planned.create if step.name in made for part in step.partitions
    }
    since = {tp.topic for tp, end in recovery.cluster.high_watermarks(list(loaded)).items() if end != loaded[tp]} | set(found.grown)
    if since:
        back = " ".join(f"--partitions {one.name}={one.old}" for one in found.topics if one.name in found.anew)
        raise Refused(
            f"{first_names(since)} {'was grown before the rescale' if since & set(found.grown) else 'has new records since the rescale'}, and would lose them "
            "with the old number",
            next_step=f"take a savepoint, and rescale to the old number, which takes all of it along: streams-recovery rescale {recovery.config.name} {back}"
            if back
            else "nothing was changed; rescale to another number",
            topics=sorted(since),
        )
    return found.anew


def _of_an_earlier_one(recovery: RecoveryContext, safety: Manifest) -> tuple[str, ...]:
    last, undone = last_replacing(recovery), safety.provenance.run_id
    if last in (None, undone):
        return ()
    found = f"the last restore, {last}, has no safety savepoint of its own: this brings back what was there before restore {undone}"
    return (f"{found}, as of {moment(safety.captured_at)}",)


def undo_refused(recovery: RecoveryContext, restore_id: str) -> RecoveryError | None:
    """The error with which an undo of a restore would be refused, None if it would be planned."""
    try:
        Undo(restore_id=restore_id, reason="").resolve(recovery)
    except RecoveryError as error:
        return error
    return None


def _upgrade_undone(recovery: RecoveryContext, safety: Manifest) -> VersionChange | None:
    """The upgrade in place that a safety savepoint leads back from, None if it leads back from another restore. Raises ``Damaged``, and ``Refused`` if that is
    unknown although it matters.
    """
    restore_id = safety.provenance.run_id
    with contextlib.suppress(NotFound):
        return plan_of(recovery, restore_id).part.new_version
    # Plans of restores that are over go before their safety savepoints do; their evidence stays.
    with contextlib.suppress(NotFound):
        key = recovery.layout.report(restore_id)
        return codec.loads(RestoreReport, recovery.repository.get(key), where=key).part.new_version
    if recovery.config.deploy is None:
        return None
    raise Refused(
        f"neither plan nor evidence of restore {restore_id} is there any more, so nobody can tell which version its safety savepoint is of",
        next_step="find out which version ran before it; take the section deploy out of the configuration, put that version there yourself, and undo then",
    )


def _taken_before(recovery: RecoveryContext, restore_id: str) -> Manifest:
    if restore_id == LATEST:
        found = next((one for one in recovery.safety.newest_first() if not replaced_nothing(recovery, one.provenance.run_id)), None)
    else:
        saved = recovery.safety.published_by_run(restore_id)
        found = None if saved is None else recovery.safety.read(saved)
    if found is None:
        known = [recovery.safety.read(one).provenance.run_id for one in recovery.safety.ids()[-_NAMED:]]
        raise NotFound(
            f"no safety savepoint was taken before restore {restore_id} of {recovery.application_id}; restores that have one: {', '.join(known) or 'none'}",
            next_step="choose one of those; a restore that found nothing to save, was told to skip it, or followed one that failed has none",
            restore=restore_id,
            known=known,
        )
    return found
