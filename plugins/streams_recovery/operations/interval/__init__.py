"""An interval of the past processed again, by an application of its own that is removed afterwards.

``claim`` gives it a slot, ``clear`` takes away what an earlier run left, ``plan`` and ``open_interval`` begin an ordinary restore whose input is the
interval's; ``publish_results`` comes when it has stopped at the ends, ``remove`` and ``conclude`` last, whatever became of it.
"""

from streams_recovery.core.sandbox.interval_log import PublishReport, ReprocessEntry, ReprocessOptions, ReprocessRequest
from streams_recovery.operations.interval.results import publish_results
from streams_recovery.operations.interval.run import (
    Claimed,
    Done,
    Planned,
    busy,
    claim,
    clear,
    conclude,
    history,
    open_interval,
    plan,
    raise_unless_succeeded,
    remove,
    requested,
)
