"""The two clients of one cluster, each made when first needed, and the way every question to them is asked.

librdkafka (confluent-kafka) reads committed offsets with ``require_stable``, offsets and configurations, and reports an error a partition
or resource. kafka-python writes offsets byte for byte and knows members, transactions and producers. Neither does both.

librdkafka says the same of every certificate that is not accepted: a handshake of our own tells the reasons apart. It fetches its own tokens
(``sasl.oauthbearer.method=oidc``). kafka-python leaves that to its user.
"""

from __future__ import annotations

import base64
import json
import logging
import socket
import ssl
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException
from types import TracebackType
from typing import IO, Any, Self, TypeVar, cast

from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka.net.compat import KafkaNetClient
from kafka.net.sasl.oauth import AbstractTokenProvider

from streams_recovery.core.connection import direct_opener
from streams_recovery.core.errors import BrokerUnavailable, RecoveryError, TransientError
from streams_recovery.core.masking import remember_secrets
from streams_recovery.kafka import errors
from streams_recovery.kafka.connection import Connecting, KafkaConnection

T = TypeVar("T")

# A cluster that is down is reported after this time, however long a request to one that is up may take.
REACH_SECONDS = 10.0
# A broker that refuses us says so at once, but the client goes on trying and tells it only when it is asked.
_LOOK_SECONDS = 1.0
# Of a question that is repeated, one attempt gets this part of the time. A broker that was just lost does not answer at all: then the next attempt asks its
# successor. An attempt is not made shorter than a slow answer of a broker that is well.
_ATTEMPTS = 4
_SHORTEST_ATTEMPT_SECONDS = 5.0
# A thread of a client needs microseconds for what is left to it once no code of Python runs there.
_SETTLED_SECONDS = 0.02
# The wait for that is not longer. A thread of another library that begins meanwhile looks like a client's.
SETTLING_SECONDS = 1.0

# The age at which librdkafka forgets coordinators and leaders that it has found: the next attempt then looks for those that have taken over.
_FORGETS = "metadata.max.age.ms"
# The age of a request at which librdkafka gives up its connection. It asks any broker that it is connected to who has taken over: not the silent one again.
_GIVES_UP = "socket.timeout.ms"

_HANDSHAKE_SECONDS = 3.0

_PREFIX = "sasl.oauthbearer."
_TOKEN_SECONDS = 10.0
# A token is given up this long before its end, so that it does not run out between here and the broker.
_MARGIN_SECONDS = 30.0
_MOST_TOKEN_BYTES = 1 << 20


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
        self._repeating = False

    @property
    def attempt_timeout(self) -> float:
        """Seconds for one attempt at a question that is repeated until ``timeout``."""
        return max(self.timeout / _ATTEMPTS, min(self.timeout, _SHORTEST_ATTEMPT_SECONDS))

    @property
    def connection(self) -> KafkaConnection:
        """The connection to the cluster. Raises what looking it up raises."""
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

        The other client connects first, because it names a wrong certificate or password. This one only says that it could not connect.
        """
        if self._pure is None:
            _ = self.librdkafka
            timeouts = {"bootstrap_timeout_ms": int(self._reach * 1000), "request_timeout_ms": int(self.timeout * 1000)}
            _quiet()
            try:
                self._pure = KafkaAdminClient(**{"kafka_client": unhurried_client, **timeouts, **self.connection.admin_config()})
            except errors.CLIENT_ERRORS as error:
                raise self._not_reached(error) from error
            self._manager.send = self._in_time(self._manager.send, self._pure.config["request_timeout_ms"])
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

        A request in it gets ``attempt_timeout``. A cluster that never answered is not waited for.
        """
        deadline = Deadline(self.timeout)
        while True:
            try:
                with self.requesting(doing), self._attempt():
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

    @contextmanager
    def _attempt(self) -> Iterator[None]:
        before, self._repeating = self._repeating, True
        try:
            yield
        finally:
            self._repeating = before

    def _in_time(self, send: Callable[..., T], whole_ms: int) -> Callable[..., T]:
        """kafka-python's ``send``. Its verbs take no time for a request, so that of an attempt is given here."""

        def sent(request: object, node_id: int | None = None, request_timeout_ms: int | None = None) -> T:
            within = min(whole_ms, int(self.attempt_timeout * 1000)) if self._repeating else whole_ms
            return send(request, node_id, request_timeout_ms or within)

        return sent

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
            attempt = int(self.attempt_timeout * 1000)
            limits = {_FORGETS: attempt // 2, _GIVES_UP: min(attempt, int(self.connection.properties.get(_GIVES_UP, attempt)))}
            config = self.connection.client_config(error_cb=self._note_failure, **limits)
            client = AdminClient(cast("Any", config))
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


class ClusterVerbs:
    """Verbs on one cluster. Connects when first asked; ``timeout`` in seconds bounds every verb, its repetitions included. For one thread at a time."""

    def __init__(self, connection: Connecting, *, timeout: float = 30.0) -> None:
        self._clients = Clients(connection, timeout=timeout)

    def close(self) -> None:
        """Disconnect. The next question connects again."""
        self._clients.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _quiet() -> None:
    # kafka-python tells of every connection it opens and closes: a dozen lines a task, in which important lines drown.
    logger = logging.getLogger("kafka")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.WARNING)


