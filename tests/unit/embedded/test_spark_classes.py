from __future__ import annotations

from pathlib import Path

import pytest

from embedded import spark_classes
from embedded.java import SHORT_JOBS


def test_only_an_archive_that_is_there_is_asked_for(tmp_path: Path) -> None:
    archive = tmp_path / "some.jsa"
    assert spark_classes.options(archive) == SHORT_JOBS
    archive.touch()
    assert spark_classes.options(archive) == f"{SHORT_JOBS} -XX:SharedArchiveFile={archive}"


def test_a_java_that_keeps_none_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    place = tmp_path / "environment"
    place.mkdir()
    assert not spark_classes.make(place / "spark-classes.jsa")
    assert list(place.iterdir()) == []
