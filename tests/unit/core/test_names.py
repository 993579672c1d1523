"""The allow-list is the one thing between a name from outside and a path, a topic or an argument."""

from __future__ import annotations

import re
import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.names import LONGEST_NAME, checked_name, matches_pattern, one_for_kafka, pattern_steps
from streams_recovery.core.repository.layout import Layout

HOSTILE = [
    "../../x",
    ";rm -rf",
    "$(id)",
    "`id`",
    "{{ conn.secret }}",
    "two\nlines",
    "trailing\n",
    "-leading",
    "nul\0byte",
    "x" * 10_000,
    "x" * 250,
    "",
    ".",
    "..",
    "a/b",
    "a\\b",
    "a b",
    "ä",
    "a\u200bb",
    "%2e%2e",
]
PLAIN = set(string.ascii_letters + string.digits + "._-")
NAMES = st.from_regex(r"\A[a-zA-Z0-9._][a-zA-Z0-9._-]{0,248}\Z").filter(lambda name: name not in (".", ".."))


@pytest.mark.fault("F60")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_refused_everywhere(name: str) -> None:
    layout = Layout("orders")
    for use in (
        lambda: checked_name("topic", name),
        lambda: Layout(name),
        lambda: layout.segment(TopicPartition(name, 0), 0, 1, "attempt"),
        lambda: layout.segment(TopicPartition("topic", 0), 0, 1, name),
        lambda: layout.manifest(name),
        lambda: layout.work(name, "note"),
        lambda: layout.work("run", name),
        lambda: layout.journal(name),
        lambda: layout.report(name),
    ):
        with pytest.raises(ConfigInvalid, match="is not allowed") as caught:
            use()
        assert len(str(caught.value)) < 300, "a long name is not repeated in full"


@given(NAMES)
def test_every_kafka_name_is_usable(name: str) -> None:
    assert checked_name("topic", name) == name
    assert Layout(name).manifest(name).split("/") == [name, "savepoints", name, "manifest.json.zst"]


@pytest.mark.fault("F60")
@given(st.text(alphabet="aZ09._-/\\ \n\0$`;{}é", max_size=5) | st.text())
def test_only_one_plain_path_part_passes(name: str) -> None:
    if 0 < len(name) < 250 and set(name) <= PLAIN and not name.startswith("-") and name not in (".", ".."):
        assert checked_name("topic", name) == name
    else:
        with pytest.raises(ConfigInvalid):
            checked_name("topic", name)


@pytest.mark.parametrize(
    ("pattern", "read", "left"),
    [
        ("orders-.*", "orders-eu", "all-orders-eu"),
        ("orders|prices", "prices", "prices-old"),
        ("orders-(eu|us)", "orders-us", "orders-usa"),
        ("(?i)orders", "ORDERS", "orders2"),
        (".*", "anything", "__consumer_offsets"),
    ],
)
def test_a_pattern_means_whole_names_and_none_of_kafkas_own(pattern: str, read: str, left: str) -> None:
    assert matches_pattern(read, ("nothing", pattern))
    assert not matches_pattern(left, ("nothing", pattern))
    assert not matches_pattern(read, ())


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        "(a|a)*b",
        "(a?){40}a{40}",
        "(.*a){12}",
        ".*a.*a.*a.*a.*b",
        "a?" * 40 + "a" * 40,
        r"(a*)*\1b",
        "((a{1,9}){1,9}){1,9}b",
        "(?=(a+)+$)a*",
    ],
)
def test_a_pattern_that_may_take_forever_is_known_by_its_parts(pattern: str) -> None:
    assert pattern_steps(pattern) > 1e8


@pytest.mark.parametrize(
    "pattern",
    [
        "orders-.*",
        r"orders-(eu|us|asia)(\..*)?",
        r"[^.]+\.[^.]+\.[^.]+\.[^.]+\.[^.]+\.x",
        "in-[0-9]+-[0-9]+-[0-9]+-[0-9]+-[0-9]+-v[0-9]{1,3}",
        "(?!__)in-.*",
        ".*-in-.*-eu.*",
        "[a-z]{3}-(dev|test|prod)-.*-in",
    ],
)
def test_a_pattern_that_people_write_takes_no_time_for_any_name(pattern: str) -> None:
    assert pattern_steps(pattern) <= 1e8
    for name in ("a" * LONGEST_NAME, "-" * LONGEST_NAME, "1-" * 124, "in-" * 83, "a.b" * 83):
        began = time.process_time()
        matches_pattern(name, [pattern])
        assert time.process_time() - began < 5


PARTS = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "-"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{0,3}"])).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
        st.lists(inner, min_size=2, max_size=4).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda many: f"(?:{'|'.join(many)})"),
    ),
    max_leaves=8,
)


@given(PARTS, st.sampled_from(["a", "ab", "-", "aab-"]))
def test_what_counts_as_quick_is_quick(pattern: str, part: str) -> None:
    if pattern_steps(pattern) > 1e6:
        return
    name = (part * LONGEST_NAME)[: LONGEST_NAME - 1] + "!"
    began = time.process_time()
    re.fullmatch(pattern, name)
    assert time.process_time() - began < 2


@pytest.mark.fault("F88")
def test_names_that_differ_in_dots_and_underscores_alone_are_one_for_kafka() -> None:
    assert one_for_kafka(["a.b", "a_b", "a-b", "a.b.c", "ab", "a.b"]) == (("a.b", "a_b"),)
    assert one_for_kafka(["a.b_c", "a_b.c", "a.b.c", "x"]) == (("a.b.c", "a.b_c", "a_b.c"),)
    assert one_for_kafka([]) == ()
