"""Waiting without a worker: the triggerer looks again and again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from streams_recovery.core.errors import RecoveryError, TransientError
from streams_recovery.core.waiting import WaitNotice
from streams_recovery.hooks.context import Logged, context_of
from streams_recovery.operations.conditions import WATCHES, ConditionState


class WatchTrigger(Logged, BaseTrigger):
    """Looks every ``interval`` seconds until the ``watch`` of this name (see ``streams_recovery.operations.conditions``) is done. Its event has ``done`` and
    ``message``, or the ``error`` of a look that would fail again. A broker or an application that does not answer is asked again at the next look.

    The first look comes after ``settle`` seconds: a task that goes on before its executor has reported the end of its first half is failed.
    """

    def __init__(self, *, application_name: str, watch: str, facts: Mapping[str, Any], interval: float, settle: float) -> None:
        super().__init__()
        self.application_name = application_name
        self.watch = watch
        self.facts = dict(facts)
        self.interval = interval
        self.settle = settle

    def serialize(self) -> tuple[str, dict[str, Any]]:
        names = ("application_name", "watch", "facts", "interval", "settle")
        return f"{type(self).__module__}.{type(self).__qualname__}", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event, at the end."""
        message, notice = "", WaitNotice(f"{self.watch.replace('_', ' ')} of {self.application_name}", log=self.log.info)
        await asyncio.sleep(self.settle)
        while True:
            started = time.monotonic()
            try:
                found = await sync_to_async(self._look, thread_sensitive=False)()
            except TransientError as error:
                self.log.warning("%s", error)
            except RecoveryError as error:
                yield TriggerEvent({"error": str(error)})
                return
            else:
                if found.done:
                    yield TriggerEvent({"done": True, "message": found.message})
                    return
                if found.message != message:
                    self.log.info("%s", found.message)
                message = found.message
                notice.waiting(found.message)
                # Not kept when the triggerer dies: its successor looks once more at what this one has read.
                self.facts = {**self.facts, **found.facts}
            await asyncio.sleep(max(0.0, self.interval - (time.monotonic() - started)))

    def _look(self) -> ConditionState:
        with context_of(self.application_name) as recovery:
            return WATCHES[self.watch](recovery, self.facts)
