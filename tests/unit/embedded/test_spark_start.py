from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from embedded import spark_start
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.engine.spark_home import installed_spark

# Stands for a Java that archives: it writes what it was asked to write, and a line into a log. It takes an archive that is what it wrote.
JAVA = """#!/bin/sh
echo "$@" >> "{log}"
for word in "$@" $SPARK_SUBMIT_OPTS; do
  case "$word" in
    -version) echo 'openjdk version "17.0.1"' ;;
    -XX:SharedArchiveFile=*) grep -qx classes "${{word#*=}}"; exit ;;
    -XX:ArchiveClassesAtExit=*) [ "{archives}" = yes ] && echo {writes} > "${{word#*=}}" ;;
  esac
done
exit 1
"""


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Java home, whose runtime is a file that tests change."""
    home = tmp_path / "java"
    for name in ("bin", "lib"):
        (home / name).mkdir(parents=True)
    (home / "lib" / "modules").write_text("one")
    write_java(home)
    monkeypatch.setenv("JAVA_HOME", str(home))
    return home


def write_java(home: Path, *, archives: bool = True, writes: str = "classes") -> None:
    program = home / "bin" / "java"
    program.write_text(JAVA.format(log=home / "log", archives="yes" if archives else "no", writes=writes))
    program.chmod(0o755)


def test_what_is_prepared_is_not_made_again(java: Path, tmp_path: Path) -> None:
    first = spark_start.prepare(tmp_path / "home")
    written = first.stat().st_mtime_ns
    assert spark_start.prepare(tmp_path / "home") == first
    assert first.stat().st_mtime_ns == written
    assert f"-XX:SharedArchiveFile={first}" in spark_start.environment(tmp_path / "home")["SPARK_SUBMIT_OPTS"]


def test_a_damaged_archive_is_made_again(java: Path, tmp_path: Path) -> None:
    archive = spark_start.prepare(tmp_path / "home")
    os.truncate(archive, 3)
    assert spark_start.prepare(tmp_path / "home") == archive
    assert archive.read_text() == "classes\n"


@pytest.mark.parametrize("java_does", [{"writes": "half an archive"}, {"archives": False}], ids=["takes none", "makes none"])
def test_without_an_archive_that_java_takes_nothing_is_kept(java: Path, tmp_path: Path, java_does: dict[str, Any]) -> None:
    write_java(java, **java_does)
    with pytest.raises(ConfigInvalid, match="no archive"):
        spark_start.prepare(tmp_path / "home")
    assert not list((tmp_path / "home").glob("*.jsa"))


def test_another_java_gets_an_archive_of_its_own_and_what_nobody_uses_goes(java: Path, tmp_path: Path) -> None:
    first = spark_start.prepare(tmp_path / "home")
    (java / "lib" / "modules").write_text("an update")
    second = spark_start.prepare(tmp_path / "home")
    # Another checkout may use the first one still.
    assert sorted((tmp_path / "home").glob("*.jsa")) == sorted([first, second])
    week_ago = time.time() - 8 * 24 * 3600
    os.utime(first, (week_ago, week_ago))
    (java / "lib" / "modules").write_text("one more update")
    third = spark_start.prepare(tmp_path / "home")
    assert sorted((tmp_path / "home").glob("*.jsa")) == sorted([second, third])


def test_a_home_elsewhere_has_another_archive(java: Path, tmp_path: Path) -> None:
    # Java compares the paths of the jars too.
    assert spark_start.prepare(tmp_path / "home").name != spark_start.prepare(tmp_path / "other").name


def test_the_home_outlives_a_link_that_the_environment_was_reached_by(java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = tmp_path / "link"
    link.symlink_to(installed_spark())
    monkeypatch.setattr(spark_start, "installed_spark", lambda: link)
    spark_start.prepare(tmp_path / "home")
    link.unlink()
    assert (tmp_path / "home" / "bin" / "spark-submit").exists()


def test_the_home_has_the_installed_sparks_programs_and_jars_and_no_zip(java: Path, tmp_path: Path) -> None:
    spark_start.prepare(tmp_path / "home")
    assert (tmp_path / "home" / "jars").resolve() == (installed_spark() / "jars").resolve()
    assert (tmp_path / "home" / "bin" / "spark-submit").exists()
    assert not (tmp_path / "home" / "python").exists()
