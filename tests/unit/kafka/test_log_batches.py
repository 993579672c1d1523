"""Batches of a log are gone through by their headers: whatever the cleaner takes out is seen, and nothing else."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import TransientError
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.kafka.log_batches import CONTROL, Walked, names_with_nul, walk, whole_logs
from tests.support.kafka.scripted_clients import Script, ScriptedClients

HEADER = struct.Struct(">qiibIhiqqqhii")


def batch(base: int, span: int, count: int | None = None, body: bytes = b"xyz", magic: int = 2, attributes: int = 0) -> bytes:
    """A batch over ``span`` offsets from ``base`` on, of which as many records are left as are counted."""
    length = HEADER.size - 12 + len(body)
    return HEADER.pack(base, length, 0, magic, 0, attributes, span - 1, 0, 0, -1, -1, -1, span if count is None else count) + body


def log(spans: list[int]) -> bytes:
    """Batches one behind the other, from offset 0 on."""
    starts = [sum(spans[:at]) for at in range(len(spans))]
    return b"".join(batch(start, span) for start, span in zip(starts, spans, strict=True))


spans = st.lists(st.integers(1, 50), min_size=1, max_size=12)


@given(spans=spans, data=st.data())
def test_a_log_as_it_was_written_is_whole_however_much_of_it_is_given(spans: list[int], data: st.DataObject) -> None:
    whole, end = log(spans), sum(spans)
    start = data.draw(st.integers(0, spans[0] - 1))
    given_bytes = data.draw(st.integers(0, len(whole)))
    found = walk(whole[:given_bytes], start, end)
    assert found.whole
    assert found.position in {start, *(sum(spans[: at + 1]) for at in range(len(spans)))}
    assert walk(whole, start, end) == Walked(end, whole=True)


@given(spans=spans, data=st.data())
def test_a_record_that_is_gone_is_seen(spans: list[int], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(spans) - 1))
    start = sum(spans[:at])
    thinned = batch(start, spans[at], data.draw(st.integers(0, spans[at] - 1)))
    rest = b"".join(batch(sum(spans[:one]), spans[one]) for one in range(at + 1, len(spans)))
    assert walk(log(spans[:at]) + thinned + rest, 0, sum(spans)) == Walked(start, whole=False)
    if at + 1 < len(spans):
        assert walk(log(spans[:at]) + rest, 0, sum(spans)) == Walked(start, whole=False), "and a batch that is gone as a whole"


def test_batches_before_and_behind_do_not_matter() -> None:
    data = batch(0, 5, 1) + batch(5, 5) + batch(10, 5, 2)
    assert walk(data, 5, 10) == Walked(10, whole=True)
    assert walk(data, 5, 11) == Walked(10, whole=False)


@pytest.mark.parametrize("magic", [0, 1])
def test_what_is_written_in_an_older_format_proves_nothing(magic: int) -> None:
    assert walk(batch(0, 1, magic=magic), 0, 1) == Walked(0, whole=False)


class OneByOne(ScriptedClients):
    """A cluster that gives one batch after the other, each a while after it was asked for, and then nothing more."""

    def __init__(self, batches: int) -> None:
        leader = [{"name": "t", "error_code": 0, "partitions": [{"partition_index": 0, "leader_id": 1}]}]
        super().__init__(pure=Script(describe_topics=[leader] * 50), timeout=0.2)
        self.given = [batch(5 * at, 5, attributes=CONTROL) for at in range(batches)]

    def send(self, request: object, node: int | None = None, *, within_ms: int | None = None) -> Any:  # noqa: ARG002  # as it is called
        time.sleep(0.06)
        records = self.given.pop(0) if self.given else b""
        part = SimpleNamespace(partition_index=0, error_code=0, records=records)
        return SimpleNamespace(responses=[SimpleNamespace(topic="t", partitions=[part])])


@pytest.mark.fault("F39")
@pytest.mark.parametrize("ask", [whole_logs, names_with_nul])
def test_a_log_that_comes_slowly_is_gone_through_and_one_that_does_not_come_is_an_error(
    ask: Callable[..., Collection[TopicPartition]],
) -> None:
    tp = TopicPartition("t", 0)
    assert set(ask(OneByOne(8), {tp: (0, 40)})) == {tp}
    with pytest.raises(TransientError, match="did not give the batches of t-0"):
        ask(OneByOne(7), {tp: (0, 40)})
