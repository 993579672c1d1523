"""Archives of classes with a Java that takes every archive in which the word good stands."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest

from embedded import class_archive
from embedded.class_archive import Program, archive_of, options
from streams_recovery.core.errors import ApplicationNotReady

JAVA = """#!/bin/sh
echo 'openjdk version "17.0.1"' >&2
for argument in "$@"; do
  case "$argument" in -XX:SharedArchiveFile=*) grep -q good "${argument#*=}" || exit 1 ;; esac
done
"""


class Exercise:
    """Writes an archive, and counts how often it was asked to."""

    def __init__(self, content: str | None = "good", does: Callable[[], object] = lambda: None) -> None:
        self.content = content
        self.does = does
        self.times = 0

    def __call__(self, option: str) -> None:
        self.times += 1
        self.does()
        if self.content is not None:
            Path(option.removeprefix("-XX:ArchiveClassesAtExit=")).write_text(self.content)


def install(directory: Path, text: str = JAVA) -> None:
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    java.write_text(text)
    java.chmod(0o755)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    install(tmp_path / "java")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setenv("STREAMS_RECOVERY_CACHE", str(tmp_path / "cache"))
    jars = tmp_path / "one.jar", tmp_path / "two.jar"
    for jar in jars:
        jar.write_text(jar.name)
    class_archive._tell_once.cache_clear()
    return Program(name="some", class_path=jars, flags=("-Xsome",))


def archives(tmp_path: Path) -> set[str]:
    return {path.name for path in (tmp_path / "cache" / "classes").iterdir() if path.suffix != ".lock"}


def test_an_archive_is_made_once_and_named_to_java_from_then_on(program: Program, tmp_path: Path) -> None:
    exercise = Exercise()
    archive = archive_of(program, exercise)
    assert archive is not None
    assert options(program, exercise) == ("-Xsome", f"-XX:SharedArchiveFile={archive}")
    assert archive.read_text() == "good"
    assert exercise.times == 1
    assert archives(tmp_path) == {archive.name}


def touch(path: Path) -> None:
    os.utime(path, ns=(1, 1))


CHANGES: dict[str, Callable[[Program, Path], Program]] = {
    "flags": lambda program, _: replace(program, flags=("-Xother",)),
    "order of the class path": lambda program, _: replace(program, class_path=program.class_path[::-1]),
    "a longer class path": lambda program, _: replace(program, class_path=(*program.class_path, program.class_path[0])),
    "how it is written": lambda program, _: replace(program, pattern="jars/*"),
    "a jar's time": lambda program, _: touch(program.class_path[1]) or program,  # type: ignore[func-returns-value]
    "a jar's size": lambda program, _: program.class_path[1].write_text("longer than it was") and program,  # type: ignore[return-value]
    "Java's version": lambda program, home: install(home / "java", JAVA.replace("17.0.1", "17.0.2")) or program,  # type: ignore[func-returns-value]
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_an_archive_depends_on_is_in_its_name(program: Program, tmp_path: Path, change: Callable[[Program, Path], Program]) -> None:
    exercise = Exercise()
    first = archive_of(program, exercise)
    second = archive_of(change(program, tmp_path), exercise)
    assert first != second
    assert exercise.times == 2


def test_another_java_of_the_same_version_has_archives_of_its_own(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = program.key
    install(tmp_path / "elsewhere")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "elsewhere"))
    assert program.key != first


@pytest.mark.parametrize("content", ["spoiled", ""])
def test_an_archive_that_java_does_not_take_is_made_again(program: Program, content: str) -> None:
    exercise = Exercise()
    archive = archive_of(program, exercise)
    assert archive is not None
    archive.unlink()
    archive.write_text(content)
    assert archive_of(program, exercise) == archive
    assert archive.read_text() == "good"
    assert exercise.times == 2


def refuse() -> None:
    raise ApplicationNotReady("it did not come up", next_step="see its log")


@pytest.mark.parametrize(
    ("exercise", "reason"),
    [
        (Exercise(does=refuse), "it did not come up"),
        (Exercise(None), "this Java wrote none"),
        (Exercise("spoiled"), "does not take what it wrote"),
    ],
)
def test_what_cannot_be_made_is_told_once_and_not_tried_again_until_asked(
    program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str], exercise: Exercise, reason: str
) -> None:
    exercise.times = 0
    assert [options(program, exercise) for _ in range(3)] == [("-Xsome",)] * 3
    assert exercise.times == 1
    told = capsys.readouterr().err
    assert told.count("no archive of the classes of some") == 1
    assert reason in told
    assert {Path(name).suffix for name in archives(tmp_path)} == {".failed"}
    assert archive_of(program, Exercise(), again=True) is not None
    assert options(program, exercise)[1:]


def test_one_makes_it_while_the_others_wait(program: Program) -> None:
    together = Barrier(4)
    exercise = Exercise(does=lambda: time.sleep(0.3))

    def ask(_: int) -> Path | None:
        together.wait()
        return archive_of(program, exercise)

    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(ask, range(4)))
    assert len(found) == 1
    assert exercise.times == 1


def test_archives_that_nobody_used_for_weeks_go_when_a_new_one_is_made(program: Program, tmp_path: Path) -> None:
    exercise = Exercise()
    kept, old = (archive_of(replace(program, flags=(flag,)), exercise) for flag in ("-Xa", "-Xb"))
    assert kept is not None
    assert old is not None
    touch(old)
    new = archive_of(program, exercise)
    assert new is not None
    assert archives(tmp_path) == {kept.name, new.name}
