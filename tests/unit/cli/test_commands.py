"""The table of commands says what the commands say, has all of them, and is all that the help of the program loads."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
import typer
from typer.testing import CliRunner

from documentation.command_tables import with_tables
from documentation.pages import COMMAND_LINE, DOCS, command_page
from streams_recovery.cli import commands
from streams_recovery.cli.app import app
from streams_recovery.cli.commands import PANELS, Command, CommandGroup
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.panels import Panel
from tests.support.command_line import command, every_command
from tests.support.project import PROJECT
from tests.support.repository.state_repository import FIRST, environment, fill

TABLE = [
    (one.name, inner)
    for several in PANELS.values()
    for one in several
    for inner in (one.commands if isinstance(one, CommandGroup) else (one,))
]


def functions(file: Path) -> set[str]:
    """The functions of a module that a person can call: those that take the program's arguments, or a form."""
    found = [node for node in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)]
    return {f"{file.stem}:{one.name}" for one in found if _is_command(one)}


def _is_command(one: ast.FunctionDef) -> bool:
    annotations = [ast.unparse(given.annotation) for given in (*one.args.args, *one.args.kwonlyargs) if given.annotation is not None]
    asks = any(ast.unparse(decorator).startswith("asks(") for decorator in one.decorator_list)
    return asks or any(text in ("Name", "AsJson") or "typer.Argument(" in text for text in annotations)


def test_every_command_stands_in_one_panel() -> None:
    written = {name for file in Path(str(commands.__file__)).parent.glob("*.py") for name in functions(file)}
    assert written == {one.function for _, one in TABLE}
    names = [one.name for several in PANELS.values() for one in several]
    assert len(names) == len(set(names))
    assert set(names) == set(typer.main.get_command(app).commands), "all of them come from the table"  # type: ignore[attr-defined]


def test_what_is_needed_first_is_six_commands_and_what_repairs_stands_together() -> None:
    assert list(PANELS) == list(Panel)
    assert len(PANELS[Panel.FIRST]) == 6
    assert {"compact", "seal", "undelete", "unlock", "dismiss"} < {one.name for one in PANELS[Panel.UPKEEP]}


@pytest.mark.parametrize("words", list(every_command()), ids=" ".join)
def test_a_command_s_line_is_the_first_sentence_of_its_help(words: tuple[str, ...]) -> None:
    listed = command(*words[:-1]).commands[words[-1]]
    assert isinstance(listed.command, Command)
    loaded = command(*words)
    assert loaded.name == words[-1]
    assert loaded.help.replace("\n", " ").startswith(listed.command.line)
    for width in (45, 90, 10_000):
        assert listed.get_short_help_str(width) == loaded.get_short_help_str(width)


def test_the_help_of_the_program_has_the_panels_with_their_commands_in_one_column() -> None:
    text = CliRunner().invoke(app, ["--help"]).stdout
    parts = dict(re.findall(r"^([A-Z][\w ]+):\n((?:  .+\n)+)", text, re.MULTILINE))
    assert [title for title in parts if title != "Options"] == list(Panel)
    for panel, several in PANELS.items():
        assert [row.split()[0] for row in parts[panel].splitlines()] == [one.name for one in several]
    columns = {
        row.index(one.line) for panel, several in PANELS.items() for row, one in zip(parts[panel].splitlines(), several, strict=True)
    }
    assert len(columns) == 1


def test_the_page_has_the_table_of_each_panel() -> None:
    assert command_page()[COMMAND_LINE] == (DOCS / COMMAND_LINE).read_text(encoding="utf-8"), "make pages"


def test_a_page_without_a_place_for_a_panel_is_refused() -> None:
    with pytest.raises(ValueError, match="no table of First steps"):
        with_tables("# The command line\n")


@pytest.mark.parametrize(
    ("words", "completing"),
    [
        (("--help",), ""),
        ((), ""),
        (("savepoints", "--help"), ""),
        (("restor",), ""),
        ((), "streams-recovery re"),
        ((), "streams-recovery groups d"),
    ],
)
def test_what_only_lists_commands_loads_none(words: tuple[str, ...], completing: str) -> None:
    loaded = modules_of(words, completing)
    assert "streams_recovery.cli.commands" in loaded
    assert {name for name in loaded if name.startswith("streams_recovery.cli.")} == {
        f"streams_recovery.cli.{one}" for one in ("app", "commands", "screen")
    }
    assert not loaded & HEAVY


