"""Compiled reading finds what reading by objects finds: record by record, on librdkafka's mock of a cluster."""

from __future__ import annotations

import signal
import threading

import pyarrow as pa
import pytest
from confluent_kafka import Message, Producer
from hypothesis import given, settings
from hypothesis import strategies as st

from streams_recovery.core.errors import Refused
from streams_recovery.core.work import OffsetRange
from streams_recovery.kafka.exact_producer import PlainSender
from streams_recovery.kafka.native import reading
from streams_recovery.kafka.native.librdkafka import native
from streams_recovery.kafka.native.reading import NativeReadingClient
from streams_recovery.kafka.native.writing import NativeSender
from streams_recovery.kafka.range_consumer import ReadingClient, size_of
from tests.support.examples.rows import SHAPES, batch_of, rows_in
from tests.support.kafka.mock_cluster import arrivals, mock_cluster, new_log, send, table

CLIENTS = (ReadingClient, NativeReadingClient)

maybe_bytes = st.none() | st.binary(max_size=30)
# A header's name is a C string on its way through the client, and the client writes the present for a time of 0.
names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
stamps = st.integers(1, 2**63 - 1) | st.integers(-(2**63), -1)
some_rows = st.lists(
    st.tuples(stamps, maybe_bytes, maybe_bytes, st.none() | st.lists(st.tuples(names, maybe_bytes), min_size=1, max_size=4)),
    min_size=1,
    max_size=40,
)


@pytest.fixture(scope="module")
def connection():
    with mock_cluster() as found:
        yield found


@pytest.fixture(scope="module")
def senders(connection):
    config = connection.client_config(**{"enable.idempotence": True, "linger.ms": 0})
    made = (PlainSender(config, print), NativeSender(native(), config, print))
    yield made
    for sender in made:
        sender.close()


def both(connection, wanted):
    found = []
    for kind in CLIENTS:
        client = kind(connection, 64)
        try:
            found.append(arrivals(client, wanted))
        finally:
            client.close()
    return found


@settings(max_examples=40)
@given(rows=some_rows, by=st.integers(0, 1), first=st.integers(0, 3), last=st.integers(0, 3))
def test_any_records_are_read_alike_whoever_wrote_them(connection, senders, rows, by, first, last):
    tp = new_log()
    # In the middle of its buffers, as a slice of a batch of a segment is.
    send(senders[by], tp, batch_of([(7, b"x", b"", None)] * first + rows + [(8, None, b"y", [("h", b"z")])] * last).slice(first, len(rows)))
    plain, compiled = (table(found) for found in both(connection, OffsetRange(tp, 0, len(rows))))
    assert compiled.equals(plain)
    assert rows_in(compiled.to_batches()) == rows
    assert compiled.schema.equals(plain.schema)


def test_every_shape_and_many_of_each_are_read_alike(connection, senders):
    tp, rows = new_log(), SHAPES + SHAPES[:-1] * 200
    send(senders[1], tp, batch_of(rows))
    plain, compiled = (table(found) for found in both(connection, OffsetRange(tp, 0, len(rows))))
    assert compiled.equals(plain)
    assert compiled.num_rows == len(rows)
    compiled.validate(full=True)


def test_records_behind_the_end_are_counted_and_not_gathered(connection, senders):
    tp = new_log()
    send(senders[1], tp, batch_of(SHAPES[:-1] * 5))
    for found in both(connection, OffsetRange(tp, 2, 9)):
        assert table(found).column("offset").to_pylist() == list(range(2, 9))
        assert any(one.beyond for one in found)
        assert 7 <= sum(one.handed_over for one in found) <= 25


def test_what_is_too_much_for_one_batch_becomes_several(connection, senders, monkeypatch):
    tp, rows = new_log(), [(1, b"k%d" % at, b"v" * 100 * at, [("h", b"x")]) for at in range(60)]
    send(senders[1], tp, batch_of(rows))
    monkeypatch.setattr(reading, "MOST_BYTES", 1_000)
    plain, compiled = both(connection, OffsetRange(tp, 0, len(rows)))
    assert table(compiled).equals(table(plain))
    batches = [batch for one in compiled for batch in one.batches]
    assert len(batches) > 40
    assert all(len(batch) == 1 or batch.nbytes < 2_000 for batch in batches)


