"""An application with the endpoints that people copy, asked by the HTTP client that savepoints and restores use."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from embedded.compiled import compiled
from embedded.jars import jar_files
from embedded.ports import HOST
from streams_recovery.application import http_control
from streams_recovery.application.http_control import exchange
from streams_recovery.application.port import NoKeyRoute
from streams_recovery.core.errors import ApplicationNotReady
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.state.key_query import KeyAnswer, KeyQuestion, NamedOwner
from streams_recovery.core.waiting import poll
from streams_recovery.kafka.connection import KafkaConnection
from tests.support.kafka.records import write
from tests.support.project import PROJECT

EXAMPLES: Final = PROJECT / "examples" / "endpoints"
QUERY: Final = "/state/{store}"
QUERY_KEY: Final = "/state/{store}/{key}"
OWNER: Final = "/owner/{store}/{key}"
ORDERS: Final = [(1_700_000_000_000, key, b"order", []) for key in (b"alice", b"bob", b"alice")]
_SECONDS: Final = 120


@dataclass(frozen=True)
class Running:
    """An application that counts the records of each key of ``log``."""

    url: str
    log: TopicPartition
    connection: KafkaConnection
    child: subprocess.Popen[bytes]
    token: str | None

    def state(self) -> str | None:
        """What it says of itself."""
        return http_control.reported(self.url, "/health", token=self.token).state

    def becomes(self, state: str) -> bool:
        """Whether it says so in time."""
        return poll(lambda: True if self.state() == state else None, seconds=_SECONDS) is True

    def write(self) -> None:
        """More orders: two of alice, one of bob."""
        write(self.connection, self.log, ORDERS)

    def counts(self, counted: Mapping[str, int]) -> bool:
        """Whether it says in time that it has counted so many."""
        return poll(lambda: True if self._counted() == counted else None, seconds=_SECONDS) is True

    def stays_at(self, counted: Mapping[str, int]) -> bool:
        """Whether it counts nothing more for two seconds, which are twenty commit intervals."""
        return poll(lambda: True if self._counted() != counted else None, seconds=2) is None

    def key(self, store: str, key: str, **bounds: int) -> KeyAnswer | None:
        """What it has for a key."""
        return http_control.key(self.url, QUERY_KEY, KeyQuestion(store=store, key=key, **bounds), instance="one", token=self.token)

    def owner(self, store: str, key: str) -> NamedOwner | None:
        """Whom it names as the owner of a key."""
        return http_control.owner(self.url, OWNER, KeyQuestion(store=store, key=key), token=self.token)

    def cleaned(self) -> int:
        """The status with which it answers when its local state is to go."""
        return exchange("POST", self.url, "/cleanup", seconds=30, limit=1000, token=self.token).status

    def _counted(self) -> dict[str, object]:
        try:
            return http_control.store(self.url, QUERY, "totals", token=self.token)
        except ApplicationNotReady:
            return {}


@contextmanager
def running(
    command: Sequence[str], port: int, log: str, connection: KafkaConnection, output: Path, *, token: str | None = None
) -> Iterator[Running]:
    """The program of ``command``, until the end of the block. It listens at ``port``, and what it prints goes to the file ``output``."""
    variables = {} if token is None else {"RECOVERY_TOKEN": token}
    with output.open("wb") as file:
        child = subprocess.Popen(list(command), stdout=file, stderr=subprocess.STDOUT, env=variables)
    try:
        yield Running(f"http://{HOST}:{port}", TopicPartition(log, 0), connection, child, token)
    finally:
        child.kill()
        child.wait()


def held_and_resumed(app: Running) -> None:
    """What every application with the endpoints does: it counts, says what it has counted, is paused, and goes on where it was."""
    app.write()
    assert app.counts({"alice": 2, "bob": 1})
    http_control.post(app.url, "/pause", token=app.token)
    assert app.state() == "PAUSED"
    app.write()
    assert app.stays_at({"alice": 2, "bob": 1})
    http_control.post(app.url, "/resume", token=app.token)
    assert app.state() == "RUNNING"
    assert app.counts({"alice": 4, "bob": 2})


def asked_by_key(app: Running, *, port: int) -> None:
    """What every application with the endpoints says of single keys, once alice was counted four times; it listens at ``port``."""
    assert app.key("totals", "alice") == KeyAnswer(instance="one", found=True, value=4)
    assert app.key("totals", "nobody") == KeyAnswer(instance="one", found=False)
    assert app.owner("totals", "alice") == NamedOwner(host=HOST, port=port)
    with pytest.raises(NoKeyRoute):
        app.key("others", "alice")
    assert app.owner("others", "alice") is None
    assert app.cleaned() == 409


def java_endpoints(base: tuple[Path, ...] | None = None) -> tuple[Path, ...]:
    """The class path of ``base``, which is Kafka Streams', and behind it the Java endpoints."""
    jars = base or jar_files()
    with_queries = (*jars, compiled(EXAMPLES / "KeyQueries.java", jars))
    return (*with_queries, compiled(EXAMPLES / "RecoveryEndpoints.java", with_queries))
