"""Tools of a cluster are closed at the end, each of them that was asked."""

from __future__ import annotations

from typing import Any

import pytest

from streams_recovery.kafka.opened import opened


class LibraryClient:
    """In place of a client of kafka-python."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.problem, self.closed = problem, False

    def close(self) -> None:
        self.closed = True
        if self.problem is not None:
            raise self.problem


def no_connection() -> Any:
    raise AssertionError("no cluster is asked here")


def test_a_tool_that_cannot_be_closed_leaves_no_other_one_open() -> None:
    clients = LibraryClient(), LibraryClient(), LibraryClient(OSError("the socket is gone"))
    with pytest.raises(OSError, match="the socket is gone"), opened(no_connection, timeout=1) as tools:
        for tool, client in zip(tools, clients, strict=True):
            tool._clients._pure = client
    assert [client.closed for client in clients] == [True, True, True]
