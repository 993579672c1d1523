"""What an application is: its Kafka Streams settings, its cluster, its topics and its stores."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from streams_recovery.config.fields import (
    ApplicationId,
    Argument,
    ConnectionId,
    Globs,
    Integer,
    LocalPath,
    Seconds,
    Section,
    Switch,
    Text,
    TopicName,
)
from streams_recovery.core.kafka_types import Guarantee, StoreKind, TopicRole
from streams_recovery.core.savepoint.assumptions import MOST_COMMIT_INTERVAL_MS
from streams_recovery.core.state.cells import Format
from streams_recovery.core.state.table import READABLE


class Application(Section):
    """The Kafka Streams settings that decide how a cut is taken and how it may be labelled. ``streams_config`` has others of the application as it has them:
    nothing but advice uses them.
    """

    id: ApplicationId
    guarantee: Guarantee
    # Kafka Streams' own defaults: 100 ms under exactly-once, 30 s under at-least-once. A pause must outlast one interval.
    commit_interval_ms: Annotated[Integer, Field(ge=1, le=MOST_COMMIT_INTERVAL_MS)] | None = None
    auto_offset_reset: Literal["earliest", "latest", "none"] = "earliest"
    session_timeout_ms: Annotated[Integer, Field(ge=1_000, le=3_600_000)] = 45_000
    standby_replicas: Annotated[Integer, Field(ge=0, le=1_000)] = 0
    streams_config: dict[Text, Argument] = Field(default_factory=dict)

    @property
    def commit_interval_seconds(self) -> float:
        """The interval in force, Kafka Streams' default included."""
        default = 100 if self.guarantee is Guarantee.EXACTLY_ONCE_V2 else 30_000
        return (self.commit_interval_ms or default) / 1000


class Source(Section):
    """The Kafka cluster, by the id of an Airflow connection. ``timeout_seconds`` bounds each call to it."""

    connection: ConnectionId = "kafka_default"
    timeout_seconds: Seconds = 60


class Topics(Section):
    """The application's own topics. Internal topics are found by themselves and archived unless ``backup.profile`` is minimal; ``include`` and
    ``exclude`` choose which of the topics named here are archived with their records too, besides those that ``backup.survive_cluster_loss`` needs.
    Offsets and settings of all of them are always in a savepoint. ``owned`` are internal topics that nothing but their names would say to be this
    application's, ``foreign`` those of another one whose id begins like this one's.
    """

    inputs: Annotated[tuple[TopicName, ...], Field(min_length=1)]
    outputs: tuple[TopicName, ...] = ()
    globals: tuple[TopicName, ...] = ()
    include: Globs = ()
    exclude: Globs = ()
    owned: tuple[TopicName, ...] = ()
    foreign: tuple[TopicName, ...] = ()

    @property
    def declared(self) -> dict[str, TopicRole]:
        """Every topic named here with its role. A topic that is read and written counts as input: that is the stronger promise."""
        return {
            **dict.fromkeys(self.outputs, TopicRole.OUTPUT),
            **dict.fromkeys(self.globals, TopicRole.GLOBAL),
            **dict.fromkeys(self.inputs, TopicRole.INPUT),
        }

    @model_validator(mode="after")
    def _apart(self) -> Self:
        both = sorted(set(self.inputs) & set(self.globals))
        if both:
            raise ValueError(f"{both[0]} is in inputs and in globals; Kafka Streams reads a topic one way only")
        if contested := sorted(set(self.owned) & set(self.foreign)):
            raise ValueError(f"{contested[0]} is in owned and in foreign; it is either this application's or another one's")
        return self


class Groups(Section):
    """Other consumer groups whose offsets on the application's topics are kept with every savepoint."""

    include: Globs = ()


class Store(Section):
    """A state store. ``queryable`` ones are compared with the application's own answers after a restore; one that is not ``logged`` has no
    changelog and cannot be brought back from a savepoint. ``source`` is the input that it is restored from in place of a changelog (Kafka Streams'
    ``topology.optimization``), or a global table's topic. ``key`` and ``value`` say how its table is read; without them it shows bytes.
    """

    kind: StoreKind = StoreKind.UNKNOWN
    queryable: Switch = False
    logged: Switch = True
    source: TopicName | None = None
    key: Format | None = None
    value: Format | None = None
    key_schema: LocalPath | None = None
    value_schema: LocalPath | None = None
    wire_format: Literal["plain", "confluent"] = "plain"

    @model_validator(mode="after")
    def _readable(self) -> Self:
        for part in ("key", "value"):
            schema, wanted = getattr(self, f"{part}_schema"), getattr(self, part) is Format.AVRO
            if wanted != (schema is not None):
                raise ValueError(f"{part}: avro and {part}_schema, a file with the Avro schema, go together")
        if self.wire_format != "plain" and Format.AVRO not in (self.key, self.value):
            raise ValueError("wire_format is about Avro, and neither key nor value is avro")
        if (self.key or self.value) and self.kind not in READABLE:
            raise ValueError(
                f"the rows of a {self.kind} store cannot be read as keys and values; declare its kind, or leave key and value out"
            )
        return self
