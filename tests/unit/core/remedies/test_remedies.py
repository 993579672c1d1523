"""What people are told to do: each remedy is carried out by a test, and no command of Kafka's own tools is written anywhere else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from documentation.faults import marked
from documentation.remedies import EXAMPLES, MARK, problems, remedies_page
from streams_recovery.core.remedies.remedy import KafkaTool, KafkaTools, Remedy, RemedyKind
from streams_recovery.kafka.connection import KafkaConnection
from tests.support.project import PROJECT

PACKAGE = PROJECT / "plugins" / "streams_recovery"
TOOL = re.compile(
    r"\bkafka-(?:[a-z]+-)*(?:acls|configs|dirs|election|groups|offsets|partitions|records|topics|transactions|versions)\b|\bkafka-[\w-]+\.sh\b"
)
TEST, SHOWN = "tests/integration/test_it.py::test_a", "tests/unit/test_it.py::test_a"


def written_commands(source: str) -> Iterator[tuple[int, str]]:
    """Names of Kafka's tools in what a program shows, with their lines. Docstrings show nothing."""
    tree = ast.parse(source)
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield from ((node.lineno, found) for found in TOOL.findall(node.value))


def test_commands_of_kafka_s_tools_are_written_in_one_place() -> None:
    found = {
        str(path.relative_to(PACKAGE)): list(written_commands(path.read_text(encoding="utf-8")))
        for path in sorted(PACKAGE.rglob("*.py"))
        if not path.is_relative_to(PACKAGE / "core" / "remedies")
    }
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "text", ["run kafka-transactions.sh abort", "set these with kafka-consumer-groups first", "kafka-leader-election.sh"]
)
def test_a_command_that_is_written_elsewhere_is_found(text: str) -> None:
    assert [line for line, _ in written_commands(f'"""kafka-acls.sh"""\nx = f"{{a}} {text} {{b}}"\n')] == [2]
    assert list(written_commands('x = "kafka-python", "kafka-streams-recovery"\n')) == []


def test_each_kind_of_remedy_is_carried_out_by_a_test() -> None:
    assert problems(EXAMPLES, marked(mark=MARK)) == []


def remedy(name: str, condition: str = "It is down.") -> Remedy:
    return Remedy(kind=RemedyKind(id=name, condition=condition), text=f"do {name}", commands=("run a", "run b"))


@pytest.mark.parametrize(
    ("examples", "marks", "excused", "said"),
    [
        ([remedy("a"), remedy("a")], {"a": [TEST]}, {}, []),
        ([remedy("a"), remedy("a", "It is up.")], {"a": [TEST]}, {}, ["two kinds of remedies have the id a"]),
        ([remedy("a")], {}, {}, ["no test carries out a"]),
        ([remedy("a")], {}, {"a": "It is far away."}, ["no test carries out a"]),
        ([remedy("a")], {"a": [TEST], "b": [TEST]}, {}, ["b is no kind of remedy"]),
        ([remedy("a")], {"a": [SHOWN]}, {}, ["no test carries out a, those that are marked are unit tests"]),
        ([remedy("a")], {"a": [SHOWN, TEST]}, {}, []),
        ([remedy("a")], {"a": [SHOWN]}, {"a": "It is far away."}, []),
        ([remedy("a")], {"a": [SHOWN]}, {"a": " "}, ["a is excused without a reason"]),
        ([remedy("a")], {"a": [TEST]}, {"a": "It is far away."}, ["a is excused, and a test carries it out"]),
        ([remedy("a")], {"a": [TEST]}, {"b": "It is far away."}, ["b is excused, and no kind of remedy"]),
    ],
)
def test_a_remedy_that_no_test_carries_out_and_a_test_without_a_remedy_are_named(
    examples: list[Remedy], marks: dict[str, list[str]], excused: dict[str, str], said: list[str]
) -> None:
    assert problems(examples, marks, excused) == said


def test_marks_are_read_from_the_tests(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text('@pytest.mark.remedy("a")\n@pytest.mark.fault("F1")\ndef test_a(): ...\n')
    assert marked(tmp_path / "tests", mark=MARK) == {"a": ["tests/test_it.py::test_a"]}


def test_the_page_has_condition_words_commands_and_tests() -> None:
    page = remedies_page({"a": [TEST]}, [remedy("a"), remedy("b")])
    assert (
        "## a\n\nOnly when this is true: It is down.\n\n- do a\n\n    ```sh\n    run a\n    run b\n    ```\n\nCarried out by `tests/integration/"
        in page
    )


@pytest.mark.parametrize(
    ("properties", "secured"),
    [
        ({}, False),
        ({"security.protocol": "PLAINTEXT"}, False),
        ({"security.protocol": "SSL"}, True),
        ({"security.protocol": "SASL_SSL"}, True),
    ],
)
def test_a_command_has_the_connection_of_an_administrator_where_one_is_needed(properties: dict[str, str], secured: bool) -> None:
    tools = KafkaConnection(bootstrap_servers="a:1,b:2", properties=properties).tools
    assert tools == KafkaTools("a:1,b:2", secured=secured)
    connection = "--bootstrap-server a:1,b:2" + (" --command-config admin.properties" if secured else "")
    assert tools.command(KafkaTool.TRANSACTIONS, "list", "a b") == f"kafka-transactions.sh {connection} list 'a b'"
