"""How savepoints are taken."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from streams_recovery.config.fields import Integer, Seconds, Section, Switch
from streams_recovery.config.rules import Schedule
from streams_recovery.core.kafka_types import Profile, QuiesceMode

SURVIVE_CLUSTER_LOSS = (
    "survive_cluster_loss: true archives the records of inputs and globals too, so that a savepoint can be restored into a cluster that lost all topics; "
    "with false a restore needs the inputs to be there still"
)


class ConsistencyPolicy(Section):
    """How still the application must be for a cut, and what to do when exactness could not be proven. Without a ``mode`` it is paused where it can be,
    and stopped where it cannot: see ``ApplicationConfig.quiesce_mode``.
    """

    mode: QuiesceMode | None = None
    require: Literal["exact", "ahead_allowed"] = "exact"
    fallback: Literal["none", "pause", "stop"] = "none"
    attempts: Annotated[Integer, Field(ge=1, le=100)] = 5
    timeout_seconds: Seconds = 120


class Backup(Section):
    """When and how savepoints are taken. ``schedule`` null or ``none`` means only by hand. ``profile`` minimal leaves out the records of internal
    topics. With ``survive_cluster_loss`` those of every input and global are archived too: all that a cluster needs which has nothing any more.
    """

    survive_cluster_loss: Switch = Field(description=SURVIVE_CLUSTER_LOSS)
    schedule: Schedule = "H * * * *"
    profile: Profile = Profile.FULL
    consistency: ConsistencyPolicy = ConsistencyPolicy()
    compression: Literal["zstd"] = "zstd"
    compression_level: Annotated[Integer, Field(ge=1, le=19)] = 3
    segment_max_records: Annotated[Integer, Field(ge=1_000, le=100_000_000)] = 500_000
    full_every_days: Annotated[Integer, Field(ge=1, le=365)] = 7
    full_after_savepoints: Annotated[Integer, Field(ge=1, le=10_000)] = 168
