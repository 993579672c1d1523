"""Kafka's own tools for groups, ``kafka-consumer-groups`` and ``kafka-streams-groups``, started once for many commands: one start takes seconds."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from embedded.compiled import compiled
from embedded.java import QUICK, find_java
from tests.support.programs.kafka_tools import class_path

_SOURCE: Final = Path(__file__).with_name("tools") / "GroupTools.java"


class GroupTools:
    """A running JVM with both tools, for the groups of one cluster."""

    def __init__(self, bootstrap: str, stdin: IO[str], stdout: IO[str]) -> None:
        self._bootstrap, self._stdin, self._stdout = bootstrap, stdin, stdout

    def consumer(self, *arguments: str) -> str:
        """What ``kafka-consumer-groups`` prints, on stdout and on stderr."""
        return self._run("consumer", arguments)

    def streams(self, *arguments: str) -> str:
        """What ``kafka-streams-groups`` prints, on stdout and on stderr."""
        return self._run("streams", arguments)

    def _run(self, tool: str, arguments: tuple[str, ...]) -> str:
        self._stdin.write("\t".join((tool, "--bootstrap-server", self._bootstrap, *arguments)) + "\n")
        self._stdin.flush()
        answer = self._stdout.readline()
        assert answer, "the tools have ended"
        return base64.b64decode(answer).decode()


@contextmanager
def group_tools(bootstrap: str) -> Iterator[GroupTools]:
    """Both tools, ended at the end. Needs a JDK, and downloads the tools once."""
    program = (*class_path(), compiled(_SOURCE, class_path()))
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    command = [str(find_java()), "-Xmx256m", *QUICK, quiet, "-cp", ":".join(map(str, program)), _SOURCE.stem]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield GroupTools(bootstrap, process.stdin, process.stdout)
        finally:
            process.stdin.close()
            process.wait(30)
