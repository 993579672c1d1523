"""Secrets of an object store, kept apart from its address."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StorageCredentials:
    """An access key of an S3 compatible store. Never stored, shown or logged; ``session_token`` is None for long-lived keys."""

    access_key_id: str
    secret_access_key: str
    session_token: str | None = None

    def __repr__(self) -> str:
        return "StorageCredentials(***)"
