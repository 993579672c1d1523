"""Results of jobs, left as a job leaves them."""

from __future__ import annotations

from streams_recovery.core import codec
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.operations.context import RecoveryContext


def left(recovery: RecoveryContext, key: str, result: object) -> ArtifactRef:
    """What a job leaves."""
    data = codec.dumps(result)
    recovery.repository.create(key, data)
    return ArtifactRef.of(key, data)
