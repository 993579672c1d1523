"""Files as columns are the same files, also after they were stored; and no columns that do not fit each other are files."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged
from streams_recovery.core.repository.segment_file import NUMBERS, SegmentFile, SegmentFiles
from tests.support.examples.restore_plan import FILE

NUMBER = st.integers(-(2**63), 2**63 - 1)
FILES = st.lists(
    st.builds(
        SegmentFile,
        key=st.sampled_from(["app/segments/t/0/", "app/segments/t/0/x/", ""]).flatmap(
            lambda place: st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=9).map(lambda name: place + name)
        ),
        sha256=st.binary(min_size=32, max_size=32).map(bytes.hex),
        **dict.fromkeys(NUMBERS, NUMBER),
    ),
    max_size=5,
)
TWO = SegmentFiles.of([FILE, replace(FILE, key=FILE.key.replace("-a", "-b"))])


def again(plain: object) -> SegmentFiles:
    return codec.decode(SegmentFiles, plain, where="there")


@given(FILES)
def test_they_are_the_same_files_before_and_after_they_were_stored(files: list[SegmentFile]) -> None:
    for found in (SegmentFiles.of(files), codec.loads(SegmentFiles, codec.dumps(SegmentFiles.of(files)), where="there")):
        assert list(found) == files
        assert found == SegmentFiles.of(files)
        assert (len(found), found.rows, found.payload_bytes) == (
            len(files),
            sum(file.rows for file in files),
            sum(file.payload_bytes for file in files),
        )
        assert list(found.keys) == [file.key for file in files]
        assert list(found[1:3]) == files[1:3]
        assert [found[-at] for at in range(1, len(files) + 1)] == files[::-1]


@given(FILES, FILES)
def test_only_equal_files_are_equal(some: list[SegmentFile], others: list[SegmentFile]) -> None:
    assert (SegmentFiles.of(some) == SegmentFiles.of(others)) == (some == others)


@pytest.mark.parametrize("field", ["key", "sha256", *NUMBERS])
def test_one_different_field_is_another_file(field: str) -> None:
    value = {"key": FILE.key + "x", "sha256": "ab" * 32}.get(field, getattr(FILE, field))
    other = replace(FILE, **{field: value + 1 if isinstance(value, int) else value})
    assert SegmentFiles.of([FILE]) != SegmentFiles.of([other])
    assert codec.dumps(SegmentFiles.of([FILE])) != codec.dumps(SegmentFiles.of([other]))


@pytest.mark.parametrize(
    "changed",
    [
        {"keys": "only-one"},
        {"keys": "one\ntwo\nthree"},
        {"sha256": "ab" * 32},
        {"sha256": "ab" * 63},
        {"sha256": "AB" * 64},
        {"sha256": ""},
        {"rows": "1"},
        {"rows": "1 2 3"},
        {"rows": "1  2"},
        {"rows": "1 x"},
        {"rows": "1 \u0662"},
        {"rows": f"1 {2**63}"},
        {"rows": [1, 2]},
        {"more": "1 2"},
    ],
)
def test_columns_that_do_not_fit_each_other_are_damage(changed: dict[str, object]) -> None:
    with pytest.raises(Damaged) as caught:
        again({**asdict(TWO.to_stored()), **changed})
    assert "there" in str(caught.value.facts["where"])


def test_no_file_is_nothing_in_each_column() -> None:
    none = asdict(SegmentFiles.of([]).to_stored())
    assert set(none.values()) == {""}
    with pytest.raises(Damaged):
        again({**none, "directory": "app/"})


@pytest.mark.parametrize("changed", [{"key": "two\nkeys"}, {"sha256": "ab"}])
def test_a_file_that_could_not_be_read_back_as_itself_is_not_taken(changed: dict[str, str]) -> None:
    with pytest.raises(Damaged):
        SegmentFiles.of([replace(FILE, **changed)])
