"""No file costs much more to read than a large one that is right, however it is made."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from streams_recovery.config.loader import load
from streams_recovery.core.errors import ConfigInvalid
from tests.support.examples.configurations import MINIMAL, refused, written


def line_of(text: str, part: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)


def calls_of(directory: Path, text: str, environment: dict[str, str]) -> int:
    """How many functions are called until the configuration is there or refused."""
    path, calls, said = written(directory, text), 0, ""

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        load(path, environment)
    except ConfigInvalid as error:
        said = str(error)
    finally:
        sys.setprofile(None)
    assert len(said) < 30_000, "people read this"
    return calls


def _many(line: str, count: int) -> str:
    return "".join(line.replace("#", f"{number}") for number in range(count))


TWO_PLACES = MINIMAL.replace("[orders-in]", f"[{_many('a#,', 4_000)}]\n  outputs: [{_many('b#,', 500)}]")


HOSTILE = {
    "unknown keys": MINIMAL + _many("k#: 1\n", 4_900),
    "unknown keys in sections": MINIMAL + "stores:\n" + _many(" s#: {a: 1}\n", 2_400),
    "wrong items": MINIMAL.replace("[orders-in]", f"[{_many('1,', 9_900)}]"),
    "a key that is long": MINIMAL + '? "' + "x" * 250_000 + '"\n: 1\n',
    "a value that is long": MINIMAL.replace("version: 1", f"version: 1\nname: {'x' * 250_000}"),
    "a value that is a list": MINIMAL.replace("id: orders", f"id: orders\n  session_timeout_ms: [{_many('1,', 9_900)}]"),
    "more keys than anybody needs": MINIMAL + _many("k#: 1\n", 20_000),
    "a path of many folders": MINIMAL.replace("path: repository", f"path: {'a/' * 100_000}"),
    "a long schedule": MINIMAL + f'check: {{schedule: "{"0-59," * 40_000}0 * * * *"}}\n',
    "many globs": MINIMAL.replace("[orders-in]", f"[{_many('a#,', 5_000)}]\n  exclude: [{_many('z#*,', 4_900)}]"),
    "many globs that are few enough": MINIMAL.replace("[orders-in]", f"[{_many('a#,', 8_000)}]\n  exclude: [{_many('z#*,', 900)}]"),
    "stores and their sources": MINIMAL.replace("[orders-in]", f"[{_many('a#,', 5_000)}]")
    + f"stores: {{{_many('s#: {source: a1},', 1_200)}}}\n",
    "variables that grow": MINIMAL.replace("[orders-in]", "[" + '"${A}",' * 9_000 + "]"),
    "one value with many variables": MINIMAL.replace("path: repository", f"path: {'${A}' * 60_000}"),
    "placeholders that grow": MINIMAL.replace("[java, Orders.java]", '["' + "{state_directory}" * 12_000 + '"]').replace(
        "state/1", "s" * 4_000
    ),
    "instances and arguments": MINIMAL.replace("[java, Orders.java]", f"[{_many('x#,', 2_000)}]")
    + _many('      - {name: n#, url: "http://127.0.0.1:1#", state_directory: s#}\n', 1_100),
    "a drill with many names": TWO_PLACES
    + "drill:\n  application_id: d\n  topic_map: {"
    + _many("a#: d#,", 2_000)
    + '}\n  process: {directory: d, instances: [{name: one, url: "http://127.0.0.1:1", state_directory: d/1}]}\n',
    "intervals with many names in many slots": TWO_PLACES
    + "reprocess:\n  parallel: 64\n  application_id: d\n  topic_map: {"
    + _many("a#: d#,", 2_000)
    + "}\n  process: {directory: d, slots: ["
    + _many('{instances: [{name: n#, url: "http://127.0.0.1:1#", state_directory: d/#}]},', 64)
    + "]}\n",
    "a drill with many names and long arguments": TWO_PLACES.replace("[java, Orders.java]", f"[java, {_many('x' * 1_000 + '#,', 150)}]")
    + "drill:\n  application_id: d\n  topic_map: {"
    + _many("b#: d#,", 500)
    + '}\n  process: {directory: d, instances: [{name: one, url: "http://127.0.0.1:1", state_directory: d/1}]}\n',
    "a clone with many names": TWO_PLACES + "clone: {of: other}\nrestore: {topic_map: {" + _many("c#: b#,", 500) + "}}\n",
}


@pytest.fixture(scope="module")
def most_calls(tmp_path_factory: pytest.TempPathFactory) -> float:
    """Twice what one of the most keys and values that is right costs."""
    return 2 * calls_of(tmp_path_factory.mktemp("right"), MINIMAL.replace("[orders-in]", f"[{_many('a#,', 9_900)}]"), {})


@pytest.mark.parametrize("case", HOSTILE)
def test_no_file_costs_much_more_than_a_large_one_that_is_right(tmp_path: Path, case: str, most_calls: float) -> None:
    assert calls_of(tmp_path, HOSTILE[case], {"A": "x" * 50_000}) <= most_calls


def test_a_drill_whose_names_would_take_long_to_find_is_refused(tmp_path: Path) -> None:
    assert "there are too many names to look for" in refused(tmp_path, HOSTILE["a drill with many names and long arguments"])


def test_the_first_mistakes_are_told_and_how_many_more_there_are(tmp_path: Path) -> None:
    message = refused(tmp_path, MINIMAL + _many("unknown#: 1\n", 50))
    first = line_of(MINIMAL + "unknown0", "unknown0")
    assert f"orders.yaml:{first + 20}: 30 more from here on" in message
    assert message.count("unknown key") == 20
    long = refused(tmp_path, MINIMAL + '? "' + "x" * 5_000 + '"\n: 1\n')
    assert "unknown key xxx" in long
    assert "x" * 200 not in long
