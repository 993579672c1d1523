"""The kinds of buckets: one file each, and this table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streams_recovery.core.repository.layout import Backend
from streams_recovery.storage.backends.azure import AzureContainer
from streams_recovery.storage.backends.google import GoogleBucket
from streams_recovery.storage.backends.port import BucketKind
from streams_recovery.storage.backends.s3 import S3Bucket

BUCKETS: Final[Mapping[Backend, BucketKind]] = {"s3": S3Bucket(), "gcs": GoogleBucket(), "azure": AzureContainer()}
