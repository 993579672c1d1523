"""The next command is the one that was given, complete and quoted for a shell."""

from __future__ import annotations

import os
import shlex
import subprocess

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streams_recovery.core.next_command import PROGRAM, added, approved, command, shell, with_configs, without_plan

# As a terminal shows them.
PRINTED = st.text(min_size=1, max_size=8).filter(lambda word: word.isprintable() and not word.startswith("--"))
WORDS = st.lists(PRINTED, max_size=5)


@given(WORDS)
def test_a_shell_reads_the_words_that_were_meant(words: list[str]) -> None:
    assert shlex.split(command(*words)) == [PROGRAM, *words]


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8), min_size=1, max_size=5))
@example(["a\nb", "\x1b[2J", "it's\u202e", "\\x41\x7f1", "\udc80"])
def test_a_command_has_no_control_character_whatever_it_names(words: list[str]) -> None:
    written = shell(*words)
    assert written.isprintable()
    # The same a second time, which is what somebody does who copies it.
    read = subprocess.run(["bash", "-c", f"printf '%s\\0' {written}"], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"})
    assert [os.fsdecode(word) for word in read.stdout.split(b"\0")[:-1]] == words


@given(WORDS, WORDS)
def test_a_plan_is_carried_out_by_the_same_words(before: list[str], after: list[str]) -> None:
    expected = [PROGRAM, *before, *after, "--reason", "by hand", "--approve", "abc"]
    for given_words in ([*before, "--plan", *after], [*before, "--approve", "old", *after], [*before, "--approve=old", *after, "--plan"]):
        assert shlex.split(approved(given_words, "abc", more=("--reason", "by hand"))) == expected


def test_an_option_is_added_once() -> None:
    assert added(("resume", "shop", "--take-over"), "--take-over") == "streams-recovery resume shop --take-over"
    assert without_plan(("drill", "shop", "--plan")) == "streams-recovery drill shop"


def test_a_command_is_for_the_same_configuration_files() -> None:
    unlock = command("unlock", "shop")
    assert with_configs(("restore", "shop", "--configs", "my files"), unlock) == f"{unlock} --configs 'my files'"
    assert with_configs(("restore", "--configs=here", "shop"), unlock) == f"{unlock} --configs=here"
    assert with_configs(("restore", "shop"), unlock) == unlock


@pytest.mark.parametrize("given_command", [command("unlock", "--configs", "a b"), command("unlock", "--configs=b"), "kafka-acls.sh --add"])
def test_one_that_names_its_files_or_is_of_another_program_stays(given_command: str) -> None:
    assert with_configs(("restore", "shop", "--configs", "here"), given_command) == given_command
