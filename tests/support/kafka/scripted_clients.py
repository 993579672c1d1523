"""Stand-ins for the two third-party clients that answer from a script, for answers that no broker gives on request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from streams_recovery.kafka.clients import Clients
from streams_recovery.kafka.connection import KafkaConnection


class ScriptedClients(Clients):
    """``Clients`` whose librdkafka and kafka-python are given. Nothing is connected."""

    def __init__(self, *, librdkafka: object = None, pure: object = None, timeout: float = 5.0) -> None:
        super().__init__(KafkaConnection(bootstrap_servers="nowhere:1", properties={}), timeout=timeout)
        self._given_librdkafka, self._given_pure = librdkafka, pure

    @property
    def librdkafka(self) -> Any:
        return self._given_librdkafka

    @property
    def pure(self) -> Any:
        return self._given_pure


class Script:
    """A client whose verbs each answer from their own list; an exception in it is raised. It notes what it was asked."""

    def __init__(self, **answers: Iterable[object]) -> None:
        self._answers = {verb: list(given) for verb, given in answers.items()}
        self.asked: list[tuple[str, tuple[object, ...], dict[str, object]]] = []

    def __getattr__(self, verb: str) -> Callable[..., object]:
        def answer(*args: object, **kwargs: object) -> object:
            self.asked.append((verb, args, kwargs))
            given = self._answers[verb].pop(0)
            if isinstance(given, Exception):
                raise given
            return given(*args) if callable(given) else given

        return answer


def refusal(code: int) -> KafkaException:
    return KafkaException(KafkaError(code, "scripted"))


def future(result: object) -> Future[object]:
    settled: Future[object] = Future()
    if isinstance(result, Exception):
        settled.set_exception(result)
    else:
        settled.set_result(result)
    return settled


def offsets(by_partition: Mapping[int, int | Exception]) -> Callable[[Mapping[Any, object]], dict[Any, Future[object]]]:
    """An answer to ``list_offsets``, for exactly the partitions that are asked for."""

    def answer(request: Mapping[Any, object]) -> dict[Any, Future[object]]:
        return {tp: future(_info(by_partition[tp.partition])) for tp in request}

    return answer


def _info(found: int | Exception) -> object:
    return found if isinstance(found, Exception) else SimpleNamespace(offset=found, timestamp=-1)
