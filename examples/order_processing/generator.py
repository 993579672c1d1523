"""Feeds the example application, and knows what was acknowledged.

python -m examples.order_processing.generator --bootstrap 127.0.0.1:9092 --rate 200
"""

from __future__ import annotations

import argparse
import json
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # public, but its stubs do not say so

from examples.order_processing.orders import World

NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})
_PACE = 20
_TOLD = 10_000
INPUTS = ("orders", "inventory", "customers")
OUTPUTS = ("customer-totals", "enriched-orders", "order-counts-final")


def create_topics(bootstrap: str, *, partitions: int = 4, client_settings: Mapping[str, str] = NO_SETTINGS) -> None:
    """Create the inputs and outputs that do not exist yet. Tables are compacted. ``client_settings`` are librdkafka's, for a cluster that is secured."""
    client = AdminClient({**client_settings, "bootstrap.servers": bootstrap})
    existing = client.list_topics(timeout=10).topics
    policy = {"inventory": "compact", "customers": "compact"}
    wanted = [
        NewTopic(name, partitions, 1, config={"cleanup.policy": policy.get(name, "delete"), "retention.ms": "-1"})
        for name in (*INPUTS, *OUTPUTS)
        if name not in existing
    ]
    for created in client.create_topics(wanted).values() if wanted else ():
        created.result()
    # The client's own thread hands results over, and may not be done with the last one yet: dropped now, the client would purge what comes next.
    client.poll(0.1)


class Generator:
    """Produces orders 0, 1, 2, ... of a world, each exactly once and in order. Counts only what the broker acknowledged.

    Keys go to the partitions a Java producer would choose. Not for two threads at a time. One that is started anew goes on behind the orders that were
    ``sent`` before.
    """

    def __init__(self, bootstrap: str, world: World, client_settings: Mapping[str, str] = NO_SETTINGS, *, sent: int = 0) -> None:
        self.world = world
        self.sent = sent
        self.acknowledged = sent
        self.newest_acknowledged_ms: int | None = None
        self._error: KafkaError | None = None
        self._producer = Producer(
            {
                **client_settings,
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "linger.ms": 20,
                "queue.buffering.max.messages": 200_000,
                "log_level": 0,
            }
        )

    def feed_reference_data(self) -> None:
        """Inventory and customers, before the first order: a join with a global table sees what it holds at that moment."""
        for number in range(self.world.products):
            self._send("inventory", f"p-{number}", self.world.product(number), self.world.start_ms, None)
        for number in range(self.world.customers):
            self._send("customers", f"c-{number}", {"region": self.world.region(number)}, self.world.start_ms, None)
        self.flush()

    def feed(
        self, count: int, *, rate: float | None = None, stop: threading.Event | None = None, progress: Callable[[int], None] | None = None
    ) -> None:
        """The next ``count`` orders, at most ``rate`` a second, until ``stop``; returns when all of them are acknowledged."""
        started = time.monotonic()
        for done in range(count):
            if stop is not None and stop.is_set():
                break
            self._order(self.sent)
            self.sent += 1
            if rate is not None and (done + 1) % _PACE == 0:
                time.sleep(max(0.0, started + (done + 1) / rate - time.monotonic()))
            if progress is not None and (done + 1) % _TOLD == 0:
                progress(done + 1)
        self.flush()

    def go_on(self, sent: int, there: Collection[int]) -> None:
        """Go on behind the first ``sent`` orders at a cluster that has only those that are ``there``: the others are sent again."""
        self.sent, self.acknowledged = sent, len(there)
        for number in range(sent):
            if number not in there:
                self._order(number)
        self.flush()

    @contextmanager
    def trickle(self, rate: float) -> Iterator[Callable[[], None]]:
        """Orders go on coming in meanwhile, or until what is yielded is called. Raises at the end what the broker refused."""
        stop = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            feeding = pool.submit(self.feed, 10**9, rate=rate, stop=stop)
            try:
                yield stop.set
            finally:
                stop.set()
        feeding.result()

    def flush(self) -> None:
        """Wait for every acknowledgement. Raises what the broker refused."""
        self._producer.flush()
        if self._error is not None:
            raise KafkaException(self._error)

    def _order(self, number: int) -> None:
        self._send("orders", self.world.customer(number), self.world.order(number), self.world.timestamp(number), self._acknowledge)

    def _send(self, topic: str, key: str, value: dict[str, object], timestamp: int, done: Callable[[Any, Any], None] | None) -> None:
        payload = json.dumps(value, separators=(",", ":")).encode()
        while True:
            try:
                self._producer.produce(topic, payload, key.encode(), timestamp=timestamp, on_delivery=done or self._check)
            except BufferError:
                self._producer.poll(0.1)
                continue
            self._producer.poll(0)
            return

    def _check(self, error: KafkaError | None, _message: Message) -> None:
        self._error = self._error or error

    def _acknowledge(self, error: KafkaError | None, message: Message) -> None:
        self._check(error, message)
        if error is None:
            self.acknowledged += 1
            at = message.timestamp()[1]
            self.newest_acknowledged_ms = max(self.newest_acknowledged_ms or at, at)


def main() -> None:
    """Feed until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--partitions", type=int, default=4)
    arguments = parser.parse_args()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    create_topics(arguments.bootstrap, partitions=arguments.partitions)
    world = World(seed=1, customers=10_000, products=200, start_ms=time.time_ns() // 1_000_000, step_ms=max(1, int(1000 / arguments.rate)))
    generator = Generator(arguments.bootstrap, world)
    generator.feed_reference_data()
    while not stop.is_set():
        generator.feed(1_000_000, rate=arguments.rate, stop=stop)


if __name__ == "__main__":
    main()
