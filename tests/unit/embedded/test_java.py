from __future__ import annotations

from pathlib import Path

import pytest

from embedded.java import find_java
from streams_recovery.core.errors import ConfigInvalid


def fake_java(directory: Path, version: str) -> Path:
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-01' >&2\n")
    java.chmod(0o755)
    return directory


@pytest.mark.parametrize(("version", "feature"), [("1.8.0_392", "8"), ("11.0.22", "11"), ("16", "16")])
def test_java_that_is_too_old_is_named_with_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, feature: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, version)))
    with pytest.raises(ConfigInvalid, match=rf"is Java {feature}, 17 or newer") as caught:
        find_java()
    assert str(tmp_path) in str(caught.value)


def test_newer_java_is_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, "21.0.4")))
    assert find_java() == tmp_path / "bin" / "java"


def test_missing_java_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigInvalid, match="no Java was found") as caught:
        find_java()
    assert "install a JDK 17 or newer" in str(caught.value)