HEAVY = {
    "confluent_kafka",
    "kafka",
    "numpy",
    "obstore",
    "pyarrow",
    "streams_recovery.config",
    "streams_recovery.operations",
    "yaml",
}
_LISTED = """
import sys
from streams_recovery.cli.app import run
try:
    run()
finally:
    print(*sys.modules, file=sys.stderr)
"""


def modules_of(words: tuple[str, ...], completing: str = "", variables: Mapping[str, str] = MappingProxyType({})) -> set[str]:
    """The modules that a call of the program has loaded at its end."""
    environment = {**os.environ, **variables, "PYTHONPATH": str(PROJECT / "plugins")}
    if completing:
        given = completing.split(" ")
        environment |= {"_STREAMS_RECOVERY_COMPLETE": "complete_bash", "COMP_WORDS": completing, "COMP_CWORD": str(len(given) - 1)}
    program = ["-c", f"import sys\nsys.argv[0] = 'streams-recovery'\n{_LISTED}"]
    done = subprocess.run([sys.executable, *program, *words], env=environment, capture_output=True, text=True, check=False)
    return set(done.stderr.splitlines()[-1].split())


# What needs a cluster, Spark, a repository of seals or a plan is loaded by those who need it.
NOT_TO_LOOK = {
    *(
        "airflow",
        "boto3",
        "confluent_kafka",
        "cryptography",
        "fastavro",
        "kafka",
        "kubernetes",
        "numpy",
        "pandas",
        "pyarrow",
        "pyspark",
        "rich.markdown",
    ),
    *("streams_recovery.cli.runs", "streams_recovery.engine.submitter", "streams_recovery.kafka.clients", "streams_recovery.workflows"),
    *(
        f"streams_recovery.operations.{one}"
        for one in ("compaction", "interval", "maintenance", "preflight", "restore", "rollout", "savepoint", "state")
    ),
    "streams_recovery.operations.status.look",
    # Plans of restores, with all that restores are made of.
    *("streams_recovery.core.restore.plan", "streams_recovery.operations.discovery"),
    *(f"streams_recovery.core.{one}" for one in ("compaction", "restore.parts", "rollout")),
    # Of what a look finds, and of what another command asks for.
    *(f"streams_recovery.core.{one}" for one in ("checks.catalogue", "sandbox", "state.inspection", "status.alerts", "status.facts")),
    "streams_recovery.application.kubernetes",
}


@pytest.mark.parametrize("words", [("info",), ("info", "shop"), ("savepoints", "list", "shop"), ("savepoints", "show", "shop", FIRST)])
def test_what_only_looks_at_the_repository_loads_no_client_and_no_run(tmp_path: Path, words: tuple[str, ...]) -> None:
    fill(tmp_path)
    loaded = modules_of(words, variables={**environment(), "STREAMS_RECOVERY_CONFIG_DIR": str(tmp_path)})
    assert "streams_recovery.config.model" in loaded
    assert loaded & NOT_TO_LOOK == set()


LISTS = [(words, one.opts[0]) for words in every_command() for one in command(*words).params if getattr(one, "multiple", False)]


@pytest.mark.parametrize(("words", "name"), LISTS, ids=[" ".join((*words, name)) for words, name in LISTS])
def test_a_name_that_an_option_has_twice_is_refused(words: tuple[str, ...], name: str) -> None:
    needed = [word for one in command(*words).params if one.required for word in (*one.opts[:1] * (one.param_type_name == "option"), "1")]
    result = CliRunner().invoke(app, [*words, *needed, name, "1", name, "1"])
    assert isinstance(result.exception, ConfigInvalid), result.output
    assert f"{name} has 1 more than once" in str(result.exception)


def test_names_with_commas_are_held_to_it_too() -> None:
    assert len(LISTS) > 10
    result = CliRunner().invoke(app, ["rebuild", "orders", "--reason", "r", "--input-topics", "a,b", "--input-topics", "c,a"])
    assert "--input-topics has a more than once" in str(result.exception)


def test_where_everything_lies_is_told_without_a_configuration(tmp_path: Path) -> None:
    loaded = modules_of(("paths",), variables={"STREAMS_RECOVERY_CONFIG_DIR": str(tmp_path)})
    assert {name for name in loaded if name.startswith("streams_recovery.cli.")} == {
        f"streams_recovery.cli.{one}" for one in ("app", "commands", "paths", "screen")
    }
    assert not loaded & HEAVY
