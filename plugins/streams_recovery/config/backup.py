"""What is done for an application: where its savepoints are, how they are taken, how they are brought back."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from streams_recovery.config.fields import (
    ConnectionId,
    Integer,
    LocalPath,
    Moment,
    OffsetRule,
    Schedule,
    Section,
    Switch,
    Text,
    TopicName,
    Url,
)
from streams_recovery.config.runs import Seconds
from streams_recovery.core.kafka_types import Profile, QuiesceMode
from streams_recovery.core.repository.location import Encryption, StorageLocation

SURVIVE_CLUSTER_LOSS = (
    "survive_cluster_loss: true archives the records of inputs and globals too, so that a savepoint can be restored into a cluster that lost all topics; "
    "with false a restore needs the inputs to be there still"
)


class Spark(Section):
    """Where records are moved, by the id of an Airflow connection. ``allow_insecure_rpc`` lets driver and workers of a cluster talk unauthenticated and
    unencrypted.
    """

    connection: ConnectionId = "spark_default"
    allow_insecure_rpc: Switch = False


class Storage(Section):
    """The repository. Keys of the backend that is not chosen are checked but unused, so that a variable can choose between them."""

    backend: Literal["filesystem", "s3"]
    path: LocalPath | None = None
    bucket: Text | None = None
    prefix: str | None = None
    region: Text | None = None
    endpoint: Url | None = None
    connection: ConnectionId | None = None
    path_style: Switch = False
    allow_http: Switch = False
    sse: Encryption | None = None
    kms_key_id: Text | None = None

    @property
    def location(self) -> StorageLocation:
        """Where it is, without the way to its credentials."""
        if self.backend == "filesystem":
            return StorageLocation(backend="filesystem", path=self.path)
        return StorageLocation(
            backend="s3",
            bucket=self.bucket,
            prefix=(self.prefix or "").strip("/"),
            region=self.region,
            endpoint=self.endpoint,
            path_style=self.path_style,
            allow_http=self.allow_http,
            sse=self.sse,
            kms_key_id=self.kms_key_id,
        )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        needed = "path" if self.backend == "filesystem" else "bucket"
        if getattr(self, needed) is None:
            raise ValueError(f"backend is {self.backend}, so {needed} is needed")
        if self.backend == "s3" and (self.endpoint or "").startswith("http://") and not self.allow_http:
            raise ValueError("endpoint is not encrypted; use https, or set allow_http: true where the network is trusted")
        if self.kms_key_id and self.sse != "aws:kms":
            raise ValueError("kms_key_id is used by sse: aws:kms only")
        if any(part in (".", "..") for part in (self.prefix or "").split("/")):
            raise ValueError("prefix must not contain '.' or '..'")
        return self


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


class Throttle(Section):
    """Limits of a whole load: records, and bytes of their keys and values, per second. Null is no limit."""

    records_per_second: Annotated[Integer, Field(ge=1, le=10**9)] | None = None
    bytes_per_second: Annotated[Integer, Field(ge=1, le=10**12)] | None = None


class Restore(Section):
    """Defaults of every restore. A run's own parameters go before them. ``topic_map`` gives topics of a savepoint, other than internal ones, the names
    they have for this application: a clone's outputs, or copies of inputs.
    """

    consumer_group_strategy: OffsetRule = "exact"
    time_window_end: Moment | None = None
    throttle: Throttle = Throttle()
    stall_timeout_seconds: Seconds = 120
    catch_up_timeout_seconds: Seconds = 900
    producers_still_seconds: Seconds = 30
    compare_keys: Switch = False
    topic_map: dict[TopicName, TopicName] = Field(default_factory=dict)
