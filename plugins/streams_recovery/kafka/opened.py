"""The tools of a cluster, each loaded and opened when it is first asked for something. A run that only reads the repository loads no client of Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from streams_recovery.kafka.connection import Connecting

if TYPE_CHECKING:
    from streams_recovery.kafka.cluster import KafkaCluster
    from streams_recovery.kafka.groups import ConsumerGroups
    from streams_recovery.kafka.transactions import Transactions


@contextmanager
def opened(connection: Connecting, *, timeout: float) -> Iterator[tuple[KafkaCluster, ConsumerGroups, Transactions]]:
    """The cluster, its groups and its transactions. Those that were asked are closed at the end."""

    def tool(module: str, name: str) -> Late:
        return Late(lambda: getattr(import_module(f"{__package__}.{module}"), name)(connection, timeout=timeout))

    tools = tool("cluster", "KafkaCluster"), tool("groups", "ConsumerGroups"), tool("transactions", "Transactions")
    # Whatever becomes of one of them, the others are closed too.
    with ExitStack() as ends:
        for one in tools:
            ends.callback(one.end)
        yield cast("tuple[KafkaCluster, ConsumerGroups, Transactions]", tools)


class Late:
    """Stands for a tool, and has all that it has. ``make`` is called when the first of it is asked for."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._made: Any = None

    def __getattr__(self, name: str) -> Any:
        if self._made is None:
            self._made = self._make()
        return getattr(self._made, name)

    def end(self) -> None:
        """Close the tool, if it was made. The next question connects again."""
        if self._made is not None:
            self._made.close()
