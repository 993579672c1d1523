"""A run artifact: an object that one step of a run writes to the repository for a later step.

Anybody who can create objects in a repository can put another object beside it. So no step takes the newest object of a name. Each gets the key and
the hash of the object it must read, in a way that does not go through the repository.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from streams_recovery.core.errors import Altered


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactRef:
    """The key of a run artifact, and the SHA-256 of its bytes as the run wrote them."""

    key: str
    sha256: str

    @classmethod
    def of(cls, key: str, data: bytes) -> ArtifactRef:
        """The reference of ``data``, stored at ``key``."""
        return cls(key=key, sha256=hashlib.sha256(data).hexdigest())

    def checked(self, data: bytes) -> bytes:
        """Return ``data`` if its hash is right. Raises ``Altered``."""
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
