"""A look into the second place of a repository: what is there, and whether the first one is lost. Needs no cluster."""

from __future__ import annotations

from pathlib import Path

from streams_recovery.core.errors import ConfigInvalid, NotFound, RecoveryError, Refused, RepositoryUnavailable
from streams_recovery.core.repository.mirror import SecondPlace, second_place
from streams_recovery.core.words import command
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.storage.conditional_put import Retries
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.savepoints import SavepointStore


def require_lost(recovery: RecoveryContext) -> None:
    """Raise ``Refused`` where the first place, which is the second one of this context, answers and has savepoints: what a restore writes down has to be in
    one place, and all that comes later goes by it.
    """
    try:
        place, ids = _looked_into(recovery)
    except (RepositoryUnavailable, ConfigInvalid, NotFound):
        # It does not answer, or is not there any more.
        return
    if ids:
        raise Refused(
            f"the repository of {recovery.application_id} is not lost: {place} answers and has {len(ids)} savepoints",
            next_step="restore from it; what it has lost is put back from the second place by the command below",
            place=place,
        ).then(command("mirror", recovery.config.name, "--from", "mirror", "--full"))


def see_second_place(recovery: RecoveryContext) -> SecondPlace | None:
    """Which savepoints are in two places at this moment; None without a second one. One that does not answer is no error here."""
    configured = recovery.config.storage.second_place
    if configured is None:
        return None
    try:
        place, there = _looked_into(recovery)
        return second_place(place, recovery.savepoints.ids(), there)
    except RecoveryError as error:
        return SecondPlace(place=str(configured.location), problem=error.reason)


def _looked_into(recovery: RecoveryContext) -> tuple[str, list[str]]:
    """The second place, and the ids of the savepoints in it. Asked twice at most: a person waits. A directory that is not there is not made."""
    found = recovery.config.storage.second_place
    if found is None or (found.backend == "filesystem" and not Path(str(found.path)).is_dir()):
        return str(found and found.location), []
    keys = recovery.connections.storage(found.connection, found.backend) if found.backend != "filesystem" else None
    return str(found.location), SavepointStore(Repository(found.location, keys, Retries(attempts=2)), recovery.layout).ids()
