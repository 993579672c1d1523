"""One instance over the HTTP interface that its configuration names: its state and values are read, and orders are sent.

Every answer is bounded in time and size. No redirects, no proxies: only the address as written. The interface may know us by a token.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from streams_recovery.application.port import AnswerTooLarge, InstanceStatus, NoKeyRoute, OwnWord
from streams_recovery.core import codec
from streams_recovery.core.errors import ApplicationNotReady, ConfigInvalid, Damaged, NotFound
from streams_recovery.core.masking import masked, remember_secrets
from streams_recovery.core.state.key_query import KeyAnswer, KeyQuestion, NamedOwner, answer_of, owner_of

if TYPE_CHECKING:
    from streams_recovery.core.rollout.described import DescribedTopology

_PIECE = 1 << 20
_SECONDS = 3.0
_QUERY_SECONDS = 60.0
# A state, and what is said beside a status, is a line or two.
_MAX_BYTES = 1 << 16
# As text: as Python's objects a store takes many times as much.
MAX_STORE_BYTES = 32 << 20
# A record of Kafka's has a megabyte by default, and JSON may show it longer.
_MAX_VALUE_BYTES = 4 << 20
_KEY_SECONDS = 10.0
# Kafka has no count that is longer.
_TOO_MANY = 2**63
# Kafka Streams' own are short words, and people see this.
_MOST_STATE = 40
_OK = range(200, 300)
_TURNED_AWAY = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_SERVER_ERRORS = range(500, 600)
# An instance that has no such path or store, or cannot read the key.
_NOT_BY_KEY = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.METHOD_NOT_ALLOWED,
    HTTPStatus.REQUEST_URI_TOO_LONG,
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    HTTPStatus.NOT_IMPLEMENTED,
)
_PLACEHOLDER = re.compile(r"\{(?:store|key)\}")
# States in which being paused does not matter any more.
_ENDING = ("ERROR", "PENDING_ERROR", "PENDING_SHUTDOWN", "NOT_RUNNING")

# RFC 6750, section 2.1: anything else could end the header it is sent in.
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_MOST_TOKEN_BYTES = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported(OwnWord):
    """The answer of an instance. ``state`` is ``PAUSED`` while it works but is paused, None when it does not answer. ``problem`` is why an instance that
    answers does not say how it is.
    """

    state: str | None
    problem: str | None = None

    def on(self, look: InstanceStatus) -> InstanceStatus:
        """Add this to what was seen of the instance from outside."""
        return replace(
            look,
            **codec.fields_of(OwnWord, self),
            streams_state=self.state,
            detail=f"{look.detail}, {self.problem}" if self.problem else look.detail,
        )


_SILENT = Reported(state=None)


def reported(url: str, path: str, *, token: str | None = None) -> Reported:
    """Ask an instance how it is. The answer is ``{"state": ..., "paused": ..., "restoring": ..., "standby_tasks": ..., "commit_interval_ms": ...,
    "client_ids": [...]}``, all but the first if it likes, with any status: an unhealthy instance has a state too.
    """
    try:
        answer = exchange("GET", url, path, seconds=_SECONDS, limit=_MAX_BYTES, token=token)
    except (OSError, HTTPException):
        return _SILENT
    found = _plain(answer)
    state = found.get("state")
    if not isinstance(state, str):
        return Reported(state=None, problem=f"{url}{path} answers {answer.status}") if answer.status in _TURNED_AWAY else _SILENT
    return Reported(
        state="PAUSED" if found.get("paused") is True and state not in _ENDING else masked(state[:_MOST_STATE]),
        restoring=_counted(found.get("restoring")),
        standby_tasks=_counted(found.get("standby_tasks")),
        commit_interval_ms=_counted(found.get("commit_interval_ms")),
        client_ids=_names(found.get("client_ids")),
    )


def post(url: str, path: str, *, token: str | None = None) -> None:
    """Ask for something to be done. Raises ``ApplicationNotReady`` when it was not done, ``ConfigInvalid`` when there is no such path or the token
    is not the right one.
    """
    _check(url, path, _asked("POST", url, path, seconds=_SECONDS, limit=_MAX_BYTES, token=token))


def close(url: str, path: str, *, seconds: float, token: str | None = None) -> bool:
    """Ask an instance to close Kafka Streams. True only when it answers in time that this is done: ``{"closed": true}``."""
    try:
        answer = exchange("POST", url, path, seconds=seconds, limit=_MAX_BYTES, token=token)
    except (OSError, HTTPException):
        return False
    return answer.status in _OK and _plain(answer).get("closed") is True


def store(url: str, template: str, name: str, *, token: str | None = None) -> dict[str, object]:
    """Every key of a store as this instance holds it. Raises ``ApplicationNotReady`` while it rebalances or does not answer, ``NotFound`` for
    a store it does not have, ``AnswerTooLarge``, ``Damaged`` when the answer is not one JSON object with each key once, and ``ConfigInvalid`` when
    the token is not the right one.
    """
    path = template.replace("{store}", quote(name, safe=""))
    answer = _asked("GET", url, path, seconds=_QUERY_SECONDS, limit=MAX_STORE_BYTES, token=token)
    if answer.status == HTTPStatus.NOT_FOUND:
        raise NotFound(f"{url}{path} knows no store {name}", next_step="check the store's name and the query path", url=url, store=name)
    _check(url, path, answer)
    return _whole(answer, f"{url}{path}", MAX_STORE_BYTES)


def topology(url: str, *, token: str | None = None) -> DescribedTopology | None:
    """What an instance describes its topology as, None for one that does not answer so."""
    # Nothing but a rescale asks for it, and every look loads this file.
    from streams_recovery.core.rollout.described import MOST_BYTES, described  # noqa: PLC0415

    try:
        answer = exchange("GET", url, "/topology", seconds=_SECONDS, limit=MOST_BYTES, token=token)
        return described(answer.body) if answer.status in _OK and answer.whole else None
    except (OSError, HTTPException, ConfigInvalid):
        return None


def owner(url: str, template: str, question: KeyQuestion, *, token: str | None = None) -> NamedOwner | None:
    """The instance that has a key, as this one says; None when it does not tell. The name is not believed: see ``NamedOwner.among``. Raises
    ``ApplicationNotReady``, ``Damaged``, ``ConfigInvalid``.
    """
    path = _key_path(template, question)
    answer = _asked("GET", url, path, seconds=_SECONDS, limit=_MAX_BYTES, token=token)
    if answer.status in _NOT_BY_KEY:
        return None
    _check(url, path, answer)
    return owner_of(_whole(answer, f"{url}{path}", _MAX_BYTES), where=f"{url}{path}")


def key(url: str, template: str, question: KeyQuestion, *, instance: str, token: str | None = None) -> KeyAnswer | None:
    """The answer of this instance for a key; None when another one has it. Raises ``ApplicationNotReady`` while it rebalances or does not answer,
    ``NoKeyRoute`` when it cannot be asked for this key, ``AnswerTooLarge``, ``Damaged``, and ``ConfigInvalid`` when the token is not the right one.
    """
    path = _key_path(template, question) + (f"?{urlencode(question.bounds)}" if question.bounds else "")
    where = f"{url}{path}"
    answer = _asked("GET", url, path, seconds=_KEY_SECONDS, limit=_MAX_VALUE_BYTES, token=token)
    if answer.status == HTTPStatus.MISDIRECTED_REQUEST:
        return None
    if answer.status in _NOT_BY_KEY:
        found = answer_of(_plain(answer), instance=instance, where=where) if answer.status == HTTPStatus.NOT_FOUND else None
        if found is None or found.found:
            raise _no_route(where, f"answered {answer.status}: {_said(answer)}", question)
        return found
    _check(url, path, answer)
    found = answer_of(_whole(answer, where, _MAX_VALUE_BYTES), instance=instance, where=where)
    if found is None:
        raise _no_route(where, "did not say whether it has the key", question)
    return found


def too_large(what: str, limit: int) -> AnswerTooLarge:
    """The error of an answer to a query that has more than ``limit`` bytes."""
    return AnswerTooLarge(
        f"the answer of {what} has more than {limit} bytes, which is all that is read",
        next_step="set queryable: false for this store",
        where=what,
        limit=limit,
    )


def json_object(body: bytes, *, where: str) -> dict[str, object]:
    """The JSON object that ``body`` is. A key that is there twice is refused: the second value would silently replace the first."""
    try:
        found = json.loads(body, object_pairs_hook=_each_key_once)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{where} did not answer with a JSON object: {error}", next_step="check what answers a query", where=where) from error
    if not isinstance(found, dict):
        raise Damaged(
            f"{where} answered with a {type(found).__name__}", next_step="answer with an object, a field for each key", where=where
        )
    return found


def token_in(file: str | None) -> str | None:
    """The token in ``file``, read anew each time so that it can be replaced; None without a file. Raises ``ConfigInvalid``."""
    if file is None:
        return None
    try:
        with Path(file).open("rb") as opened:
            text = opened.read(_MOST_TOKEN_BYTES).decode("ascii").strip()
    except OSError as error:
        raise ConfigInvalid(
            f"the token file {file} cannot be read: {error.strerror}",
            next_step="correct control.token_file, or the rights of that file",
            path=file,
        ) from None
    except UnicodeDecodeError:
        text = ""
    if not _TOKEN.fullmatch(text):
        # Not the text itself: it may be the secret, mistyped.
        raise ConfigInvalid(
            f"{file} holds no token",
            next_step="write one line of letters, digits and -._~+/ into it, such as openssl rand -hex 32 prints",
            path=file,
        )
    remember_secrets([text], renewed=True)
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer over HTTP. ``body`` is the whole of it, or its beginning when it is longer than was asked for."""

    status: int
    body: bytes
    whole: bool


