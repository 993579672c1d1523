"""One question over HTTP and its answer, bounded in time and size. No redirects, no proxies: only the address as written."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from urllib.parse import urlsplit

from streams_recovery.core.errors import masked, remember_secrets

_PIECE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back. ``body`` is the whole of it, or its beginning when it is longer than was asked for."""

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
    remember_secrets([] if token is None else [token])
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
