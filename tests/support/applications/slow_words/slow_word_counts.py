# mypy: ignore-errors
"""The example, with a consumer that stays where a worker begins to read after its tables are whole, until records have arrived or none can. On a quiet machine
that moment is mostly too short to lose anything in it. A directory of its own: it is on the path of a worker.
"""

import asyncio

from faust.transport.consumer import Consumer
from word_counts import app

__all__ = ["app"]

# A worker that had nothing to read looks again after one second.
LONGEST = 3.0
STEP = 0.01
_seek = Consumer.perform_seek


async def perform_seek(self) -> None:
    """Go to the committed offsets as Faust does, and wait for records."""
    await _seek(self)
    for _ in range(int(LONGEST / STEP)):
        if any(not queue.empty() for queue in app.flow_control._queues):
            break
        await asyncio.sleep(STEP)


Consumer.perform_seek = perform_seek
