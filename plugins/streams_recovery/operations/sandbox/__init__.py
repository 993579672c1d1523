"""A restore that is tried: into an application of its own, measured, and removed whatever became of it.

``clear`` comes first and ``remove`` last; both leave nothing of the drill's application. Between the two runs an ordinary restore.
"""

from streams_recovery.core.sandbox.drill import DrillEntry
from streams_recovery.operations.sandbox.teardown import Removed, clear, conclude, drills, raise_unless_succeeded, remove
