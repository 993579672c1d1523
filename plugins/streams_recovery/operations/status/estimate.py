"""How long a restore of the newest exact savepoint would take now."""

from __future__ import annotations

from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.restore.estimate import Estimate, Sizes, estimate
from streams_recovery.core.status.facts import ClusterFacts
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.job_specs import throttle
from streams_recovery.operations.restore.report import earlier_restores


def estimate_of(recovery: RecoveryContext, manifest: Manifest, cluster: ClusterFacts) -> Estimate:
    """By what it would load, what would be replaced, and the input that came since; measured by earlier restores and drills."""
    return estimate(sizes_now(manifest, cluster), earlier_restores(recovery), throttle(recovery))


def sizes_now(manifest: Manifest, cluster: ClusterFacts) -> Sizes:
    """What the savepoint has, and what the logs are like now."""
    loaded = [image for topic in manifest.topics if topic.role.internal and topic.archived for image in topic.partitions]
    return Sizes(
        records=sum(image.rows for image in loaded),
        # The largest mean of one file: rather too much than too little.
        payload_bytes=sum(image.ranges.facts.rows * image.ranges.facts.payload_a_row for image in loaded),
        partitions=len(loaded),
        replaced=sum(topic.records for topic in cluster.topics if topic.role.internal),
        to_catch_up=sum(topic.since_savepoint for topic in cluster.inputs),
    )
