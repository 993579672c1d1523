"""The data of the benchmark."""

from __future__ import annotations

import json

import pytest
import zstandard

from bench.bare import BLOCK, CASES, Case, blocks, keys, values

BY_NAME = {case.name: case for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_value_has_its_length_and_is_another_one(case: Case) -> None:
    data, size = values(case, 7, 300), case.value_bytes
    assert len(data) == 300 * size
    assert len({data[at : at + size] for at in range(0, len(data), size)}) == 300


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_looks_like_json_is_and_compresses_and_what_is_random_does_not(case: Case) -> None:
    data = values(case, 7, 1000)
    ratio = len(data) / len(zstandard.compress(data, 3))
    if case.random:
        assert ratio < 1.01
        return
    assert 4 < ratio < 9
    assert [json.loads(data[at : at + case.value_bytes])["order"] for at in (0, 5 * case.value_bytes)] == [7, 12]


def test_keys_have_16_bytes_and_as_many_updates_as_the_case_says() -> None:
    for name, distinct in (("150b", 1000), ("updates", 100)):
        found = keys(BY_NAME[name], 0, 1000, 1000)
        assert {len(key) for key in found} == {16}
        assert (len(found), len(set(found))) == (1000, distinct)


def test_steps_are_all_records_of_a_partition_once() -> None:
    for each in (1, BLOCK, 2 * BLOCK + 3):
        assert [number for first, count in blocks(each) for number in range(first, first + count)] == list(range(each))


def test_a_case_of_1_kb_has_fewer_records_and_every_partition_the_same_number() -> None:
    assert BY_NAME["150b"].records(2_000_000, 4) == 2_000_000
    assert BY_NAME["1kb"].records(2_000_000, 4) == 600_000
    assert BY_NAME["1kb"].records(99, 4) == 28
