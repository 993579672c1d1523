"""Somebody who may create objects in a repository and nothing else: neither replace one nor delete one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from streams_recovery.core import codec
from streams_recovery.core.kafka_types import CommittedOffset
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.storage.repository import Repository


@dataclass(frozen=True)
class Intruder:
    """Knows the format, and sees every key."""

    repository: Repository

    def beside(self, kind: type[Any], directory: str, name: str, change: Callable[[Any], Any]) -> str:
        """Put a changed copy of the newest object of this name and ``kind`` beside it, under the next number. Returns its key."""
        keys = [key for key in self.repository.keys(directory) if key.removeprefix(directory).startswith(f"{name}.")]
        newest = codec.loads(kind, self.repository.get(keys[-1]), where=keys[-1])
        forged = f"{directory}{name}.{len(keys) + 1:04}.json"
        self.repository.create(forged, codec.dumps(change(newest)))
        return forged

    def plan(self, application_id: str, restore_id: str) -> str:
        """A plan beside that of a restore, by which every input would be read from its beginning again. Returns its key."""
        return self.beside(RestorePlan, f"{application_id}/work/{restore_id}/", "restore-plan", from_the_beginning)


def from_the_beginning(planned: RestorePlan) -> RestorePlan:
    """A plan that does something else."""
    return replace(planned, offsets=tuple(replace(item, wanted=CommittedOffset(offset=0, metadata="")) for item in planned.offsets))
