"""A moment is written with its zone, and is one moment exactly.

The next command is the one that was given, complete and quoted for a shell.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.names import checked_name
from streams_recovery.core.words import (
    PROGRAM,
    added,
    approved,
    command,
    first_names,
    parse_moment,
    run_name,
    shell,
    size,
    span,
    with_configs,
    without_plan,
)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.0 kB"),
        (1_500, "1.5 kB"),
        (99_400, "99.4 kB"),
        (99_600, "100 kB"),
        (999_600, "1.0 MB"),
        (38_200_000_000, "38.2 GB"),
        (2.5e18, "2500 PB"),
        (-1_200, "-1.2 kB"),
    ],
)
def test_a_size_is_short(count: float, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.4, "0.4 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (61, "1 min 1 s"),
        (599.4, "9 min 59 s"),
        (930, "16 min"),
        (3_599, "1 h"),
        (3_601, "1 h"),
        (7_260, "2 h 1 min"),
        (11_520, "3 h 12 min"),
        (86_400, "1 day"),
        (90_000, "1 day 1 h"),
        (2 * 86_400 + 60, "2 days"),
        (12 * 86_400 + 7_200, "12 days"),
    ],
)
def test_a_length_of_time_has_the_two_units_that_count(seconds: float, text: str) -> None:
    assert span(seconds) == text


NAMES = [f"t{number}" for number in reversed(range(8))]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (NAMES[:2], "t6, t7"),
        (NAMES[3:], "t0, t1, t2, t3, t4"),
        (NAMES, "t0, t1, t2, t3, t4 and 3 more"),
        ({TopicPartition("in", number): 1 for number in (10, 9)}, "in-9, in-10"),
    ],
)
def test_the_first_names_in_order_and_how_many_more(names: list[str], text: str) -> None:
    assert first_names(names) == text


def test_as_many_as_are_asked_for() -> None:
    assert first_names(NAMES, 2) == "t0, t1 and 6 more"


NOON = 1_795_262_400_000
YEARS = tuple(datetime(year, 1, 1, tzinfo=UTC).replace(tzinfo=None) for year in (1970, 2100))


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-21T12:00:00Z",
        " 2026-11-21T12:00:00Z ",
        "2026-11-21 12:00:00Z",
        "2026-11-21T13:00:00+01:00",
        "2026-11-21T13:00:00 Europe/Vienna",
        "2026-11-21 13:00  Europe/Vienna",
        "2026-11-21T12:00 UTC",
        "2026-11-21T17:45 Asia/Kathmandu",
    ],
)
def test_one_moment_has_many_names(text: str) -> None:
    assert parse_moment(text) == NOON


@given(st.datetimes(*YEARS), st.timezones())
def test_a_time_of_a_zone_is_its_moment_or_refused_as_none(naive: datetime, zone: object) -> None:
    # Independently of how it was parsed: the moments whose clocks show this time, found by trying every offset there is.
    naive = naive.replace(microsecond=naive.microsecond // 1000 * 1000)
    shown = set()
    for minutes in range(-16 * 60, 16 * 60 + 1, 1):
        moment = datetime.fromtimestamp((naive.replace(tzinfo=UTC).timestamp()) - minutes * 60, UTC)
        if moment.astimezone(zone).replace(tzinfo=None) == naive:  # type: ignore[arg-type]
            shown.add(round(moment.timestamp() * 1000))
    text = f"{naive.isoformat()} {zone}"
    if len(shown) == 1:
        assert parse_moment(text) == shown.pop()
    elif shown or zone_has_whole_minutes(naive, zone):
        with pytest.raises(ConfigInvalid, match="is no moment"):
            parse_moment(text)


def zone_has_whole_minutes(naive: datetime, zone: object) -> bool:
    offset = naive.replace(tzinfo=zone).utcoffset()  # type: ignore[arg-type]
    return offset is not None and offset.total_seconds() % 60 == 0


@pytest.mark.fault("F55")
def test_a_time_that_the_clocks_skip_is_refused() -> None:
    with pytest.raises(ConfigInvalid, match="clocks in Europe/Vienna skip it"):
        parse_moment("2026-03-29T02:30:00 Europe/Vienna")
    assert parse_moment("2026-03-29T02:30:00+01:00") == parse_moment("2026-03-29T03:30:00 Europe/Vienna")


@pytest.mark.fault("F55")
def test_a_time_that_the_clocks_show_twice_is_refused_with_both() -> None:
    with pytest.raises(ConfigInvalid, match="show it twice") as caught:
        parse_moment("2026-10-25T02:30:00 Europe/Vienna")
    assert caught.value.facts == {"moments": ["2026-10-25T02:30:00+01:00", "2026-10-25T02:30:00+02:00"]}
    hour = parse_moment("2026-10-25T02:30:00+01:00") - parse_moment("2026-10-25T02:30:00+02:00")
    assert hour == 3_600_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2026-11-21T12:00:00", "has no time zone"),
        ("2026-11-21", "has no time zone"),
        ("noon", "is not a time"),
        ("", "is not a time"),
        ("2026-11-21T25:00:00Z", "is not a time"),
        ("2026-11-21T12:00:00Z Europe/Vienna", "has two time zones"),
        ("2026-11-21T12:00:00 Europe/Nowhere", "there is no time zone"),
        ("2026-11-21T12:00:00 ../../etc/passwd", "is not a time"),
    ],
)
def test_what_is_no_moment_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigInvalid, match=said):
        parse_moment(text)


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


MANUAL = "manual__2026-11-23T12:00:00.123456+00:00"


def test_runs_of_one_id_in_two_dags_have_two_names() -> None:
    restore, undo = run_name(MANUAL, "streams_restore_full"), run_name(MANUAL, "streams_undo")
    assert restore != undo
    assert restore.rpartition("-")[0] == undo.rpartition("-")[0] == "manual__2026-11-23T12_00_00.123456_00_00"
    assert restore == run_name(MANUAL, "streams_restore_full"), "a task that is tried again is of the same run"


def test_ids_that_differ_in_characters_that_no_key_has_have_two_names() -> None:
    assert run_name("a:b", "dag") != run_name("a+b", "dag")


def test_every_id_that_airflow_takes_gives_a_name_for_a_key() -> None:
    for run_id in ("x" * 250, "é / 日", MANUAL):
        name = run_name(run_id, "streams_restore_full")
        assert checked_name("run", f"append-{name}") == f"append-{name}"
    assert run_name("x" * 250, "dag") != run_name("x" * 249, "dag")
