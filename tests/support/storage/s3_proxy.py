"""A proxy before a real S3 server that does what networks and busy servers do: real requests, real signatures, broken at a chosen moment."""

from __future__ import annotations

import http.client
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, Literal
from urllib.parse import urlsplit

import boto3

from embedded.stores.s3 import CREDENTIALS

# refuse: answered 503 before the server sees it; conflict: the same with 409; lose_reply: the server did it, and the connection breaks before the
# answer; late_503: the server did it, and a gateway says 503; stale: answered as the same request was answered before; unconditional: the server has
# forgotten the object before it hears of the condition, so it overwrites as one that does not know If-None-Match; unknown_header and bad_checksum:
# answered 501 or 400, as by one that does not know a header; empty_list: a listing that shows nothing; not_there: no such
# object; other_bytes: each byte of an object is another one.
Act = Literal[
    "refuse",
    "conflict",
    "lose_reply",
    "late_503",
    "stale",
    "unconditional",
    "unknown_header",
    "bad_checksum",
    "empty_list",
    "not_there",
    "other_bytes",
]

Answer = tuple[int, list[tuple[str, str]], bytes]


@dataclass(frozen=True)
class Request:
    """A request as it arrived."""

    method: str
    target: str
    headers: dict[str, str]

    @property
    def key(self) -> str:
        """What follows the bucket in the path."""
        return urlsplit(self.target).path.lstrip("/").partition("/")[2]

    @property
    def is_list(self) -> bool:
        """Whether it lists a bucket."""
        return "list-type=2" in self.target


@dataclass
class Fault:
    """Does ``act`` to the next ``times`` requests that ``hits``."""

    act: Act
    hits: Callable[[Request], bool]
    times: int


@dataclass
class Proxy:
    """A running proxy and what went through it. Without ``metadata`` it takes away what a client wrote about an object."""

    endpoint: str
    seen: list[Request] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    metadata: bool = True
    _lock: threading.Lock = field(default_factory=threading.Lock)
    answers: dict[str, Answer] = field(default_factory=dict)

    def inject(self, act: Act, hits: Callable[[Request], bool], times: int = 1) -> None:
        """From now on."""
        with self._lock:
            self.faults.append(Fault(act, hits, times))

    def calm(self) -> None:
        """No more faults."""
        with self._lock:
            self.faults.clear()

    def fault_for(self, request: Request) -> Act | None:
        """What happens to this request."""
        with self._lock:
            self.seen.append(request)
            for fault in self.faults:
                if fault.times and fault.hits(request):
                    fault.times -= 1
                    return fault.act
        return None


def puts(part: str = "") -> Callable[[Request], bool]:
    """Requests that write an object with this in its key."""
    return lambda request: request.method == "PUT" and part in request.key


_NOTHING_LISTED = (
    b'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>bucket</Name>'
    b"<Prefix></Prefix><KeyCount>0</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated></ListBucketResult>"
)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = urlsplit(upstream).netloc
        self.proxy = Proxy(endpoint=f"http://127.0.0.1:{self.server_port}")

    def forget(self, path: str) -> None:
        """Remove an object. The condition itself is signed, and cannot be taken out of a request."""
        keys = {
            "aws_access_key_id": CREDENTIALS.options["access_key_id"],
            "aws_secret_access_key": CREDENTIALS.options["secret_access_key"],
        }
        bucket, _, key = path.lstrip("/").partition("/")
        boto3.client("s3", endpoint_url=f"http://{self.upstream}", region_name="us-east-1", **keys).delete_object(Bucket=bucket, Key=key)


def _error(code: str, message: str = "") -> bytes:
    return f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()


# What is answered without the server.
_FIXED: Final[Mapping[str, Answer]] = {
    "refuse": (503, [], _error("SlowDown")),
    "conflict": (409, [], _error("ConditionalRequestConflict")),
    "unknown_header": (501, [], _error("NotImplemented", "A header you provided implies functionality that is not implemented")),
    "bad_checksum": (400, [], _error("InvalidRequest", "Unsupported header x-amz-checksum-sha256")),
    "empty_list": (200, [("content-type", "application/xml")], _NOTHING_LISTED),
    "not_there": (404, [], _error("NoSuchKey", "The specified key does not exist.")),
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def _any(self) -> None:
        proxy = self.server.proxy
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        act = proxy.fault_for(Request(self.command, self.path, {name.lower(): value for name, value in self.headers.items()}))
        if (fixed := _FIXED.get(act or "")) is not None:
            return self._answer(*fixed)
        if act == "stale":
            # Of a page that nobody has asked for, a listing that is late knows nothing.
            return self._answer(*proxy.answers.get(self.path, (200, [("content-type", "application/xml")], _NOTHING_LISTED)))
        if act == "unconditional":
            self.server.forget(self.path)
        proxy.answers[self.path] = self._forward(body)
        if act == "other_bytes":
            status, headers, content = proxy.answers[self.path]
            return self._answer(status, headers, bytes(byte ^ 1 for byte in content))
        if act == "lose_reply":
            return self._break_off()
        if act == "late_503":
            return self._answer(503, [], _error("SlowDown"))
        return self._answer(*proxy.answers[self.path])

    def _forward(self, body: bytes) -> Answer:
        connection = http.client.HTTPConnection(self.server.upstream, timeout=60)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                connection.putheader(name, value)
            connection.endheaders(body or None)
            reply = connection.getresponse()
            return reply.status, reply.getheaders(), reply.read()
        finally:
            connection.close()

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if self._passed_on(name.lower()):
                self.send_header(name, value)
        self.send_header("Connection", "close")
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.close_connection = True

    def _passed_on(self, header: str) -> bool:
        # Length and connection are this hop's own; the length in a HEAD's answer is the object's.
        if header in ("connection", "transfer-encoding") or (header == "content-length" and self.command != "HEAD"):
            return False
        return self.server.proxy.metadata or not header.startswith("x-amz-meta-")

    def _break_off(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # The files made of the socket hold it open; closing it sends the reset.
        self.rfile.close()
        self.connection.close()
        self.close_connection = True

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _any  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@contextmanager
def s3_proxy(upstream: str) -> Iterator[Proxy]:
    """A proxy on a free loopback port."""
    server = _Server(upstream)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server.proxy
    finally:
        server.shutdown()
        thread.join(timeout=60)
        server.server_close()
