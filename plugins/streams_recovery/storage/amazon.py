"""Amazon's own client, for what the object-store library cannot ask for: locks and versions."""

from __future__ import annotations

from typing import Any

import boto3
from botocore.config import Config

from streams_recovery.core.errors import RepositoryUnavailable
from streams_recovery.core.repository.location import StorageLocation
from streams_recovery.storage.credentials import StorageCredentials


def amazon_client(where: StorageLocation, keys: StorageCredentials | None) -> Any:
    """A client for the bucket's server. Asks nothing yet."""
    return boto3.client(
        "s3",
        # The other library wants the bucket in the endpoint's name where it is not in the path; this one puts it there itself.
        endpoint_url=where.endpoint and where.endpoint.replace(f"//{where.bucket}.", "//", 1),
        region_name=where.region or "us-east-1",
        aws_access_key_id=keys.access_key_id if keys else None,
        aws_secret_access_key=keys.secret_access_key if keys else None,
        aws_session_token=keys.session_token if keys else None,
        config=Config(
            s3={"addressing_style": "path" if where.path_style else "virtual"},
            connect_timeout=10,
            read_timeout=30,
            retries={"mode": "standard", "total_max_attempts": 5},
        ),
    )


def unavailable(where: StorageLocation, question: str, error: Exception) -> RepositoryUnavailable:
    """The error of a server that does not answer a question."""
    return RepositoryUnavailable(
        f"{question} of {where} failed: {str(error)[:300]}", next_step="check that the store can be reached, then run again"
    )
