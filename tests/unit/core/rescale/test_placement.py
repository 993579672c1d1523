"""Which part of their keys puts records where they lie."""

from __future__ import annotations

import struct
from dataclasses import replace
from math import gcd

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import KeyForm, StoreKind, TopicPartition
from streams_recovery.core.rescale.placement import (
    FormFailed,
    FormPair,
    PartitionSeen,
    RescaledTopic,
    astray,
    candidates,
    deciding,
    partition_of,
    proven,
)
from streams_recovery.core.state.edit import default_partition

TOPIC = RescaledTopic(name="t", old=4, new=12)
KEYS = {
    KeyForm.WHOLE: b"key",
    KeyForm.WINDOWED: b"key" + struct.pack(">q", 5),
    KeyForm.WINDOW: b"key" + struct.pack(">qi", 5, 0),
    KeyForm.SESSION: b"key" + struct.pack(">qq", 7, 5),
    KeyForm.FOREIGN_KEY: struct.pack(">i", 3) + b"key" + b"primary",
    KeyForm.TIME_ORDERED: struct.pack(">qb", 5, 1) + b"key",
    KeyForm.TIME_FIRST: struct.pack(">bq", 0, 5) + b"key" + struct.pack(">i", 1),
}


def seen(
    partition: int = 0, *, records: int = 9, keyless: int = 0, failed: tuple[KeyForm, ...] = (), differ: tuple[FormPair, ...] = ()
) -> PartitionSeen:
    wrong = tuple(FormFailed(form=form, offset=20 + at) for at, form in enumerate(failed))
    return PartitionSeen(tp=TopicPartition("t", partition), records=records, keyless=keyless, keys=3, failed=wrong, differ=differ)


@pytest.mark.parametrize("form", KEYS)
def test_the_key_is_found_in_what_a_store_writes(form: KeyForm) -> None:
    assert deciding(form, KEYS[form]) == b"key"
    assert partition_of(form, KEYS[form], 7) == default_partition(b"key", 7)


@pytest.mark.parametrize(
    ("form", "key"),
    [
        (KeyForm.WINDOW, b"x" * 11),
        (KeyForm.SESSION, b"x" * 15),
        (KeyForm.TIME_FIRST, b"x" * 12),
        (KeyForm.FOREIGN_KEY, b"x" * 3),
        (KeyForm.FOREIGN_KEY, struct.pack(">i", 4) + b"key"),
        (KeyForm.FOREIGN_KEY, struct.pack(">i", -1) + b"key"),
    ],
)
def test_a_key_that_is_too_short_has_not_the_form(form: KeyForm, key: bytes) -> None:
    assert deciding(form, key) is None
    assert partition_of(form, key, 3) is None


@given(st.binary(max_size=20), st.integers(1, 40), st.integers(1, 40))
def test_records_stay_in_their_class(key: bytes, old: int, new: int) -> None:
    topic = replace(TOPIC, old=old, new=new)
    before, after = default_partition(key, old), default_partition(key, new)
    assert before in topic.sources(after)
    assert topic.classes == gcd(old, new)
    assert len(topic.sources(after)) == old // topic.classes


def test_of_ones_own_partitioner_every_partition_is_a_source() -> None:
    assert list(replace(TOPIC, own="mine").sources(7)) == [0, 1, 2, 3]


def test_the_form_that_all_records_obey_is_taken() -> None:
    others = tuple(form for form in candidates(TOPIC, StoreKind.UNKNOWN) if form is not KeyForm.WINDOW)
    proof = proven(TOPIC, StoreKind.UNKNOWN, [seen(0, failed=others[:4], keyless=2), seen(1, failed=others[2:])])
    assert (proof.form, proof.also, proof.records, proof.keyless, proof.keys) == (KeyForm.WINDOW, (), 18, 2, 6)


def test_a_record_that_obeys_no_form_is_named() -> None:
    every = candidates(TOPIC, None)
    with pytest.raises(Refused, match=r"offset 20 of partition 1 is not put there as whole") as refused:
        proven(TOPIC, None, [seen(0, failed=every[1:]), seen(1, failed=every[:1])])
    assert refused.value.facts == {"topic": "t", "partition": 1, "offset": 20}


