"""The clients that the writers of one task share, one partition after the other."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

from confluent_kafka import KafkaError as LibrdkafkaError

from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.exact_producer import ExactProducer
from streams_recovery.kafka.native.librdkafka import native
from streams_recovery.kafka.native.writing import NativeSender
from streams_recovery.kafka.senders import PlainSender, Sender

# What waits for acknowledgement, so the memory a writer takes; one record may be this large.
IN_FLIGHT_KBYTES: Final = 128 << 10
BATCH_BYTES: Final = 1_000_000
# The largest that librdkafka accepts for message.max.bytes.
LARGEST_MESSAGE: Final = 1_000_000_000
ASK_SECONDS: Final = 30.0


class Producers:
    """Idempotent producers of one cluster, one for each limit of what a topic takes, each made when first needed, and ``exact`` for what these cannot
    write. A context manager.

    A new one waits half a second for its id: librdkafka asks before it has a connection, and again when that time is over
    (``rd_kafka_idemp_pid_fsm``). With one for each partition a restore of a thousand would stand still for eight minutes.

    For one writer at a time, which leaves nothing waiting behind it. After an error the producer it came from is not used again.
    """

    def __init__(self, connection: KafkaConnection) -> None:
        self.connection = connection
        self.cluster = KafkaCluster(connection, timeout=ASK_SECONDS)
        self.exact = ExactProducer(connection, timeout=ASK_SECONDS)
        self.last_error = ""
        self._by_limit: dict[int, Sender] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for limit in list(self._by_limit):
            self.forget(limit)
        self.exact.close()
        self.cluster.close()

    def taking(self, limit: int) -> Sender:
        """The one for topics that take records of ``limit`` bytes."""
        if limit not in self._by_limit:
            config, compiled = self._config(limit), native()
            self._by_limit[limit] = (
                PlainSender(config, self._keep_error) if compiled is None else NativeSender(compiled, config, self._keep_error)
            )
        return self._by_limit[limit]

    def forget(self, limit: int) -> None:
        """The next writer gets a new one for this limit, and a new ``exact``."""
        if (sender := self._by_limit.pop(limit, None)) is not None:
            sender.close()
        self.exact.close()

    def _keep_error(self, error: LibrdkafkaError) -> None:
        self.last_error = error.str()

    def _config(self, limit: int) -> dict[str, object]:
        return self.connection.client_config(
            **{
                "enable.idempotence": True,
                "acks": "all",
                # Any error that would leave a gap stops the client for good, before it sends what came after.
                "enable.gapless.guarantee": True,
                # A record that times out is dropped while those behind it are written, idempotence or not: so none may time out.
                "message.timeout.ms": 0,
                # The broker judges what it gets, compressed; here only the batch must stay below the topic's limit.
                "message.max.bytes": LARGEST_MESSAGE,
                "batch.size": batch_bytes(limit),
                "compression.type": "lz4",
                "linger.ms": 20,
                "queue.buffering.max.messages": 500_000,
                "queue.buffering.max.kbytes": IN_FLIGHT_KBYTES,
            }
        )


def batch_bytes(limit: int) -> int:
    """How large a batch may become for a topic that takes ``limit`` bytes."""
    return max(1, min(BATCH_BYTES, limit - 1000))
