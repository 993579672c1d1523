"""Objects that hold one value each, as JSON: read within a limit, and never written larger than they can be read again.

An object that cannot be read is told from a repository that cannot.
"""

from __future__ import annotations

from typing import Any, TypeVar

from streams_recovery.core import codec
from streams_recovery.core.codec import MOST_BYTES, Unusable, measure
from streams_recovery.core.errors import ConfigInvalid, Refused, RepositoryUnavailable
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.storage.repository import Repository

T = TypeVar("T")

# Errors of reading one object that the store refuses or fails at.
UNREADABLE = (ConfigInvalid, RepositoryUnavailable)


def read_value(repository: Repository, kind: type[T], key: str, *, most_bytes: int = MOST_BYTES) -> T:
    """The ``kind`` at ``key``. Raises ``NotFound``, and ``Damaged`` for anything else and for more than ``most_bytes``."""
    return codec.loads(kind, repository.get(key, most_bytes=most_bytes), where=key, most_bytes=most_bytes)


def read_noted(repository: Repository, kind: type[T], ref: ArtifactRef) -> T:
    """The ``kind`` that ``ref`` names, as it was written. Raises ``NotFound``, ``Damaged``, and ``Altered`` when it is another one now."""
    return codec.loads(kind, ref.checked(repository.get(ref.key, most_bytes=MOST_BYTES)), where=ref.key)


def create_value(repository: Repository, key: str, value: Any, *, most_bytes: int = MOST_BYTES, previous: str | None = None) -> bytes:
    """Create the object, and return what was written, without its seal. ``previous`` as for ``Repository.create``. Raises ``AlreadyExists``, and ``Refused``
    for a value that could not be read again.
    """
    data = packed_value(key, value, most_bytes=most_bytes)
    repository.create(key, data, previous=previous)
    return data


def packed_value(key: str, value: Any, *, most_bytes: int = MOST_BYTES) -> bytes:
    """The bytes that ``create_value`` would write. Raises ``Refused``."""
    data = codec.dumps(value)
    try:
        measure(data, most_bytes=most_bytes)
    except Unusable as error:
        raise Refused(
            f"{key} would be too large to be read again: {error}",
            next_step="nothing was written; split the application's topics over several applications, or shorten what is archived",
            key=key,
        ) from None
    return data


def only_this_one(repository: Repository, layout: Layout, error: ConfigInvalid | RepositoryUnavailable) -> str:
    """The reason why one object could not be read, after the repository was seen to answer otherwise. Raises what listing raises: then nothing can be
    said of this object, and the next one would fail alike.
    """
    # The smallest listing there is; where nothing is, nothing comes back.
    list(repository.keys(layout.pins))
    return error.reason
