"""The consumers that the readers of one task share, one range after the other, the small ones many at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from types import TracebackType
from typing import Self

from streams_recovery.core.read_ahead import OffsetRange, read_groups
from streams_recovery.kafka.batch_reader import ReadRange, read_at_once
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.native.librdkafka import native
from streams_recovery.kafka.native.reading import NativeReadingClient
from streams_recovery.kafka.range_consumer import RangeClient, ReadingClient, size_class

ASK_SECONDS = 10.0


class Consumers:
    """What the readers of a task share: one consumer for the ranges that are read by themselves, a passing one for each group of small ranges, and one
    admin client. Each is made when first needed. A context manager.

    A new consumer connects, asks for metadata and waits for its first statistics: a fifth of a second, in which hundreds of small ranges can be read.
    For one reader at a time.
    """

    def __init__(self, connection: KafkaConnection, *, cluster: KafkaCluster | None = None) -> None:
        """``cluster`` is one that may be asked too, and stays open; without it there is one of its own."""
        self.connection = connection
        self._own_cluster = KafkaCluster(connection, timeout=ASK_SECONDS)
        self._cluster = cluster or self._own_cluster
        self._client: RangeClient | None = None
        self._groups: dict[OffsetRange, list[OffsetRange]] = {}
        self._ahead: dict[OffsetRange, ReadRange] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._groups.clear()
        self._ahead.clear()
        self._end_client()
        self._own_cluster.close()

    def announce(self, ranges: Iterable[OffsetRange]) -> None:
        """These will be read, in this order. When the first of a group of small ones is asked for, the whole group is read."""
        self._groups = {each: group for group in read_groups(ranges) if len(group) > 1 for each in group}

    def read_ahead(self, wanted: OffsetRange) -> ReadRange | None:
        """All of ``wanted``, once, if it was announced as one of several small ranges and could be read with them. None else: whatever may be
        wrong with it is found out, and named, by who reads it by itself.
        """
        group = self._groups.get(wanted)
        if group is not None:
            for each in group:
                del self._groups[each]
            # What is left of another group was not asked for in the order announced. Memory is for one.
            self._ahead = {}
            self._ahead = self._read_group(group)
        return self._ahead.pop(wanted, None)

    def client(self, wanted: OffsetRange) -> RangeClient:
        """One that can read ``wanted`` now, whatever it did before."""
        size = size_class(wanted.end - wanted.start)
        if self._client is None or self._client.size != size or self._client.knows(wanted.tp):
            self._end_client()
            self._client = (ReadingClient if native() is None else NativeReadingClient)(self.connection, size)
        return self._client

    def _read_group(self, group: Collection[OffsetRange]) -> dict[OffsetRange, ReadRange]:
        # Not kept: until it is asked again it would go on making statistics, half a megabyte each for hundreds of partitions.
        client = ReadingClient(self.connection, size_class(max(each.end - each.start for each in group)))
        try:
            return read_at_once(client, self._cluster, group)
        finally:
            client.close()

    def _end_client(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()
