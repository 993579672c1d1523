"""The allow-list is the one thing between a name from outside and a path, a topic or an argument."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.names import checked_name
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
