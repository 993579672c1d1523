"""The command `verify` on a golden repository, as a process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.repository.golden_place import command

CONFIG = """
version: 1
name: golden
application: {{id: golden, guarantee: exactly_once_v2}}
topics: {{inputs: [orders]}}
storage: {storage}
backup: {{survive_cluster_loss: false}}
runs: {{kind: command, command: {{status: ["true"], stop: ["true"], start: ["true"], wipe: ["true"]}}}}
"""


@dataclass(frozen=True)
class Outcome:
    """What a process left behind."""

    code: int
    out: str
    err: str

    @property
    def report(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found


def verify(directory: Path, storage: str, *arguments: str, connections: dict[str, str] | None = None) -> Outcome:
    """``verify golden ARGUMENTS`` as a process. Neither a broker nor a store is there unless a test says so."""
    (directory / "golden.yaml").write_text(CONFIG.format(storage=storage))
    variables = {
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}}),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[1]"}),
        **(connections or {}),
    }
    done = command(directory, variables, "verify", "golden", *arguments)
    return Outcome(done.returncode, done.stdout, done.stderr)
