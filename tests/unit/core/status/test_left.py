"""What a call that was ended leaves, in words, and the one command that goes on."""

from __future__ import annotations

import shlex

from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.status.left import Left, left_text, next_commands

NAMES = st.lists(st.from_regex(r"[a-z][a-z0-9.-]{0,9}", fullmatch=True), max_size=3).map(tuple)
FACTS = st.builds(
    Left,
    restore=st.none() | st.just("20261121T012345Z-0123456789"),
    phase=st.sampled_from(["created", "loaded"]),
    instances=NAMES,
    standing=NAMES,
    held=NAMES,
    lock_of=st.none() | st.just("savepoint x"),
    unknown=NAMES,
)


@given(FACTS)
def test_there_is_always_one_command_and_it_goes_on_with_what_is_left(left: Left) -> None:
    words = shlex.split(next_commands("shop", left, "streams-recovery verify shop")[1])
    assert words[0] == "streams-recovery"
    expected = (
        "resume" if left.restore else "backup" if left.standing or left.held or left.lock_of else "info" if left.unknown else "verify"
    )
    assert words[1] == expected
    assert left.nothing == (expected == "verify")


@given(FACTS)
def test_all_of_it_is_said(left: Left) -> None:
    text = "\n".join(left_text(left))
    assert all(one in text for one in (*left.instances, *left.standing, *left.held, *left.unknown))
    assert (left.restore or "") in text
    assert ("the lock is free" in text) == (left.lock_of is None)
    assert ("no topic is held" in text) == (not left.held)
