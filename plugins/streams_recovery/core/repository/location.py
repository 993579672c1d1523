"""Where a repository is: enough to open it together with credentials, and nothing that has to be kept secret."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Backend = Literal["filesystem", "s3", "memory"]
Encryption = Literal["AES256", "aws:kms"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageLocation:
    """A directory (``path``) or a bucket (``bucket``, ``prefix``, ``region``, ``endpoint``). Travels as JSON in a Spark job's arguments.

    ``memory`` lives and dies with one Repository object and is for tests. ``endpoint`` None means the cloud's own. ``sse`` is how the server is
    told to encrypt, None leaves it to the bucket; ``kms_key_id`` None means the account's own key.
    """

    backend: Backend
    path: str | None = None
    bucket: str | None = None
    prefix: str = ""
    region: str | None = None
    endpoint: str | None = None
    path_style: bool = False
    allow_http: bool = False
    sse: Encryption | None = None
    kms_key_id: str | None = None

    def __str__(self) -> str:
        if self.backend == "s3":
            at = f" at {self.endpoint}" if self.endpoint else ""
            return f"s3://{self.bucket}/{self.prefix}".rstrip("/") + at
        return self.path or self.backend