def exchange(method: str, url: str, path: str, *, seconds: float, limit: int, token: str | None = None) -> Answer:
    """The answer to one request, with a body of at most ``limit`` bytes. A ``token`` is sent as ``Authorization: Bearer``.

    Raises ``OSError`` (``TimeoutError`` when it is not whole after ``seconds``) and ``HTTPException``.
    """
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=seconds)
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    remember_secrets([] if token is None else [token], renewed=True)
    try:
        # Connected here and not by the request: the deadline needs the socket.
        connection.connect()
        with _deadline(connection.sock, seconds):
            connection.request(method, parts.path.rstrip("/") + path, body=b"" if method == "POST" else None, headers=headers)
            answer = connection.getresponse()
            body = _read(answer, limit + 1)
            # Where the peer ends too early, read1() returns what there is. Unlike read() without a size it raises nothing.
            if len(body) <= limit and answer.length:
                raise ConnectionError(f"the answer ended {answer.length} bytes too early")
        return Answer(status=answer.status, body=body[:limit], whole=len(body) <= limit)
    except HTTPException as error:
        # Its text is what came in place of an answer, and a traceback shows it.
        raise HTTPException(f"{type(error).__name__}: {masked(str(error))}") from None
    finally:
        connection.close()


def _read(answer: HTTPResponse, most: int) -> bytes:
    pieces, left = [], most
    while left and (piece := answer.read1(min(left, _PIECE))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


@contextlib.contextmanager
def _deadline(connected: socket.socket, seconds: float) -> Iterator[None]:
    """A socket's own timeout bounds one read only: an answer that drips, and headers too, would last for ever. So the whole is ended from outside."""
    over = threading.Event()

    def end() -> None:
        over.set()
        with contextlib.suppress(OSError):
            # Not the method of a TLS socket, which another thread is reading from.
            socket.socket.shutdown(connected, socket.SHUT_RDWR)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (OSError, HTTPException) as error:
        if not over.is_set():
            raise
        raise TimeoutError(f"no whole answer within {seconds:g} s") from error
    finally:
        timer.cancel()
    if over.is_set():
        raise TimeoutError(f"no whole answer within {seconds:g} s")


def _plain(answer: Answer) -> Mapping[str, object]:
    try:
        found = json.loads(answer.body) if answer.whole else None
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _counted(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < _TOO_MANY else None


def _names(value: object) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


def _key_path(template: str, question: KeyQuestion) -> str:
    # At once: a store or a key may look like the other's placeholder.
    filled = {"{store}": quote(question.store, safe=""), "{key}": quote(question.key, safe="")}
    return _PLACEHOLDER.sub(lambda match: filled[match[0]], template)


def _whole(answer: Answer, where: str, limit: int) -> dict[str, object]:
    if not answer.whole:
        raise too_large(where, limit)
    return json_object(answer.body, where=where)


def _no_route(where: str, why: str, question: KeyQuestion) -> NoKeyRoute:
    return NoKeyRoute(
        f"{where} {why}: it has no store {question.store}, or cannot be asked for this key",
        next_step="check the store's name and control.query_key; docs/endpoints.md says how keys that are no text are read",
        store=question.store,
    )


def _asked(method: str, url: str, path: str, *, seconds: float, limit: int, token: str | None) -> Answer:
    try:
        return exchange(method, url, path, seconds=seconds, limit=limit, token=token)
    except (OSError, HTTPException) as error:
        raise ApplicationNotReady(f"{url}{path} did not answer: {error}", next_step="look at the instance's log", url=url) from error


def _check(url: str, path: str, answer: Answer) -> None:
    message = f"{url}{path} answered {answer.status}: {_said(answer)}"
    if answer.status in _SERVER_ERRORS:
        raise ApplicationNotReady(message, next_step="wait until the instance is RUNNING, or look at its log", url=url)
    if answer.status in _TURNED_AWAY:
        raise ConfigInvalid(message, next_step="set control.token_file to a file with the token that the application asks for", url=url)
    if answer.status not in _OK:
        raise ConfigInvalid(message, next_step="correct the control section of the configuration", url=url)


def _said(answer: Answer) -> str:
    # Before it is cut: a half of a token is not known to be one.
    return repr(masked(answer.body.decode("latin-1")).encode("latin-1")[:200])


def _each_key_once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"key {key[:100]!r} is there twice")
        found[key] = value
    return found
