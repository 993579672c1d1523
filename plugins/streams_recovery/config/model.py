"""One application as data. docs/configuration.md explains every key; include/configs/application.schema.json is made from this file."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from streams_recovery.config.fields import (
    ApplicationId,
    ConfigurationName,
    ConnectionId,
    Integer,
    Level,
    LocalPath,
    Moment,
    Schedule,
    Section,
    StoreName,
    Switch,
    Text,
    TopicGlob,
    TopicName,
    Url,
)
from streams_recovery.config.running import Runs, Seconds
from streams_recovery.core.location import StorageLocation
from streams_recovery.core.model import Guarantee, QuiesceMode, StoreKind, TopicRole
from streams_recovery.core.names import internal_role

Count = Annotated[Integer, Field(ge=0, le=100_000)]


class Application(Section):
    """The Kafka Streams settings that decide how a cut is taken and how it may be labelled."""

    id: ApplicationId
    guarantee: Guarantee
    # Kafka Streams' own defaults: 100 ms under exactly-once, 30 s under at-least-once. A pause must outlast one interval.
    commit_interval_ms: Annotated[Integer, Field(ge=1, le=3_600_000)] | None = None
    auto_offset_reset: Literal["earliest", "latest", "none"] = "earliest"
    session_timeout_ms: Annotated[Integer, Field(ge=1_000, le=3_600_000)] = 45_000

    @property
    def commit_interval_seconds(self) -> float:
        """The interval in force, Kafka Streams' default included."""
        default = 100 if self.guarantee is Guarantee.EXACTLY_ONCE_V2 else 30_000
        return (self.commit_interval_ms or default) / 1000


class Source(Section):
    """The Kafka cluster, by the id of an Airflow connection. ``timeout_seconds`` bounds each call to it."""

    connection: ConnectionId = "kafka_default"
    timeout_seconds: Seconds = 60


class Spark(Section):
    """Where records are moved, by the id of an Airflow connection."""

    connection: ConnectionId = "spark_default"


class Topics(Section):
    """The application's own topics. Internal topics are found by themselves and always archived; ``include`` and ``exclude`` choose which
    of the topics named here are archived with their records too. Offsets and settings of all of them are always in a savepoint.
    """

    inputs: Annotated[tuple[TopicName, ...], Field(min_length=1)]
    outputs: tuple[TopicName, ...] = ()
    globals: tuple[TopicName, ...] = ()
    include: tuple[TopicGlob, ...] = ()
    exclude: tuple[TopicGlob, ...] = ()

    @property
    def declared(self) -> dict[str, TopicRole]:
        """Every topic named here with its role. A topic that is read and written counts as input: that is the stronger promise."""
        return {
            **dict.fromkeys(self.outputs, TopicRole.OUTPUT),
            **dict.fromkeys(self.globals, TopicRole.GLOBAL),
            **dict.fromkeys(self.inputs, TopicRole.INPUT),
        }

    def archives(self, topic: str) -> bool:
        """True when the records of this topic (not an internal one) are part of a savepoint."""
        return any(fnmatchcase(topic, glob) for glob in self.include) and not any(fnmatchcase(topic, glob) for glob in self.exclude)

    @model_validator(mode="after")
    def _apart(self) -> Self:
        both = sorted(set(self.inputs) & set(self.globals))
        if both:
            raise ValueError(f"{both[0]} is in inputs and in globals; Kafka Streams reads a topic one way only")
        return self


class Store(Section):
    """A state store. ``queryable`` ones are compared with the application's own answers after a restore; one that is not ``logged`` has no
    changelog and cannot be brought back from a savepoint.
    """

    kind: StoreKind = StoreKind.UNKNOWN
    queryable: Switch = False
    logged: Switch = True


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
        )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        needed = "path" if self.backend == "filesystem" else "bucket"
        if getattr(self, needed) is None:
            raise ValueError(f"backend is {self.backend}, so {needed} is needed")
        if self.backend == "s3" and (self.endpoint or "").startswith("http://") and not self.allow_http:
            raise ValueError("endpoint is not encrypted; use https, or set allow_http: true where the network is trusted")
        if any(part in (".", "..") for part in (self.prefix or "").split("/")):
            raise ValueError("prefix must not contain '.' or '..'")
        return self


class ConsistencyPolicy(Section):
    """How still the application must be for a cut, and what to do when exactness could not be proven."""

    mode: QuiesceMode = QuiesceMode.PAUSE
    require: Literal["exact", "ahead_allowed"] = "exact"
    fallback: Literal["none", "pause", "stop"] = "none"
    attempts: Annotated[Integer, Field(ge=1, le=100)] = 5
    timeout_seconds: Seconds = 120


class Backup(Section):
    """When and how savepoints are taken. ``schedule`` null or ``none`` means only by hand."""

    schedule: Schedule = "0 * * * *"
    consistency: ConsistencyPolicy = ConsistencyPolicy()
    compression: Literal["zstd"] = "zstd"
    compression_level: Annotated[Integer, Field(ge=1, le=19)] = 3
    segment_max_records: Annotated[Integer, Field(ge=1_000, le=100_000_000)] = 500_000
    full_every_days: Annotated[Integer, Field(ge=1, le=365)] = 7
    full_after_savepoints: Annotated[Integer, Field(ge=1, le=10_000)] = 168


class Restore(Section):
    """Defaults of every restore. A run's own parameters go before them."""

    consumer_group_strategy: Literal["exact"] = "exact"
    time_window_end: Moment | None = None
    catch_up_timeout_seconds: Seconds = 900


class Retention(Section):
    """Which savepoints stay. One that any rule keeps is kept; ``minimum`` newest exact ones stay whatever the rules say. Files of one that expired
    stay ``grace_days`` longer. ``schedule`` null or ``none`` means only by hand.
    """

    schedule: Schedule = None
    apply: Switch = False
    grace_days: Annotated[Integer, Field(ge=1, le=3_650)] = 7

    keep_last: Count = 24
    keep_hourly: Count = 48
    keep_daily: Count = 14
    keep_weekly: Count = 8
    keep_monthly: Count = 12
    minimum: Annotated[Integer, Field(ge=1, le=1_000)] = 3


class Verify(Section):
    """When the repository is audited, and how deep: ``structure``, ``full`` or a share such as ``sample=10%``."""

    schedule: Schedule = "0 3 * * 0"
    level: Level = "sample=10%"


class ApplicationConfig(Section):
    """Everything known about one application. ``name`` is its file's stem and how operators choose it."""

    version: Literal[1]
    name: ConfigurationName
    application: Application
    source: Source = Source()
    spark: Spark = Spark()
    topics: Topics
    stores: dict[StoreName, Store] = Field(default_factory=dict)
    storage: Storage
    backup: Backup = Backup()
    restore: Restore = Restore()
    retention: Retention = Retention()
    verify: Verify = Verify()
    runs: Runs

    def store_kind(self, store: str) -> StoreKind | None:
        """The declared kind of a store; None when nothing was declared, so that names and settings may speak."""
        declared = self.stores.get(store)
        return None if declared is None or declared.kind is StoreKind.UNKNOWN else declared.kind

    @property
    def queryable(self) -> tuple[str, ...]:
        """Stores the application answers for."""
        return tuple(name for name, store in self.stores.items() if store.queryable)

    @model_validator(mode="after")
    def _own_topics_only(self) -> Self:
        for topic in self.topics.declared:
            if internal_role(topic, self.application.id):
                raise ValueError(f"topics: {topic} is an internal topic of {self.application.id}; those are found by themselves")
        return self
