"""Other numbers of partitions for an application: proof of where records lie, placing them anew as a savepoint, and the restore of that."""

from streams_recovery.operations.rescale.way import (
    PlacedSummary,
    PlacementProven,
    check_proof,
    keep_placed,
    plan_placing,
    plan_proof,
)

__all__ = ["PlacedSummary", "PlacementProven", "check_proof", "keep_placed", "plan_placing", "plan_proof"]