def unhurried_client(**config: Any) -> Any:
    """kafka-python's connections. By default their thread warns of each of its steps that takes a tenth of a second, as reading an answer about a thousand
    partitions does: nothing else waits for it here.
    """
    return KafkaNetClient(**{**config, "slow_task_threshold_secs": 0})


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


class Deadline:
    """A moment ``seconds`` from now. ``clock`` (seconds, never going back) and ``sleep`` are given by tests."""

    def __init__(self, seconds: float, *, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep) -> None:
        self._clock = clock
        self._sleep = sleep
        self._end = clock() + seconds

    @property
    def remaining(self) -> float:
        """Seconds left, never below zero."""
        return max(0.0, self._end - self._clock())

    def pause(self, seconds: float = 0.1) -> bool:
        """Sleep for ``seconds`` or what is left of the time. False, and no sleep, when nothing is left: time to give up."""
        left = self.remaining
        if left <= 0:
            return False
        self._sleep(min(seconds, left))
        return True


def certificate_problem(connection: KafkaConnection) -> str | None:
    """The problem of the first certificate that is wrong: expired, for another name, of an unknown authority. None when nothing is found.

    No credentials are sent, and a broker that does not answer is passed over.
    """
    if connection.properties.get("security.protocol") not in ("SSL", "SASL_SSL"):
        return None
    try:
        context = ssl.create_default_context(cafile=connection.properties.get("ssl.ca.location"))
    except OSError as error:
        return f"ssl.ca.location cannot be read: {error}"
    context.check_hostname = connection.properties.get("ssl.endpoint.identification.algorithm") != "none"
    for server in connection.bootstrap_servers.split(","):
        host, _, port = server.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), _HANDSHAKE_SECONDS) as plain:
                context.wrap_socket(plain, server_hostname=host.strip("[]")).close()
        except ssl.SSLCertVerificationError as error:
            return f"the certificate of {server}: {error.verify_message}"
        except (OSError, ValueError):
            continue
    return None


class ClientCredentials(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    """An OAuth 2 client credentials grant (RFC 6749, section 4.4) at the configured endpoint. One token is used until it ends.

    ``properties`` are those of a checked ``KafkaConnection``: its endpoint is on this machine or has TLS.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = {key.removeprefix(_PREFIX): value for key, value in properties.items() if key.startswith(_PREFIX)}
        self._token = ""
        self._ends_at = 0.0

    def token(self) -> str:
        """A token that is still valid. Raises ``BrokerUnavailable`` when the endpoint gives none."""
        if time.monotonic() >= self._ends_at:
            answer = self._ask()
            self._token = str(answer["access_token"])
            remember_secrets([self._token], renewed=True)
            self._ends_at = time.monotonic() + float(str(answer.get("expires_in", 0))) - _MARGIN_SECONDS
        return self._token

    def extensions(self) -> dict[str, str]:
        """``sasl.oauthbearer.extensions``, ``name=value`` pairs with commas between them."""
        pairs = (pair.partition("=") for pair in self._properties.get("extensions", "").split(",") if pair)
        return {name.strip(): value.strip() for name, _, value in pairs}

    def _ask(self) -> dict[str, object]:
        url = self._properties["token.endpoint.url"]
        form = {"grant_type": "client_credentials"} | {key: self._properties[key] for key in ("scope",) if key in self._properties}
        request = urllib.request.Request(url, data=urllib.parse.urlencode(form).encode())  # noqa: S310  # its connection is checked
        request.add_header("Authorization", f"Basic {self._basic()}")
        remember_secrets([self._basic(), self._properties["client.secret"]])
        try:
            with direct_opener(url).open(request, timeout=_TOKEN_SECONDS) as response:
                answer = json.loads(_bounded(response))
        except (OSError, ValueError, HTTPException, RecursionError) as error:
            raise BrokerUnavailable(
                f"no token from {url}: {error}",
                next_step="check the endpoint, client id and client secret of the Kafka connection",
                url=url,
            ) from error
        if not isinstance(answer, dict) or "access_token" not in answer:
            raise BrokerUnavailable(f"no token in the answer of {url}", next_step="check that it is an OAuth 2 token endpoint", url=url)
        return answer

    def _basic(self) -> str:
        names = (self._properties["client.id"], self._properties["client.secret"])
        return base64.b64encode(":".join(urllib.parse.quote(name, safe="") for name in names).encode()).decode()


def _bounded(response: IO[bytes]) -> bytes:
    body = response.read(_MOST_TOKEN_BYTES + 1)
    if len(body) > _MOST_TOKEN_BYTES:
        raise ValueError(f"the answer has more than {_MOST_TOKEN_BYTES} bytes")
    return body
