"""Kafka's application reset tool, started once for many calls: a JVM takes longer to start than the tool works."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from embedded.compiled import compiled
from embedded.java import QUICK, find_java
from tests.support.programs.kafka_tools import class_path

_SOURCE: Final = Path(__file__).with_name("tools") / "ResetTool.java"
_END: Final = "exit code "
# A time without a zone is not this machine's time to the tool. Where that is UTC, nobody would see it.
_ELSEWHERE: Final = "-Duser.timezone=Asia/Kolkata"


def _command(main: str, *more: Path) -> list[str]:
    return [str(find_java()), *QUICK, _ELSEWHERE, "-cp", ":".join(map(str, (*class_path(), *more))), main]


def help_text() -> str:
    """What the tool itself says of its options."""
    command = [*_command("org.apache.kafka.tools.StreamsResetter"), "--help"]
    # It ends as if it had failed.
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=60).stdout


@dataclass(frozen=True)
class ResetTool:
    """The process that is asked."""

    process: subprocess.Popen[str]

    def call(self, *arguments: str) -> tuple[int, str]:
        """One call of the tool: its exit code, and all that it has said."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\t".join(arguments) + "\n")
        self.process.stdin.flush()
        said: list[str] = []
        for line in self.process.stdout:
            if line.startswith(_END):
                return int(line.removeprefix(_END)), "".join(said)
            said.append(line)
        raise AssertionError(f"the tool has ended: {''.join(said)}")


@contextmanager
def reset_tool() -> Iterator[ResetTool]:
    """Started, and ended with its input."""
    command = _command("ResetTool", compiled(_SOURCE, class_path()))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield ResetTool(process)
        finally:
            process.kill()
