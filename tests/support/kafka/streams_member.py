"""Members of groups of the streams and the share protocol without a JVM: they speak the one request that such a member must send."""

from __future__ import annotations

import socket
import struct
import uuid

_STREAMS_GROUP_HEARTBEAT, _SHARE_GROUP_HEARTBEAT = 88, 76
_JOIN, _LEAVE = 0, -1


class _Member:
    """Joins ``group_id``. The broker must be the group's coordinator, as the only one is."""

    def __init__(self, bootstrap: str, group_id: str, topic: str, *, client: str = "it-member") -> None:
        self._client = client.encode()
        host, _, port = bootstrap.partition(",")[0].rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=10)
        self._group_id, self._topic, self._member_id = group_id, topic, str(uuid.uuid4())

    def _ask(self, key: int, version: int, body: bytes) -> None:
        header = struct.pack(">hhih", key, version, 1, len(self._client)) + self._client + b"\0"
        self._socket.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
        answer = self._read(struct.unpack(">i", self._read(4))[0])
        # Correlation id, no tagged fields, throttle time, error.
        (error,) = struct.unpack(">h", answer[9:11])
        assert error == 0, f"error {error}: {answer[11:200]!r}"

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            assert more, "the broker closed the connection"
            data += more
        return data


class ShareMember(_Member):
    """Subscribes one topic."""

    def join(self) -> None:
        self._heartbeat(_JOIN, _array([_text(self._topic)]))

    def leave(self) -> None:
        self._heartbeat(_LEAVE, b"\0")
        self._socket.close()

    def _heartbeat(self, epoch: int, topics: bytes) -> None:
        body = _text(self._group_id) + _text(self._member_id) + struct.pack(">i", epoch) + b"\0" + topics + b"\0"
        self._ask(_SHARE_GROUP_HEARTBEAT, 1, body)


class StreamsMember(_Member):
    """Has a topology of one source topic."""

    def join(self) -> None:
        subtopology = _text("0") + _array([_text(self._topic)]) + _array([]) * 5 + b"\0"
        topology = b"\1" + struct.pack(">i", 0) + _array([subtopology]) + b"\0"
        self._heartbeat(_JOIN, rebalance_timeout=60_000, topology=topology, tasks=_array([]) * 3, process_id=_text(self._client.decode()))

    def leave(self) -> None:
        self._heartbeat(_LEAVE, rebalance_timeout=-1, topology=b"\xff", tasks=b"\0" * 3, process_id=b"\0")
        self._socket.close()

    def _heartbeat(self, epoch: int, *, rebalance_timeout: int, topology: bytes, tasks: bytes, process_id: bytes) -> None:
        body = (
            _text(self._group_id) + _text(self._member_id) + struct.pack(">ii", epoch, 0) + b"\0\0" + struct.pack(">i", rebalance_timeout)
        )
        body += topology + tasks + process_id + b"\xff" + b"\0" * 3 + b"\0" + b"\0"
        self._ask(_STREAMS_GROUP_HEARTBEAT, 0, body)


def _text(value: str) -> bytes:
    encoded = value.encode()
    assert len(encoded) < 127
    return bytes([len(encoded) + 1]) + encoded


def _array(items: list[bytes]) -> bytes:
    return bytes([len(items) + 1]) + b"".join(items)
