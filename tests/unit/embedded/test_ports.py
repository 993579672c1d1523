from __future__ import annotations

import socket

import pytest

from embedded.ports import HOST, free_ports, require_free
from streams_recovery.core.errors import Refused


def test_free_ports_differ() -> None:
    assert len(set(free_ports(20))) == 20


def test_taken_port_is_refused_by_its_number_and_purpose() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Refused, match=f"port {port} for the broker is taken"):
            require_free(port, "the broker")
    assert require_free(port, "the broker") == port
