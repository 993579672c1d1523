"""A restore of the newest exact savepoint, if it began now: how long it would take, and why it would be refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import Profile, TopicRole
from streams_recovery.core.offsets.strategies import EXACT, Logs
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.repository.survival import require_archived
from streams_recovery.core.restore.estimate import Estimate, Sizes, estimate
from streams_recovery.core.restore.input_offsets import choose_offsets, input_images
from streams_recovery.core.restore.rebuild import Placed, place
from streams_recovery.core.status.facts import ClusterFacts
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.checks import spans
from streams_recovery.operations.restore.evidence import earlier_restores
from streams_recovery.operations.restore.inputs_there import check_kept
from streams_recovery.operations.restore.placing import present_topics, target_of


def estimate_of(recovery: RecoveryContext, manifest: Manifest, cluster: ClusterFacts) -> Estimate:
    """The estimate, by the records to load, the topics to replace, and the input that came since; measured by earlier restores and drills."""
    return estimate(_sizes_now(manifest, cluster), earlier_restores(recovery), recovery.config.restore.throttle)


def estimate_by_earlier(recovery: RecoveryContext, manifest: Manifest) -> Estimate | None:
    """The estimate without a look at the cluster: offsets to replace and to catch up with are taken from the newest restore or drill. None if there was none:
    default rates for half a restore would estimate too little.
    """
    earlier = earlier_restores(recovery)
    if not earlier:
        return None
    last = earlier[-1].sizes
    return estimate(_sizes(manifest, replaced=last.replaced, to_catch_up=last.to_catch_up), earlier, recovery.config.restore.throttle)


def _sizes_now(manifest: Manifest, cluster: ClusterFacts) -> Sizes:
    return _sizes(
        manifest,
        replaced=sum(topic.records for topic in cluster.topics if topic.role.internal),
        to_catch_up=sum(topic.since_savepoint for topic in cluster.inputs),
    )


def _sizes(manifest: Manifest, *, replaced: int, to_catch_up: int) -> Sizes:
    loaded = [image for topic in manifest.topics if topic.role.internal and topic.archived for image in topic.partitions]
    return Sizes(
        records=sum(image.rows for image in loaded),
        # The largest mean of one file: rather too much than too little.
        payload_bytes=sum(image.ranges.facts.rows * image.ranges.facts.payload_a_row for image in loaded),
        partitions=len(loaded),
        replaced=replaced,
        to_catch_up=to_catch_up,
    )


def refusals(recovery: RecoveryContext, manifest: Manifest) -> tuple[str, ...]:
    """Reasons to refuse its plan for the topics that are there: by the decisions of the planner, which need no ranges for topics that stay on the cluster. A
    savepoint without state is not restored but rebuilt from.
    """
    if manifest.profile is Profile.MINIMAL:
        return ()
    present = present_topics(recovery, manifest, {})
    placed: list[Placed] = []
    found = _refused(lambda: placed.extend(place(manifest, target_of(recovery, manifest, present, spans(recovery, present)))))
    inputs = input_images(placed)
    kept = [one for one in placed if one.image.role is TopicRole.INPUT and not one.made]
    partitions = [tp for tp, (one, _) in inputs.items() if not one.made]
    for tp, (one, image) in inputs.items():
        if one.made and image.committed is not None:
            found += _refused(partial(require_archived, tp, image.committed.offset, image))
    # With another strategy the log decides, or the person who named the offsets.
    if not partitions or recovery.config.restore.consumer_group_strategy != EXACT.text:
        return found
    logs = Logs(
        starts=recovery.cluster.log_starts(partitions),
        stable=recovery.cluster.last_stable_offsets(partitions),
        ends=recovery.cluster.high_watermarks(partitions),
        at_time={},
    )
    reset = recovery.config.application.auto_offset_reset
    return (
        *found,
        *_refused(lambda: choose_offsets(kept, EXACT, logs, auto_offset_reset=reset, rows_below=_no_rows)),
        *_refused(lambda: check_kept(recovery, kept, present, EXACT, manifest.proof.past_end)),
    )


def _no_rows(*_: object) -> int:
    raise AssertionError("the offset of an input that stays is not counted in files")


def _refused(decide: Callable[[], Any]) -> tuple[str, ...]:
    try:
        decide()
    except Refused as error:
        problems = error.facts.get("problems")
        return tuple(map(str, problems)) if isinstance(problems, list | tuple) else (error.reason,)
    return ()
