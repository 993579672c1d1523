"""A real S3 server of our own, with the kinds of buckets and users that people have."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import boto3

from embedded.foreign import go_program
from embedded.ports import free_ports
from embedded.stores.listening import wait_until_listening
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.storage.credentials import StorageCredentials, access_key

SERVER = ("versitygw", "github.com/versity/versitygw/cmd/versitygw", "v1.8.0")
CREDENTIALS = access_key("test-access", "test-secret-canary")
# Everything a writer needs, and everything but the right to delete.
WRITER_MAY = ["s3:GetObject", "s3:PutObject", "s3:ListBucket"]

Kind = Literal["plain", "versioned", "compliance", "governance"]


@dataclass(frozen=True)
class S3Server:
    """A running server. Every bucket is new."""

    program: Path
    endpoint: str
    ca_file: str | None = None

    def client(self, credentials: StorageCredentials = CREDENTIALS) -> Any:
        """Amazon's own client, for what a test looks at or sets up behind the product's back."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            verify=self.ca_file,
            aws_access_key_id=credentials.options["access_key_id"],
            aws_secret_access_key=credentials.options["secret_access_key"],
        )

    def bucket(self, kind: Kind = "plain") -> StorageLocation:
        """A new bucket. Object lock holds everything that is written for a day."""
        name, client = f"test-{uuid.uuid4().hex[:12]}", self.client()
        client.create_bucket(Bucket=name, ObjectLockEnabledForBucket=kind in ("compliance", "governance"))
        if kind == "versioned":
            client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
        elif kind != "plain":
            rule = {"DefaultRetention": {"Mode": kind.upper(), "Days": 1}}
            client.put_object_lock_configuration(Bucket=name, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": rule})
        return StorageLocation(
            backend="s3",
            bucket=name,
            prefix="some/prefix",
            region="us-east-1",
            endpoint=self.endpoint,
            path_style=True,
            allow_http=self.ca_file is None,
            ca_file=self.ca_file,
        )

    def writer(self, location: StorageLocation) -> StorageCredentials:
        """A new user who may read, write and list in this bucket, and nothing else."""
        return self.user(location, WRITER_MAY)

    def user(self, location: StorageLocation, may: Sequence[str]) -> StorageCredentials:
        """A new user, and the only one, who may do this in this bucket."""
        name = f"writer-{uuid.uuid4().hex[:8]}"
        self._administer("create-user", "--access", name, "--secret", f"{name}-secret", "--role", "user")
        resources = [f"arn:aws:s3:::{location.bucket}", f"arn:aws:s3:::{location.bucket}/*"]
        statements: list[dict[str, Any]] = []
        for action in may:
            about = resources if action == "s3:*" else resources[:1] if action == "s3:ListBucket" else resources[1:]
            statements.append({"Effect": "Allow", "Principal": {"AWS": [name]}, "Action": [action], "Resource": about})
        self.client().put_bucket_policy(Bucket=location.bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": statements}))
        return access_key(name, f"{name}-secret")

    def remove(self, credentials: StorageCredentials) -> None:
        """Take a user's keys back."""
        self._administer("delete-user", "--access", credentials.options["access_key_id"])

    def _administer(self, *what: str) -> None:
        keys = ["--access", CREDENTIALS.options["access_key_id"], "--secret", CREDENTIALS.options["secret_access_key"]]
        # Its own program knows no other authorities than those of the machine.
        where = ["--endpoint-url", self.endpoint, *(["--allow-insecure"] if self.ca_file else [])]
        subprocess.run([str(self.program), "admin", *keys, *where, *what], check=True, capture_output=True, timeout=60)

    def versions(self, location: StorageLocation) -> dict[str, list[str]]:
        """Ids of the versions of every object that the bucket keeps, hidden ones too."""
        found: dict[str, list[str]] = {}
        for page in self.client().get_paginator("list_object_versions").paginate(Bucket=location.bucket):
            for version in page.get("Versions", []):
                found.setdefault(version["Key"].removeprefix(f"{location.prefix}/"), []).append(version["VersionId"])
        return found


class Signs(Protocol):
    """A certificate authority: its own certificate, and certificates with keys for servers."""

    certificate: Path

    def issue(self, name: str) -> tuple[Path, Path]: ...


def behind(location: StorageLocation, endpoint: str) -> StorageLocation:
    """The same bucket by another address."""
    return replace(location, endpoint=endpoint)


@contextmanager
def s3_server(directory: Path, authority: Signs | None = None) -> Iterator[S3Server]:
    """A server on a free loopback port, ended by its pid. With an ``authority`` it speaks TLS, and that has signed its certificate."""
    program = go_program(*SERVER)
    (port,) = free_ports(1)
    for name in ("data", "versions", "users"):
        (directory / name).mkdir()
    keys = {"ROOT_ACCESS_KEY": CREDENTIALS.options["access_key_id"], "ROOT_SECRET_KEY": CREDENTIALS.options["secret_access_key"]}
    storage = ["posix", "--versioning-dir", str(directory / "versions"), str(directory / "data")]
    encrypted = []
    if authority is not None:
        certificate, key = authority.issue("s3")
        encrypted = ["--cert", str(certificate), "--key", str(key)]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(program), "--port", f"127.0.0.1:{port}", "--iam-dir", str(directory / "users"), *encrypted, *storage],
            env={**os.environ, **keys},
            stdout=log,
            stderr=log,
        )
    try:
        wait_until_listening(process, port, directory / "log")
        if authority is None:
            yield S3Server(program=program, endpoint=f"http://127.0.0.1:{port}")
        else:
            yield S3Server(program=program, endpoint=f"https://127.0.0.1:{port}", ca_file=str(authority.certificate))
    finally:
        process.terminate()
        process.wait(timeout=60)
