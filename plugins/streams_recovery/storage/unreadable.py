"""Telling an object that cannot be read from a repository that cannot."""

from __future__ import annotations

from streams_recovery.core.errors import ConfigInvalid, RepositoryUnavailable
from streams_recovery.core.repository.layout import Layout
from streams_recovery.storage.repository import Repository

# What reading one object raises when the store refuses it or fails at it.
UNREADABLE = (ConfigInvalid, RepositoryUnavailable)


def only_this_one(repository: Repository, layout: Layout, error: ConfigInvalid | RepositoryUnavailable) -> str:
    """Why one object could not be read, after the repository was seen to answer otherwise. Raises what listing raises: then nothing can be said
    of this object, and the next one would fail alike.
    """
    # The smallest listing there is; where nothing is, nothing comes back.
    list(repository.keys(layout.pins))
    return error.reason
