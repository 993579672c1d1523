"""The pages' own code, run as it stands there, gives what was written: nobody needs this software to read a savepoint."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.support.repository.readable import NEWER, OLDER, ORPHAN, OTHER, ROWS, STATE, code_of, row_of, write_savepoints

FORMAT = "docs/format.md"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory above a repository, as current directory: the pages' paths are relative."""
    root = write_savepoints(tmp_path)
    monkeypatch.chdir(tmp_path)
    return root


def files_as_told() -> tuple[list[str], str]:
    """What the first block finds, and the line that it prints."""
    names: dict[str, Any] = {}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code_of(FORMAT, "python", "SET VARIABLE"), names)  # the page's own code
    return names["files"], printed.getvalue()


@pytest.mark.usefixtures("here")
def test_the_files_of_a_savepoint_are_those_its_manifest_names() -> None:
    files, _ = files_as_told()
    assert len(files) == 3
    assert all(Path(file).is_file() for file in files)


@pytest.mark.usefixtures("here")
def test_duckdb_reads_every_row_as_it_was_written() -> None:
    _, line = files_as_told()
    with duckdb.connect() as database:
        database.execute(line)
        found = database.execute(code_of(FORMAT, "sql", "timestamp_type, key, value"))
        names = [column[0] for column in found.description or []]
        rows = [row_of(dict(zip(names, row, strict=True))) for row in found.fetchall()]
    assert sorted(rows, key=lambda row: row[0]) == ROWS
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)


@pytest.mark.usefixtures("here")
def test_duckdb_shows_the_state() -> None:
    _, line = files_as_told()
    with duckdb.connect() as database:
        database.execute(line)
        rows = database.execute(code_of(FORMAT, "sql", "age = 1")).fetchall()
    assert len(rows) == len(STATE)
    assert {None if key is None else bytes(key): bytes(value) for key, value in rows} == STATE


@pytest.mark.usefixtures("here")
def test_pandas_reads_every_row_and_shows_the_state() -> None:
    names: dict[str, Any] = {"files": files_as_told()[0]}
    exec(code_of(FORMAT, "python", "import pandas"), names)
    rows = [row_of({**row, "headers": row["headers"]}) for row in names["rows"].to_dict("records")]
    assert sorted(rows, key=lambda row: row[0]) == ROWS
    state = names["state"]
    assert len(state) == len(STATE)
    assert dict(zip(state["key"], state["value"], strict=True)) == STATE


def test_the_readme_s_query_counts_what_is_in_the_repository(here: Path) -> None:
    with duckdb.connect() as database:
        rows = database.execute(code_of("README.md", "sql", "read_parquet")).fetchall()
    written = {(len(part), min(row[1] for row in part), max(row[1] for row in part)) for part in (OLDER, NEWER, OTHER, ORPHAN)}
    assert {(count, first, last) for _, count, first, last in rows} == written
    assert all((here.parent / name).is_file() for name, *_ in rows)