def test_what_comes_of_another_topic_is_no_record_of_this_one(connection, senders):
    one, other = sorted((new_log(), new_log()))
    for tp, value in ((one, b"mine"), (other, b"theirs")):
        send(senders[1], tp, batch_of([(1, None, value, None)] * 50))
    for kind in CLIENTS:
        client, found = kind(connection, 64), []
        client.assign([OffsetRange(one, 0, 50), OffsetRange(other, 0, 50)])
        while any(at < 50 for at in client.positions([one, other]).values()):
            found.append(client.arrived(OffsetRange(one, 0, 50), 20_000))
        client.close()
        assert table(found).column("value").to_pylist() == [b"mine"] * 50
        assert sum(arrived.handed_over for arrived in found) == 50


def test_the_end_of_a_log_is_told_as_an_error_with_its_offset(connection, senders):
    tp = new_log()
    send(senders[1], tp, batch_of(SHAPES))
    for kind in CLIENTS:
        client, told = kind(connection, 64), []
        client.assign([OffsetRange(tp, 0, 100)])
        while not told:
            told = [(each.error.name(), each.error.str(), each.offset) for each in client.arrived(OffsetRange(tp, 0, 100), 100).errors]
        client.close()
        assert [(name, offset) for name, _, offset in told] == [("_PARTITION_EOF", len(SHAPES))]
        assert f"end of partition at offset {len(SHAPES)}" in told[0][1]


def test_records_are_counted_by_the_client_itself(connection, senders):
    tp = new_log()
    send(senders[1], tp, batch_of([(1, None, b"v", None)] * 500))
    for kind in CLIENTS:
        client = kind(connection, 1_024)
        handed_over = sum(one.handed_over for one in arrivals(client, OffsetRange(tp, 0, 500)))
        assert client.received({tp: handed_over}) == {tp: 500}
        client.close()


def test_a_header_whose_name_is_no_text_is_named_with_its_record(connection, senders):
    tp = new_log()
    send(senders[1], tp, batch_of([(1, b"k", b"v", [("good", b"1")])] * 3))
    rows = batch_of([(1, b"k", b"v", [("ok", b"1"), ("bad", b"2")])])
    headers = rows.column("headers")
    names = pa.array([b"ok", b"\xff\xfe\xfd"], pa.binary()).view(pa.string())
    pairs = pa.StructArray.from_arrays([names, headers.values.field("value")], fields=list(headers.type.value_type))
    lists = pa.ListArray.from_arrays(headers.offsets, pairs, type=headers.type)
    send(senders[1], tp, pa.record_batch([*rows.columns[:-1], lists], schema=rows.schema), expected=3)
    for kind in CLIENTS:
        client = kind(connection, 64)
        with pytest.raises(Refused, match=f"{tp}: the record at offset 3 has a header whose name is no UTF-8 text"):
            arrivals(client, OffsetRange(tp, 0, 4))
        client.close()
    client = ReadingClient(connection, 64)
    client.assign([OffsetRange(tp, 0, 4)])
    messages: list[Message] = []
    while len(messages) < 4:
        messages += [message for message in client.consume(100, "reading") if message.error() is None]
    # As often as a call needs to be specialized: unlooked at, the list with holes in it ends the process.
    for _ in range(100):
        assert [size_of(message) for message in messages[:3]] == [2 + len("good") + 1] * 3
    with pytest.raises(Refused, match=f"{tp}: the record at offset 3 has"):
        size_of(messages[3])
    client.close()


@pytest.mark.fault("F93")
@pytest.mark.parametrize("value", [None, b"", b"v"])
@pytest.mark.parametrize("beside", [[], [("a", b"1")], [("a", None), ("b", None)]])
@pytest.mark.parametrize("cut", [True, False])
def test_a_header_whose_name_is_cut_at_a_nul_is_named_with_its_record(connection, senders, value, beside, cut):
    tp = new_log()
    name = "a\0b" if cut else "a"
    send(senders[1], tp, batch_of([(1, b"k", b"v", [("good", None), ("good", b"1")])] * 3))
    send(senders[1], tp, batch_of([(1, b"k", b"v", [(name, value), *beside])]), expected=3)
    send(senders[1], tp, batch_of([(1, b"k", b"v", [*beside, (name, value)])]), expected=4)
    client = NativeReadingClient(connection, 64)
    try:
        if not cut:
            assert sum(len(batch) for one in arrivals(client, OffsetRange(tp, 0, 5)) for batch in one.batches) == 5
            return
        with pytest.raises(Refused, match=f"{tp}: the record at offset 3 has a header whose name has a NUL byte"):
            arrivals(client, OffsetRange(tp, 0, 5))
    finally:
        client.close()