def test_too_few_keys_are_placed_by_the_kind_and_else_refused() -> None:
    pair = (FormPair(one=KeyForm.WHOLE, other=KeyForm.WINDOWED), FormPair(one=KeyForm.WHOLE, other=KeyForm.SESSION))
    proof = proven(TOPIC, StoreKind.VERSIONED, [seen(differ=pair)])
    assert (proof.form, proof.also) == (KeyForm.WHOLE, (KeyForm.WINDOWED, KeyForm.SESSION))
    others = tuple(form for form in candidates(TOPIC, StoreKind.SUPPRESS) if form not in (proof.form, *proof.also))
    with pytest.raises(Refused, match="its 3 keys lie where they would as whole and as windowed and as session"):
        proven(TOPIC, StoreKind.SUPPRESS, [seen(failed=others, differ=pair)])


@pytest.mark.parametrize("kind", [None, StoreKind.KEY_VALUE])
def test_keys_that_may_be_windowed_are_not_taken_for_whole_ones_where_nothing_tells(kind: StoreKind | None) -> None:
    """In one partition every form is obeyed: a window's records would be apart from those that come for it."""
    pair = (FormPair(one=KeyForm.WHOLE, other=KeyForm.WINDOWED),)
    others = tuple(form for form in candidates(TOPIC, kind) if form not in (KeyForm.WHOLE, KeyForm.WINDOWED))
    some = replace(seen(failed=others, differ=pair), timed=True)
    with pytest.raises(Refused, match="as whole and as windowed") as refused:
        proven(TOPIC, kind, [some, replace(seen(1, records=2, keyless=2), timed=False)])
    assert "process them first" in refused.value.next_step
    # One key that ends otherwise is none of a window; and where only one form is obeyed, it is that.
    assert proven(TOPIC, kind, [some, seen(1, failed=others, differ=pair)]).form is KeyForm.WHOLE
    assert proven(TOPIC, kind, [replace(seen(failed=(*others, KeyForm.WINDOWED)), timed=True)]).form is KeyForm.WHOLE


def test_forms_that_agree_on_the_new_places_need_no_kind() -> None:
    others = (KeyForm.WHOLE, KeyForm.WINDOW, KeyForm.TIME_ORDERED, KeyForm.TIME_FIRST, KeyForm.FOREIGN_KEY)
    assert proven(TOPIC, StoreKind.SUPPRESS, [seen(failed=others)]).form is KeyForm.WINDOWED


def test_a_form_that_a_person_has_named_is_the_only_one() -> None:
    named = replace(TOPIC, form=KeyForm.SESSION)
    assert candidates(named, StoreKind.KEY_VALUE) == (KeyForm.SESSION,)
    with pytest.raises(Refused, match="as session"):
        proven(named, StoreKind.KEY_VALUE, [seen(failed=(KeyForm.SESSION,))])
    assert candidates(replace(TOPIC, own="mine"), None) == (KeyForm.OWN,)


def test_without_a_key_nothing_is_claimed() -> None:
    proof = proven(TOPIC, None, [seen(records=2, keyless=2)])
    assert (proof.form, proof.also, proof.records, proof.keyless) == (None, (), 2, 2)


def test_records_that_the_old_number_has_placed_are_counted():
    keys = [b"key-%d" % number for number in range(60)]
    here = [key for key in keys if default_partition(key, 6) == 1]
    old = [key for key in keys if default_partition(key, 4) == 1 and default_partition(key, 6) != 1]
    other = [key for key in keys if default_partition(key, 4) != 1 and default_partition(key, 6) != 1]
    assert min(map(len, (here, old, other))) > 3
    assert astray(KeyForm.WHOLE, here, 1, (4, 6)) == astray(None, here, 1, (4, 6)) == 0
    assert astray(KeyForm.WHOLE, here + old, 1, (4, 6)) == astray(None, here + old, 1, (4, 6)) == len(old)
    # Where no form is proven, a producer may have a partitioner of its own.
    assert (astray(KeyForm.WHOLE, old + other, 1, (4, 6)), astray(None, old + other, 1, (4, 6))) == (len(old) + len(other), 0)
