"""The two clients of one cluster, each made when first needed, and the way every question to them is asked.

librdkafka (confluent-kafka) reads committed offsets with ``require_stable``, offsets and configurations, and reports an error a partition
or resource. kafka-python writes offsets byte for byte and knows members, transactions and producers. Neither does both.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from streams_recovery.core.errors import BrokerUnavailable, RecoveryError, TransientError
from streams_recovery.kafka import errors
from streams_recovery.kafka.connection import Connecting, KafkaConnection
from streams_recovery.kafka.deadline import Deadline
from streams_recovery.kafka.tls import certificate_problem

T = TypeVar("T")

# A cluster that is down is reported after this time, however long a request to one that is up may take.
REACH_SECONDS = 10.0
# One that turns us away says so at once, but the client goes on trying and tells nobody until it is asked.
_LOOK_SECONDS = 1.0
# A thread of a client needs microseconds for what is left to it once no code of Python runs there.
_SETTLED_SECONDS = 0.02
# Nobody waits longer for that. A thread of another library that begins meanwhile looks like a client's.
SETTLING_SECONDS = 1.0


def _quiet() -> None:
    # kafka-python tells of every connection it opens and closes: a dozen lines a task, in which the one that matters drowns.
    logger = logging.getLogger("kafka")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.WARNING)


def _foreign_threads() -> set[int]:
    """Threads that Python has not started, and that run Python now."""
    # Python's own documented function for that, whatever its name looks like: threading does not know these threads.
    return sys._current_frames().keys() - {thread.ident for thread in threading.enumerate()}  # noqa: SLF001


def _settle(client: AdminClient, others: set[int]) -> None:
    """Wait until a client's own thread, which hands answers over, is back from the last one: that can be read before the thread has let go of it. A client
    that is dropped meanwhile purges what the thread would serve next. ``others`` were there before the client.
    """
    deadline = Deadline(SETTLING_SECONDS)
    while _foreign_threads() - others and deadline.remaining:
        client.poll(_SETTLED_SECONDS / 10)
    client.poll(_SETTLED_SECONDS)


class Clients:
    """Both clients, for one thread at a time. ``timeout`` in seconds bounds every question, repetitions included. A ``connection`` that is to be looked up
    is looked up with the first question.
    """

    def __init__(self, connection: Connecting, *, timeout: float) -> None:
        self._connection = connection
        self.timeout = timeout
        self._librdkafka: AdminClient | None = None
        self._threads_before: set[int] = set()
        self._pure: Any = None
        self._last_failure: KafkaError | None = None

    @property
    def connection(self) -> KafkaConnection:
        """How the cluster is reached. Raises what looking it up raises."""
        if not isinstance(self._connection, KafkaConnection):
            self._connection = self._connection()
        return self._connection

    @property
    def librdkafka(self) -> AdminClient:
        """confluent-kafka's admin client; a broker has answered it. Raises ``BrokerUnavailable``, and ``ConfigInvalid`` when all turn us away."""
        if self._librdkafka is None:
            self._librdkafka = self._reached_librdkafka()
        return self._librdkafka

    @property
    def pure(self) -> Any:
        """kafka-python's admin client, connected. Raises ``BrokerUnavailable``. (It has no types.)

        The other client connects first: of a certificate or a password that is wrong this one only says that it could not connect.
        """
        if self._pure is None:
            _ = self.librdkafka
            timeouts = {"bootstrap_timeout_ms": int(self._reach * 1000), "request_timeout_ms": int(self.timeout * 1000)}
            _quiet()
            try:
                self._pure = KafkaAdminClient(**{**timeouts, **self.connection.admin_config()})
            except errors.CLIENT_ERRORS as error:
                raise self._not_reached(error) from error
        return self._pure

    @contextmanager
    def requesting(self, doing: str) -> Iterator[None]:
        """Whatever a client raises inside becomes one of our errors. ``doing`` completes the sentence "... failed"."""
        try:
            yield
        except errors.CLIENT_ERRORS as error:
            raise errors.translated(error, self.connection, doing, timeout=self.timeout) from error

    def patiently(self, doing: str, ask: Callable[[], T]) -> T:
        """The answer to ``ask``, which must be harmless to repeat: it is, while the cluster is busy or a connection was lost, until ``timeout``.

        A cluster that never answered is not waited for.
        """
        deadline = Deadline(self.timeout)
        while True:
            try:
                with self.requesting(doing):
                    return ask()
            except TransientError as error:
                never_answered = isinstance(error, BrokerUnavailable) and not error.facts.get("connected")
                if never_answered or not deadline.pause():
                    raise
                # kafka-python keeps the coordinators it has found, also those that have moved since.
                self._close_pure()

    def send(self, request: object, node: int | None = None, *, within_ms: int | None = None) -> Any:
        """The answer to a request that kafka-python can send and has no verb for; to any broker unless ``node`` names one. Asked once."""
        return self._manager.run(self._manager.send, request, node, within_ms)

    def coordinators(self, groups: list[str]) -> Mapping[str, int]:
        """The broker that coordinates each group. kafka-python asks this itself for each of its verbs for groups, and offers no verb for it."""
        found: Mapping[str, int] = self._manager.run(self.pure._find_coordinator_ids, groups)  # noqa: SLF001
        return found

    @property
    def _manager(self) -> Any:
        # The connections of kafka-python can be reached in no other way.
        return self.pure._manager  # noqa: SLF001

    def close(self) -> None:
        """End both clients. They are made again if they are needed again."""
        self._close_pure()
        client, self._librdkafka = self._librdkafka, None
        if client is not None:
            _settle(client, self._threads_before)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def _reach(self) -> float:
        return min(self.timeout, REACH_SECONDS)

    def _close_pure(self) -> None:
        client, self._pure = self._pure, None
        if client is not None:
            client.close()

    def _reached_librdkafka(self) -> AdminClient:
        self._last_failure = None
        self._threads_before = _foreign_threads()
        try:
            client = AdminClient(cast("Any", self.connection.client_config(error_cb=self._note_failure)))
        except errors.CLIENT_ERRORS as error:
            raise self._not_reached(error) from error
        deadline = Deadline(self._reach)
        while True:
            try:
                client.list_topics(timeout=max(0.1, min(_LOOK_SECONDS, deadline.remaining)))
            except errors.CLIENT_ERRORS as error:
                client.poll(0)  # delivers what went wrong with each broker
                if errors.turned_away(self._last_failure) or not deadline.remaining:
                    raise self._not_reached(error) from error
            else:
                return client

    def _note_failure(self, error: KafkaError) -> None:
        if error.code() != errors.ALL_BROKERS_DOWN:
            self._last_failure = error

    def _not_reached(self, error: BaseException) -> RecoveryError:
        failure = self._last_failure
        if failure is not None and errors.turned_away(failure):
            return errors.rejected(self.connection, certificate_problem(self.connection) or failure.str())
        found = errors.translated(error, self.connection, "connecting", timeout=self._reach)
        if not isinstance(found, BrokerUnavailable):
            return found
        return errors.unavailable(
            self.connection, failure.str() if failure else errors.text_of(error), timeout=self._reach, connected=False
        )
