"""Java is found, or what to install is said; and programs of one source file are compiled once. The compiler here is a script that writes down what it was
asked.
"""

from __future__ import annotations

import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from embedded.compiled import compiled
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


JAVA = f"""#!{sys.executable}
import pathlib, sys, time
if sys.argv[1] == "-version":
    sys.exit('openjdk version "{{version}}"')
assert sys.argv[1:3] == ["-m", "jdk.compiler/com.sun.tools.javac.Main"]
with open({{log!r}}, "a") as log:
    log.write(sys.argv[sys.argv.index("-cp") + 1] + "\\n")
time.sleep(0.3)
{{rest}}
target = pathlib.Path(sys.argv[sys.argv.index("-d") + 1])
(target / "inner").mkdir()
for name in ("Some.class", "inner/Other.class"):
    (target / name).write_text(name + pathlib.Path(sys.argv[-1]).read_text())
"""


class Place:
    def __init__(self, directory: Path) -> None:
        self.java = directory / "java" / "bin" / "java"
        self.java.parent.mkdir(parents=True)
        self.log = directory / "log"
        self.source = directory / "Some.java"
        self.source.write_text("class Some {}")
        self.jars = (directory / "one.jar", directory / "two.jar")
        for jar in self.jars:
            jar.write_text("x")
        self.install("")

    def install(self, rest: str, version: str = "17.0.1") -> None:
        self.java.write_text(JAVA.format(log=str(self.log), rest=rest, version=version))
        self.java.chmod(0o755)

    def compiled(self) -> Path:
        return compiled(self.source, self.jars)

    @property
    def times(self) -> int:
        return len(self.log.read_text().splitlines())


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setenv("STREAMS_RECOVERY_CACHE", str(tmp_path / "cache"))
    return Place(tmp_path)


def test_what_was_compiled_is_in_a_jar_that_is_used_again(place: Place) -> None:
    jar = place.compiled()
    with zipfile.ZipFile(jar) as opened:
        assert {name: opened.read(name) for name in opened.namelist()} == {
            name: f"{name}class Some {{}}".encode() for name in ("Some.class", "inner/Other.class")
        }
    assert place.log.read_text() == ":".join(map(str, place.jars)) + "\n"
    assert place.compiled() == jar
    assert place.times == 1


def test_a_changed_source_a_changed_jar_and_another_java_are_compiled_anew(place: Place) -> None:
    found = {place.compiled()}
    place.source.write_text("class Some { int changed; }")
    found.add(place.compiled())
    place.jars[0].write_text("another version")
    found.add(place.compiled())
    place.install("", "17.0.2")
    found.add(place.compiled())
    assert place.times == len(found) == 4


def test_one_compiles_while_the_others_wait(place: Place) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(lambda _: place.compiled(), range(4)))) == 1
    assert place.times == 1


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("sys.exit('java.lang.module.FindException: Module jdk.compiler not found')", "is a runtime without a compiler.*install a JDK"),
        ("sys.exit('Some.java:1: error: class expected')", "Some.java does not compile: Some.java:1: error: class expected"),
    ],
)
def test_what_stands_in_the_way_is_told_and_nothing_is_kept(place: Place, rest: str, said: str) -> None:
    place.install(rest)
    with pytest.raises(ConfigInvalid, match=said):
        place.compiled()
    assert list((place.java.parents[2] / "cache").rglob("*.jar")) == []
