"""What one step of a run leaves in the repository for a later one, bound to what was written.

Whoever may create objects in a repository can put one beside those of a run. So no step takes the newest of a name: it is told which object it is, and
the hash of its bytes, by a way that does not lead through the repository.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from streams_recovery.core.errors import Altered


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactRef:
    """Where a note is, and the SHA-256 of its bytes as its own run wrote them."""

    key: str
    sha256: str

    @classmethod
    def of(cls, key: str, data: bytes) -> ArtifactRef:
        """The reference of what is written at ``key``."""
        return cls(key=key, sha256=hashlib.sha256(data).hexdigest())

    def checked(self, data: bytes) -> bytes:
        """``data`` itself when it is what was written. Raises ``Altered``."""
        found = hashlib.sha256(data).hexdigest()
        if found != self.sha256:
            raise Altered(
                f"{self.key} is not what this run wrote: its SHA-256 is {found[:16]}, and {self.sha256[:16]} was written",
                next_step="it was not used; find out who can write to this repository, and begin a new run",
                key=self.key,
                written=self.sha256,
                found=found,
            )
        return data
