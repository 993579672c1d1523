"""The program beside a broker, as a script calls it, and as somebody does who types answers on a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streams_recovery.config.loader import load
from streams_recovery.config.model import ApplicationConfig
from tests.support.project import PROJECT

# A restore is among what is called.
_SECONDS: Final = 300


@dataclass(frozen=True)
class Told:
    """How a command ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Here:
    """A directory of configurations, and the program beside a broker."""

    configs: Path
    bootstrap: str

    def run(self, *words: str, **more: str) -> Told:
        done = subprocess.run(
            self.words(words),
            env=self.environment(**more),
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        return Told(done.returncode, done.stdout, done.stderr)

    def asked(self, *words: str, answers: tuple[str, ...]) -> Told:
        """The same on a terminal, where somebody types an answer to each question."""
        mine, its = pty.openpty()
        with subprocess.Popen(
            self.words(words), env=self.environment(), stdin=its, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as program:
            os.close(its)
            for answer in answers:
                os.write(mine, f"{answer}\n".encode())
                # One line at a time, as somebody types.
                time.sleep(0.1)
            out, err = program.communicate(timeout=_SECONDS)
            os.close(mine)
        return Told(program.returncode, out, err)

    def words(self, words: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-m", "streams_recovery", *words, "--configs", str(self.configs)]

    def environment(self, **more: str) -> dict[str, str]:
        base = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "STREAMS_RECOVERY", "KUBE"))}
        kafka = json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": self.bootstrap}})
        return {
            **base,
            "PYTHONPATH": os.pathsep.join([str(PROJECT / "plugins"), str(PROJECT)]),
            "COLUMNS": "1000",
            "HOME": str(self.configs.parent),
            "AIRFLOW_CONN_KAFKA_DEFAULT": kafka,
            **more,
        }

    def file(self, name: str) -> Path:
        return self.configs / f"{name}.yaml"

    def config(self, name: str) -> ApplicationConfig:
        return load(self.file(name), {})
