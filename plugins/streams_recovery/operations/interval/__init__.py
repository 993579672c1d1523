"""An interval of the past processed again, by an application of its own that is removed afterwards.

``claim`` gives it a slot, ``clear`` takes away what an earlier run left, ``plan`` and ``open_interval`` begin an ordinary restore whose input is the
interval's; ``publish_results`` comes when it has stopped at the ends, ``remove`` and ``conclude`` last, whatever became of it.
"""

from streams_recovery.core.sandbox.interval_log import PublishReport, ReprocessEntry, ReprocessOptions, ReprocessRequest
from streams_recovery.operations.interval.begin import Planned, clear, open_interval, plan
from streams_recovery.operations.interval.end import Done, conclude, history, raise_unless_succeeded, remove
from streams_recovery.operations.interval.results import publish_results
from streams_recovery.operations.interval.slots import Claimed, busy, claim, requested

__all__ = [
    "Claimed",
    "Done",
    "Planned",
    "PublishReport",
    "ReprocessEntry",
    "ReprocessOptions",
    "ReprocessRequest",
    "busy",
    "claim",
    "clear",
    "conclude",
    "history",
    "open_interval",
    "plan",
    "publish_results",
    "raise_unless_succeeded",
    "remove",
    "requested",
]
