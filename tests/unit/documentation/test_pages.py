"""Pages that are made from the code have all of it, and pages that name things of the code name what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from documentation import pages
from documentation.configuration_keys import SMALLEST, written_once
from documentation.messages import Message, error_kinds, messages
from streams_recovery.config.loader import load
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.runs import KINDS as KINDS_OF_RUNS
from streams_recovery.config.runs import CommandRuns, KubernetesRuns, ProcessRuns, Runs
from streams_recovery.core.errors import RecoveryError, TransientError
from streams_recovery.core.panels import GROUPS
from tests.support.command_line import command
from tests.support.project import PROJECT

DOCS = PROJECT / "docs"
SITUATIONS = (DOCS / "situations.md").read_text(encoding="utf-8")
APPLICATION = (DOCS / "your-application.md").read_text(encoding="utf-8")
ENDPOINTS = (DOCS / "endpoints.md").read_text(encoding="utf-8")
RUNS = {"process": ProcessRuns, "command": CommandRuns, "kubernetes": KubernetesRuns}
KINDS = {name: kind for name, kind in error_kinds().items() if not name.startswith("_")}


MADE = pages.site_pages()


def test_pages_that_are_made_with_the_site_are_not_stored() -> None:
    assert [name for name in MADE if (DOCS / name).exists()] == []


def test_no_page_links_what_only_the_site_has() -> None:
    # On a forge, and in an editor, such a link leads nowhere. The site's navigation and search have these pages.
    texts = {path.name: path.read_text(encoding="utf-8") for path in [*DOCS.rglob("*.md"), PROJECT / "README.md"]}
    assert [(page, name) for page, text in texts.items() for name in MADE if re.search(rf"\]\((\.\./|docs/)*{name}", text)] == []
    navigation = (PROJECT / "mkdocs.yml").read_text(encoding="utf-8")
    assert [name for name in MADE if f"- {name}\n" not in navigation] == []


def test_no_message_has_a_full_stop_before_a_join_and_none_ends_with_one() -> None:
    """A message is continued by what says it: behind a colon, or as `… Next: …`."""
    found = messages(PROJECT / "plugins" / "streams_recovery", error_kinds())
    assert len(found) > 300
    for one in found:
        for text in (one.text, one.next_step):
            assert not re.search(r"(?<!\.)\.(?=[:;,]|$)", text), text


def test_the_page_of_messages_has_each_kind_of_error_that_has_one() -> None:
    sections = re.findall(r"^## (\w+)$", MADE["messages.md"], re.MULTILINE)
    assert sections == sorted(sections)
    assert len(sections) > 20
    assert set(sections) <= KINDS.keys()
    assert MADE["messages.md"].count("| next |") == len(sections)


def test_the_page_of_keys_has_every_section() -> None:
    begin, *sections = MADE["configuration-keys.md"].split("\n## ")
    named = {*re.findall(r"^\| `(\w+)` \|", begin, re.MULTILINE), *(part.split("\n")[0] for part in sections)}
    assert named == set(ApplicationConfig.model_fields)


def test_keys_are_written_out_once_and_are_few() -> None:
    keys = written_once()
    assert len({*keys}) == len(keys) <= 232, "a key is for what only the operator knows; else write a constant"
    assert {"runs.command.status", "runs.process.instances[].url", "archive.throttle.bytes_per_second", "version"} <= {*keys}
    assert not [key for key in keys if key.startswith(("sites.*.runs.", "drill.command.", "restore.throttle."))]
    page = MADE["configuration-keys.md"]
    assert (f"There are {len(keys)} keys." in page, page.count("| `throttle` | as `archive.throttle` |")) == (True, 1)


def test_the_page_on_airflow_has_the_dags_of_each_group() -> None:
    rows = re.findall(r"^\| `([a-z ]+)` \| (`streams_.*`) \|$", (DOCS / "airflow.md").read_text(encoding="utf-8"), re.MULTILINE)
    told = {dag_id.removesuffix("_<name>"): group for group, ids in rows for dag_id in re.findall(r"`([^`]+)`", ids)}
    assert told == GROUPS


# Where a page gives a file: from the root of the project, in the package, or in the tests.
BASES = (PROJECT, PROJECT / "plugins" / "streams_recovery", PROJECT / "tests")


@pytest.mark.parametrize("page", [*sorted(DOCS.rglob("*.md")), PROJECT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_every_module_that_a_page_names_is_there(page: Path) -> None:
    named = re.findall(r"`([\w.]+/[\w./*-]+\.(?:py|c|sh))[:`]", page.read_text(encoding="utf-8"))
    assert [file for file in named if not any(any(base.glob(file)) for base in BASES)] == []


def test_the_smallest_configuration_is_one_and_has_a_dozen_lines(tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(SMALLEST, encoding="utf-8")
    assert load(path, {}).application.id == "orders"
    assert len(SMALLEST.splitlines()) == 12


def test_the_configuration_that_the_quick_start_shows_can_be_read(tmp_path: Path) -> None:
    (shown,) = re.findall(r"^```yaml\n(.*?)^```", (DOCS / "quick-start.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    path = tmp_path / "streams-wordcount.yaml"
    path.write_text(shown, encoding="utf-8")
    assert load(path, {}).application.id == "streams-wordcount"


def test_messages_are_found_with_what_to_do_next(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(
        'raise Refused(f"{topic} is not empty", next_step="delete it")\nraise ValueError("other")\nRefused(reason)\n'
    )
    assert messages(tmp_path, {"Refused": error_kinds()["Refused"]}) == [
        Message(kind="Refused", text="… is not empty", next_step="delete it")
    ]


def troubles() -> dict[str, tuple[str, str]]:
    """The rows of the page: exit code, and whether it is tried again."""
    text = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    return {name: (code, again) for name, code, again in re.findall(r"^\| `(\w+)` \| (\d+) \| (yes|no|-) \|", text, re.MULTILINE)}


def test_every_kind_of_error_is_on_the_page_for_troubles() -> None:
    assert troubles().keys() == KINDS.keys()


@pytest.mark.parametrize("name", KINDS)
def test_and_is_described_as_it_is(name: str) -> None:
    kind = KINDS[name]
    again = "-" if kind is RecoveryError else "yes" if issubclass(kind, TransientError) else "no"
    assert troubles()[name] == (str(kind.exit_code), again)


def test_there_are_twelve_situations_each_with_a_part_of_its_own() -> None:
    rows = re.findall(r"^\| \[([\w ,-]+)\]\(#[\w-]+\) \|", SITUATIONS, re.MULTILINE)
    assert len(rows) == 12
    assert [part.split("\n")[0].replace("Driven by", "By") for part in SITUATIONS.split("\n## ")[1:]] == [
        row.replace("Cold data", "Cold data with auto-stop") for row in rows
    ]


def test_dags_and_commands_of_the_situations_are_there() -> None:
    commands = command().commands
    for row in re.findall(r"^\| \[.*$", SITUATIONS, re.MULTILINE):
        _, _, dags, named = [cell.strip() for cell in row.strip("|").split("|")]
        assert all((PROJECT / "dags" / f"{dag}.py").is_file() for dag in re.findall(r"\w+", dags.replace("`", " "))), row
        assert named == "-" or named.strip("`") in commands, row


@pytest.mark.parametrize("part", SITUATIONS.split("\n## ")[1:], ids=lambda part: part.split("\n")[0])
def test_each_situation_is_tested(part: str) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", part)
    assert named
    for file, test in named:
        assert f"def {test}(" in (PROJECT / file).read_text(encoding="utf-8"), f"{file} has no {test}"


def test_the_code_of_the_endpoints_page_is_that_of_the_example() -> None:
    example = (PROJECT / "examples" / "endpoints" / "Totals.java").read_text(encoding="utf-8")
    java, keys = sorted(re.findall(r"^```java\n(.*?)^```$", ENDPOINTS, re.MULTILINE | re.DOTALL), key=len, reverse=True)
    assert keys.split('"')[0] in (PROJECT / "tests" / "support" / "programs" / "streams" / "KeyedStores.java").read_text(encoding="utf-8")
    assert [line for line in java.splitlines() if line.strip() not in example] == []


def test_the_application_s_page_has_each_kind_of_runs() -> None:
    assert RUNS.keys() == set(KINDS_OF_RUNS)
    assert [kind for kind in RUNS if f"`runs.kind: {kind}`" not in APPLICATION] == []


def test_and_the_page_of_endpoints_says_where_their_paths_are_in_each() -> None:
    sections = [f"`runs.{kind}.control`" for kind, section in RUNS.items() if "control" in section.model_fields]
    assert len(sections) == 2
    assert [section for section in sections if section not in ENDPOINTS] == []


@pytest.mark.parametrize("kind", ["process", "kubernetes"])
def test_what_the_endpoints_page_writes_into_a_configuration_can_be_read(kind: str) -> None:
    shown = [yaml.safe_load(block)["runs"] for block in re.findall(r"^```yaml\n(.*?)^```", ENDPOINTS, re.MULTILINE | re.DOTALL)]
    (section,) = [one for one in shown if one["kind"] == kind]
    assert Runs.model_validate(section).chosen.no_pause_because is None


def test_a_test_that_a_page_names_is_there() -> None:
    named = {name for page in (PROJECT / "docs").rglob("*.md") for name in re.findall(r"`(test_\w+)`", page.read_text())}
    there = {name for file in (PROJECT / "tests").rglob("test_*.py") for name in re.findall(r"^def (test_\w+)", file.read_text(), re.M)}
    assert named
    assert named <= there
