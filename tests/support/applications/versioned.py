"""A real Kafka Streams application of which versions are deployed (``Versions.java``): a file says which one is started, and it says what it is without a
cluster.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from embedded.compiled import compiled
from embedded.java import QUICK, find_java
from embedded.ports import HOST, free_ports
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.waiting import poll
from streams_recovery.kafka.reader import RangeReader
from tests.support.applications.counting import Counting
from tests.support.applications.endpoints import java_endpoints
from tests.support.programs.java import STREAMS

_SECONDS = 120


@dataclass(kw_only=True)
class Versioned(Counting):
    """The application ``Versions``, as a process on this machine."""

    @cached_property
    def port(self) -> int:
        return free_ports(1)[0]

    def configure(self, **sections: Any) -> None:
        state = str(self.directory / "state")
        arguments = [
            str(self.directory / "version"),
            self.bootstrap,
            self.id,
            self.input.topic,
            self.output.topic,
            "{state_directory}",
            "{port}",
        ]
        process = {
            "directory": str(self.directory / "processes"),
            "command": [*program(), *arguments],
            "instances": [{"name": "one", "url": f"http://{HOST}:{self.port}", "state_directory": state}],
        }
        super().configure(**{"runs": {"kind": "process", "process": process}, **sections})

    @property
    def version(self) -> str:
        return (self.directory / "version").read_text()

    def deploy(self, version: str) -> None:
        """Let it be started as this version from now on."""
        (self.directory / "version").write_text(version)

    def describes(self, version: str) -> bytes:
        """What Topology#describe() of a version prints."""
        return description(version, self.input.topic, self.output.topic)

    @property
    def running(self) -> bool:
        with self.recovery() as recovery:
            return any(one.streams_state == "RUNNING" for one in recovery.application.status())

    def works_off(self) -> None:
        """Wait until it has processed all of its input."""
        end = self.end(self.input)
        assert poll(lambda: True if (self.committed() or 0) >= end else None, seconds=_SECONDS), f"{self.version} does not process"

    def counts(self, store: str = "totals", partitions: int = 1) -> dict[str, int]:
        """What the changelog of a store stands for. Each key is in one of its partitions only."""
        logs, found = [TopicPartition(f"{self.id}-{store}-changelog", number) for number in range(partitions)], dict[str, int]()
        with self.recovery() as recovery:
            starts, ends = recovery.cluster.log_starts(logs), recovery.cluster.last_stable_offsets(logs)
            for tp in logs:
                with RangeReader(recovery.connection, tp, starts[tp], ends[tp]) as reader:
                    rows = [row for batch in reader for row in batch.to_pylist()]
                mine = {row["key"].decode(): int.from_bytes(row["value"], "big") for row in rows}
                assert not mine.keys() & found.keys()
                found |= mine
        return found


def program() -> list[str]:
    """What runs it, with the endpoints that people copy; its arguments follow."""
    endpoints = java_endpoints()
    class_path = (*endpoints, compiled(STREAMS / "Versions.java", endpoints))
    return [str(find_java()), *QUICK, "-cp", ":".join(map(str, class_path)), "Versions"]


def description(version: str, read: str = "in", written: str = "out") -> bytes:
    """What Topology#describe() prints."""
    return subprocess.run([*program(), "describe", version, read, written], capture_output=True, timeout=120, check=True).stdout
