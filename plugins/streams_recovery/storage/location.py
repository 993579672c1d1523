"""What a repository is opened with: a location, which everybody may see, and credentials, which nobody may."""

from __future__ import annotations

from dataclasses import dataclass, field

from streams_recovery.core.location import StorageLocation

__all__ = ["StorageCredentials", "StorageLocation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageCredentials:
    """Keys of an object store. Never shown by ``repr``, never part of a location, a manifest or a job specification."""

    access_key_id: str = field(repr=False)
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)

    def environment(self) -> dict[str, str]:
        """As the environment variables that a process without a secret store of its own is given."""
        variables = {"AWS_ACCESS_KEY_ID": self.access_key_id, "AWS_SECRET_ACCESS_KEY": self.secret_access_key}
        return variables | ({} if self.session_token is None else {"AWS_SESSION_TOKEN": self.session_token})
