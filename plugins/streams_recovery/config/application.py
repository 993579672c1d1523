"""Sections about the application itself: its kind and its settings, its cluster, its topics and its stores."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from streams_recovery.config.fields import (
    ApplicationId,
    Argument,
    Argv,
    ConnectionId,
    FieldPath,
    Globs,
    Integer,
    LocalPath,
    Seconds,
    Section,
    Switch,
    Text,
    TopicName,
)
from streams_recovery.core.application_kind import ApplicationKind
from streams_recovery.core.kafka_types import Guarantee, StoreKind
from streams_recovery.core.outputs.keys import ReadBy
from streams_recovery.core.outputs.values import Windowed
from streams_recovery.core.savepoint.cut import MOST_COMMIT_INTERVAL_MS
from streams_recovery.core.savepoint.topology import Topics
from streams_recovery.core.state.table import READABLE, Format


class Application(Section):
    """Its kind, and the settings that decide how a cut is taken and how it may be labelled. ``streams_config`` has other settings of the application as it has
    them: nothing but advice uses them. ``topology_command`` prints ``Topology#describe()`` of the version that is to run next, without a cluster.
    """

    id: ApplicationId
    kind: ApplicationKind = ApplicationKind.KAFKA_STREAMS
    guarantee: Guarantee
    # The default is that of its kind. A pause must outlast one interval.
    commit_interval_ms: Annotated[Integer, Field(ge=1, le=MOST_COMMIT_INTERVAL_MS)] | None = None
    auto_offset_reset: Literal["earliest", "latest", "none"] = "earliest"
    session_timeout_ms: Annotated[Integer, Field(ge=1_000, le=3_600_000)] = 45_000
    standby_replicas: Annotated[Integer, Field(ge=0, le=1_000)] = 0
    streams_config: dict[Text, Argument] = Field(default_factory=dict)
    topology_command: Argv | None = None

    @property
    def commit_interval_seconds(self) -> float:
        """The interval in force, the default of its kind included."""
        return (self.commit_interval_ms or self.kind.dialect.guarantees[self.guarantee]) / 1000

    @model_validator(mode="after")
    def _restorable(self) -> Self:
        known = self.kind.dialect.guarantees
        if self.guarantee not in known:
            raise ValueError(
                f"guarantee: {self.guarantee} of {self.kind.dialect.product} is not supported, because no test has brought such an application back; "
                f"supported: {', '.join(known)}"
            )
        return self


class Source(Section):
    """The Kafka cluster, by the id of an Airflow connection. ``timeout_seconds`` bounds each call to it."""

    connection: ConnectionId = "kafka_default"
    timeout_seconds: Seconds = 60


def check_topics(topics: Topics) -> None:
    """Raises ``ValueError`` for topics that no application can have."""
    if not topics.inputs and not topics.input_patterns:
        raise ValueError(
            "neither inputs nor input_patterns: name the topics that the application reads, or what it subscribes to by pattern"
        )
    if both := sorted(set(topics.inputs) & set(topics.globals)):
        raise ValueError(f"{both[0]} is in inputs and in globals; Kafka Streams reads a topic one way only")
    if contested := sorted(set(topics.owned) & set(topics.foreign)):
        raise ValueError(f"{contested[0]} is in owned and in foreign; it is either this application's or another one's")


class Groups(Section):
    """Other consumer groups whose offsets on the application's topics are kept with every savepoint."""

    include: Globs = ()


class Formats(Section):
    """Formats of keys and values; without one they are bytes. A ``wire_format`` of ``confluent`` has five bytes before the Avro data."""

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
        return self


class Store(Formats):
    """A state store. ``queryable`` ones are compared with the application's own answers after a restore; one that is not ``logged`` has no
    changelog and cannot be brought back from a savepoint. ``source`` is the input that it is restored from in place of a changelog (Kafka Streams'
    ``topology.optimization``), or a global table's topic. ``key`` and ``value`` say how its table is read; without them it shows bytes.
    """

    kind: StoreKind = StoreKind.UNKNOWN
    queryable: Switch = False
    logged: Switch = True
    source: TopicName | None = None

    @model_validator(mode="after")
    def _of_a_known_kind(self) -> Self:
        if (self.key or self.value) and self.kind not in READABLE:
            raise ValueError(
                f"the rows of a {self.kind} store cannot be read as keys and values; declare its kind, or leave key and value out"
            )
        return self


class Output(Formats):
    """An output, compared with that of a clone or of an interval, by the name that the real output has. ``way``: as a table, by the ``latest`` record of
    each key, or as a stream, by all ``records``; without it the topic's cleanup policy says which. ``window`` is what stands behind the key. ``ignore`` are
    fields of JSON values that may differ.
    """

    way: ReadBy | None = None
    window: Windowed = Windowed.NONE
    ignore: tuple[FieldPath, ...] = ()

    @model_validator(mode="after")
    def _of_documents(self) -> Self:
        if self.ignore and not (self.value is not None and self.value.document):
            raise ValueError("ignore names fields of JSON values; write value: json or value: avro")
        return self