@pytest.mark.fault("F93")
@pytest.mark.parametrize("bad", ["", "a\0b"])
def test_many_headers_without_a_value_cost_no_more_each_than_few_and_the_log_is_asked_then(connection, senders, bad):
    tp, many = new_log(), [(f"header-{number}", None) for number in range(8_000)]
    send(senders[1], tp, batch_of([(1, b"k", b"v", many + [(bad, None)] * bool(bad)), (1, b"k", b"v", [("a", None)] * 100)]))
    wanted = (OffsetRange(tp, 0, 2), OffsetRange(tp, 1, 2))
    client = NativeReadingClient(connection, 64)
    found = arrivals(client, wanted[0])
    assert any(one.ask_for_names for one in found), "that many are not looked through for each of them"
    client.close()
    plain, compiled = (table(one) for one in both(connection, wanted[0]))
    assert compiled.equals(plain)
    asked = [[one.ask_for_names for one in one_by_one] for one_by_one in both(connection, wanted[1])]
    assert (all(asked[0]), any(asked[1])) == (True, False), "of few the client tells by itself"


def test_a_client_that_does_not_take_a_setting_says_which():
    from streams_recovery.core.errors import ConfigInvalid
    from streams_recovery.kafka.connection import KafkaConnection

    wrong = KafkaConnection(bootstrap_servers="127.0.0.1:1", properties={"security.protocol": "none such"})
    texts = []
    for kind in CLIENTS:
        with pytest.raises(ConfigInvalid, match=r"security\.protocol") as caught:
            kind(wrong, 64)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]


def test_a_producer_of_other_programs_is_read_alike(connection):
    tp = new_log()
    producer = Producer({"bootstrap.servers": connection.bootstrap_servers, "log_level": 0, "compression.type": "zstd"})
    for at in range(2_000):
        producer.produce(
            tp.topic, b"v%d" % at, None if at % 3 else b"k%d" % at, 0, headers=[("a", b"1"), ("a", None)] if at % 5 == 0 else []
        )
    assert producer.flush(10) == 0
    plain, compiled = (table(found) for found in both(connection, OffsetRange(tp, 0, 2_000)))
    assert compiled.equals(plain)


def test_records_that_nobody_came_to_destroy_do_not_keep_a_client_from_closing(connection, senders):
    """As when a signal's handler raises while the client is asked for more."""
    tp = new_log()
    send(senders[1], tp, batch_of(SHAPES))
    client = NativeReadingClient(connection, 64)
    client.assign([OffsetRange(tp, 0, len(SHAPES))])
    while not client._consumed(0.1, 100):
        pass
    closing = threading.Thread(target=client.close, daemon=True)
    closing.start()
    closing.join(10)
    assert not closing.is_alive()


class Interruption(Exception):
    pass


def test_no_interruption_is_lost_in_what_the_client_tells(connection, senders):
    """The handler of a signal runs in the next code of Python, whichever that is: one that a callback swallowed would leave the process running."""
    tp, fired, seen = new_log(), 0, 0
    send(senders[1], tp, batch_of(SHAPES))

    def interrupt(*_):
        nonlocal fired
        fired += 1
        raise Interruption

    client = NativeReadingClient(connection, 64)
    client.assign([OffsetRange(tp, 0, 100)])
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for shot in range(100):
            signal.setitimer(signal.ITIMER_REAL, 0.0131)
            try:
                while fired == shot:
                    client._consumed(0.005, 100)
            except Interruption:
                seen += 1
        assert (fired, seen) == (100, 100)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        client.close()


def test_a_client_that_was_closed_says_so(connection):
    client, tp = NativeReadingClient(connection, 64), new_log()
    client.close()
    wanted = OffsetRange(tp, 0, 1)
    for use in (lambda: client.arrived(wanted, 1), lambda: client.positions([tp]), lambda: client.assign([wanted])):
        with pytest.raises(RuntimeError, match="was closed"):
            use()
