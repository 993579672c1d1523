"""A look into the second place of a repository: what is there, and whether the first one is lost. Needs no cluster."""

from __future__ import annotations

from pathlib import Path

from streams_recovery.core.errors import ConfigInvalid, NotFound, RecoveryError, Refused, RepositoryUnavailable
from streams_recovery.core.repository.mirror import SecondPlace, second_place
from streams_recovery.core.words import command
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.storage.conditional_put import CredentialsExpired, NoBucket, Retries
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.savepoints import SavepointStore


def require_lost(recovery: RecoveryContext) -> str:
    """Why the first place, which is the second one of this context, counts as lost, for the person who goes on without it. Raises ``Refused`` where it
    answers and has savepoints: what a restore writes down has to be in one place, and all that comes later goes by it. Raises ``ConfigInvalid`` where only
    this shell does not get in: others may be writing there.
    """
    place = str(recovery.config.storage.second_place and recovery.config.storage.second_place.location)
    try:
        place, ids = _looked_into(recovery)
        why = "has no savepoints" if _is_there(recovery) else "is not there"
    except NoBucket:
        return _lost(place, "does not exist: the store says that there is no such bucket")
    except (ConfigInvalid, CredentialsExpired, NotFound) as error:
        raise ConfigInvalid(
            f"whether the first place {place} is lost is not known, this shell does not get in: {error.reason}",
            next_step="give this shell the first place's connection, or take the first place out of the configuration: write the keys of the second "
            "place into storage, and leave mirror out",
            place=place,
        ) from error
    except RepositoryUnavailable as error:
        return _lost(place, f"does not answer ({error.reason})")
    if ids:
        raise Refused(
            f"the repository of {recovery.application_id} is not lost: {place} answers and has {len(ids)} savepoints",
            next_step="restore from it; what it has lost is put back from the second place by the command below",
            place=place,
        ).then(command("mirror", recovery.config.name, "--from", "mirror", "--full"))
    return _lost(place, why)


def _lost(place: str, why: str) -> str:
    return f"the first place {place} {why}: nobody else may use it meanwhile"


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
    if found is None or not _is_there(recovery):
        return str(found and found.location), []
    keys = recovery.connections.storage(found.connection, found.backend) if found.backend != "filesystem" else None
    return str(found.location), SavepointStore(Repository(found.location, keys, Retries(attempts=2)), recovery.layout).ids()


def _is_there(recovery: RecoveryContext) -> bool:
    """False for a directory that does not exist. A bucket answers for itself."""
    found = recovery.config.storage.second_place
    return found is not None and (found.backend != "filesystem" or Path(str(found.path)).is_dir())
