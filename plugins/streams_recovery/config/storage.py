from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, model_validator

from streams_recovery.config.fields import ConnectionId, LocalPath, Section, Switch, Text, Url
from streams_recovery.core.repository.location import Encryption, StorageLocation
from streams_recovery.core.repository.seal import public_bytes


def _public_key(value: str) -> str:
    public_bytes(value)
    return value


def _given(value: object) -> object:
    """Without those that are null: what a variable without a value leaves."""
    return [one for one in value if one is not None] if isinstance(value, list | tuple) else value


PublicKey = Annotated[Text, AfterValidator(_public_key)]


class SealSection(Section):
    """Signatures on everything that is stored. Whoever writes has the private key, in a connection's password or in a file; whoever reads needs
    ``public_keys`` only. ``enabled`` is for a variable that switches it.
    """

    enabled: Switch = True
    public_keys: Annotated[tuple[PublicKey, ...], BeforeValidator(_given)] = ()
    connection: ConnectionId | None = None
    key_file: LocalPath | None = None

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.connection is not None and self.key_file is not None:
            raise ValueError("connection and key_file both name the private key; keep one")
        if self.enabled and not self.public_keys:
            raise ValueError("public_keys is empty; `streams-recovery seal-key FILE` makes a pair of keys")
        return self


class Storage(Section):
    """The repository. Keys of the backend that is not chosen are checked but unused, so that a variable can choose between them."""

    backend: Literal["filesystem", "s3"]
    path: LocalPath | None = None
    bucket: Text | None = None
    prefix: str | None = None
    region: Text | None = None
    endpoint: Url | None = None
    connection: ConnectionId | None = None
    path_style: Switch = False
    allow_http: Switch = False
    sse: Encryption | None = None
    kms_key_id: Text | None = None
    seal: SealSection | None = None

    @property
    def location(self) -> StorageLocation:
        """Where it is, without the way to its credentials."""
        if self.backend == "filesystem":
            return StorageLocation(backend="filesystem", path=self.path)
        return StorageLocation(
            backend="s3",
            bucket=self.bucket,
            prefix=(self.prefix or "").strip("/"),
            region=self.region,
            endpoint=self.endpoint,
            path_style=self.path_style,
            allow_http=self.allow_http,
            sse=self.sse,
            kms_key_id=self.kms_key_id,
        )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        needed = "path" if self.backend == "filesystem" else "bucket"
        if getattr(self, needed) is None:
            raise ValueError(f"backend is {self.backend}, so {needed} is needed")
        if self.backend == "s3" and (self.endpoint or "").startswith("http://") and not self.allow_http:
            raise ValueError("endpoint is not encrypted; use https, or set allow_http: true where the network is trusted")
        if self.kms_key_id and self.sse != "aws:kms":
            raise ValueError("kms_key_id is used by sse: aws:kms only")
        if any(part in (".", "..") for part in (self.prefix or "").split("/")):
            raise ValueError("prefix must not contain '.' or '..'")
        return self
