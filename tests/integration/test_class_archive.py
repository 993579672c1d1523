"""Archives of classes with a real Java: what is in one is not read from jars, and a spoiled one is made again."""

from __future__ import annotations

import subprocess
from pathlib import Path

import psutil
import pytest

from embedded.broker import start_broker
from embedded.class_archive import Program, archive_of, options, usable
from embedded.compiled import compiled
from embedded.java import QUICK, find_java
from embedded.ports import free_ports
from embedded.processes import Processes

SOURCE = 'public class Hello { static class Inner {} public static void main(String[] a) { new Inner(); System.out.println("hello"); } }'


class Hello:
    """A program of two classes, in a jar of its own."""

    def __init__(self, directory: Path) -> None:
        source = directory / "Hello.java"
        source.write_text(SOURCE)
        self.program = Program(name="hello", class_path=(compiled(source, ()),), flags=QUICK)
        self.exercised = 0

    def exercise(self, option: str) -> None:
        self.exercised += 1
        self.run(*QUICK, option)

    def run(self, *flags: str) -> str:
        command = [str(find_java()), *flags, "-cp", self.program.joined_class_path, "Hello"]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout

    def loaded(self) -> dict[str, str]:
        """Where its classes came from."""
        lines = [
            line.split("] ")[-1].split(" source: ")
            for line in self.run(*options(self.program, self.exercise), "-Xlog:class+load").splitlines()
        ]
        return {line[0]: line[1] for line in lines if line[0].startswith("Hello")}


@pytest.fixture
def hello(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hello:
    monkeypatch.setenv("STREAMS_RECOVERY_CACHE", str(tmp_path / "cache"))
    return Hello(tmp_path)


def test_classes_come_from_the_archive(hello: Hello) -> None:
    assert hello.loaded() == dict.fromkeys(("Hello", "Hello$Inner"), "shared objects file (top)")
    assert hello.exercised == 1


def spoiled(archive: Path, content: bytes) -> None:
    archive.unlink()  # as a file it is read-only
    archive.write_bytes(content)


@pytest.mark.deep
def test_half_an_archive_and_a_changed_one_are_made_again(hello: Hello) -> None:
    archive = archive_of(hello.program, hello.exercise)
    assert archive is not None
    whole = archive.read_bytes()
    middle = len(whole) // 2
    for content in (whole[:middle], whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :] + b"x", b""):
        spoiled(archive, content)
        assert not usable(hello.program, archive)
        assert set(hello.loaded().values()) == {"shared objects file (top)"}
    assert hello.exercised == 4


@pytest.mark.deep
def test_a_broker_runs_with_its_archive(tmp_path: Path) -> None:
    port, controller = free_ports(2)
    with Processes(tmp_path) as processes:
        start_broker(processes, tmp_path / "broker", port=port, controller_port=controller)
        pid, _ = processes.recorded()["broker"]
        mapped = {Path(found.path).name for found in psutil.Process(pid).memory_maps()}
    assert any(name.startswith("broker-") and name.endswith(".jsa") for name in mapped)
