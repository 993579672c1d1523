# mypy: ignore-errors
"""Words, counted by Faust: how often each came, and how often in each minute. docs/faust.md saves it and brings it back.

faust --datadir DIRECTORY -A word_counts worker --web-port PORT
"""

from __future__ import annotations

import asyncio
import json
import os
from datetime import timedelta
from typing import Any

import faust

MINUTE = timedelta(minutes=1)
# A worker waits so long for new records before it looks again whether it is to read at all, and this has a margin.
FETCH_SECONDS = 2.0


class Word(faust.Record, serializer="json"):
    """A word, and the second at which it was said."""

    text: str
    at: float


app = faust.App(
    os.environ.get("WORD_COUNTS_ID", "word-counts"),
    broker=os.environ.get("WORD_COUNTS_BROKER", "kafka://127.0.0.1:9092"),
    store="rocksdb://",
    topic_partitions=int(os.environ.get("WORD_COUNTS_PARTITIONS", "2")),
    # With it a worker that is asked to end finishes what it has begun, and commits it: a stop is a clean cut.
    stream_wait_empty=True,
    broker_session_timeout=10.0,
    broker_heartbeat_interval=2.0,
    web_bind="127.0.0.1",
)
words = app.topic(os.environ.get("WORD_COUNTS_INPUT", "words"), value_type=Word)
counts = app.Table("counts", default=int)
minutes = app.Table("minutes", default=int).tumbling(MINUTE, expires=timedelta(days=3650)).relative_to_field(Word.at)


@app.on_rebalance_complete.connect
async def read_on_where_it_was_committed(*_: Any, **__: Any) -> None:
    """Nothing is read until the partitions are where they were committed. Without it a worker with unread input loses some of it when its tables are whole: it
    reads already, goes to the committed offsets, and empties what waits in the queues of its agents. What was never committed begins at its first record.
    """
    consumer = app.consumer
    consumer.stop_flow()
    await asyncio.sleep(FETCH_SECONDS)
    read = [tp for tp in consumer.assignment() if tp.topic not in app.tables.changelog_topics]
    committed, earliest = await consumer.seek_to_committed(), await consumer.earliest_offsets(*read)
    await consumer.seek_wait({tp: committed.get(tp) or earliest[tp] for tp in read})


@app.agent(words)
async def count(stream: Any) -> None:
    """Each word to the partition of its text, and counted there."""
    async for word in stream.group_by(Word.text):
        counts[word.text] += 1
        minutes[word.text] += 1


@app.page("/health")
async def health(web: Any, request: Any) -> Any:  # noqa: ARG001
    """How the worker is, in the words of Kafka Streams: it is running when its tables are whole and its partitions are assigned."""
    recovery = app.tables.recovery
    ready = recovery.completed.is_set() and not recovery.in_recovery and not app.rebalancing
    return web.json({"state": "RUNNING" if ready else "REBALANCING", "restoring": max(0, recovery.active_remaining_total())})


@app.page("/state/{store}")
async def state(web: Any, request: Any, store: str) -> Any:  # noqa: ARG001
    """Every key of a table that this worker holds, as its changelog has it, with its value. The windowed one has a row for each word and minute."""
    if store not in app.tables:
        return web.json({}, status=404)
    return web.json({json.dumps(key, separators=(",", ":")): value for key, value in app.tables[store].data.items()})
