"""Plays a Kafka Streams application that counts the records of each key. ``python counter.py PLACE VERB BOOTSTRAP GROUP INPUT``, its output in OUT.

Once started it works off its input at once: the new count of each record's key goes to the changelog of its store ``totals`` and to its output, and then its
offset is committed. What it counts is read from that changelog alone, so that its results are wrong when state and offsets do not belong together.

A file ``version`` beside PLACE names a version that does otherwise: ``adds`` has a further store, ``dies`` ends after a while, ``sleeps`` works on nothing.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path

RUNNING = {"name": "one", "state": "running", "streams_state": "RUNNING", "closed_cleanly": None, "detail": "counter.py"}
GONE = {"name": "one", "state": "gone", "streams_state": None, "closed_cleanly": True, "detail": "counter.py"}


def main(place: str, verb: str, *stream: str) -> object:
    """Carry out one verb."""
    started = Path(place)
    version = deployed(started)
    if verb == "start":
        if version != "sleeps":
            count_all(*stream, os.environ["OUT"])
        if version == "adds":
            create({"bootstrap.servers": stream[0], "log_level": 0}, f"{stream[1]}-more-changelog")
        for mark in (started, started.with_suffix(".was")):
            mark.write_text(os.environ["OUT"])
    if verb == "stop":
        started.unlink(missing_ok=True)
    if verb == "wipe":
        return {"removed": [], "remaining": []}
    if version == "dies" and started.exists():
        # For as long as it is looked at some times.
        seen = started.with_suffix(".seen")
        seen.write_text("x" + (seen.read_text() if seen.exists() else ""))
        if len(seen.read_text()) > 6:
            started.unlink()
    return [RUNNING if started.exists() else GONE]


def deployed(place: Path) -> str:
    version = place.with_name("version")
    return version.read_text() if version.exists() else ""


def count_all(bootstrap: str, group: str, source: str, output: str) -> None:
    """Read the input from where the group is to its end, and write how often each key came."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    settings = {"bootstrap.servers": bootstrap, "log_level": 0}
    consumer = Consumer(
        {**settings, "group.id": group, "enable.auto.commit": False, "auto.offset.reset": "error", "enable.partition.eof": True}
    )
    store = f"{group}-totals-changelog"
    create(settings, store)
    counts = Counter({record.key(): int(record.value()) for record in records(consumer, store, 0)})
    [known] = consumer.committed([TopicPartition(source, 0)], timeout=10)
    begin = known.offset if known.offset >= 0 else consumer.get_watermark_offsets(known, timeout=10)[0]
    producer = Producer(settings)
    end = begin
    for record in records(consumer, source, begin):
        counts[record.key()] += 1
        for topic in (store, output):
            producer.produce(topic, b"%d" % counts[record.key()], record.key(), 0, timestamp=record.timestamp()[1])
        end = record.offset() + 1
    if producer.flush(30):
        raise TimeoutError("results were not written")
    consumer.commit(offsets=[TopicPartition(source, 0, end)], asynchronous=False)
    consumer.close()


def create(settings: dict[str, object], topic: str) -> None:
    """Make a compacted topic, unless it is there."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient(settings)
    if topic not in admin.list_topics(timeout=10).topics:
        admin.create_topics([NewTopic(topic, 1, 1, config={"cleanup.policy": "compact"})])[topic].result(10)


def records(consumer, topic: str, begin: int):
    """All there are from ``begin`` on."""
    from confluent_kafka import KafkaError, TopicPartition

    consumer.assign([TopicPartition(topic, 0, begin)])
    while True:
        record = consumer.poll(10)
        if record is None:
            raise TimeoutError(f"{topic} does not answer")
        if record.error() is None:
            yield record
        elif record.error().code() == KafkaError._PARTITION_EOF:
            return
        else:
            raise RuntimeError(str(record.error()))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*sys.argv[1:])))
