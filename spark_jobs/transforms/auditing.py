"""Auditing: every file is fetched, hashed, decoded and compared with what its manifests say of it."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession

from spark_jobs.access import Access
from spark_jobs.transforms.archive import fetch
from spark_jobs.transforms.spread import spread
from streams_recovery.core.audit import AuditResult, AuditSpec, FileAudited, FileToAudit, content_problems
from streams_recovery.core.errors import Damaged, NotFound
from streams_recovery.storage.repository import Repository


def audit_files(spark: SparkSession, spec: AuditSpec, access: Access) -> AuditResult:
    """Read every file, one task each, the biggest first. A damaged file is a result, not an error."""
    started = time.monotonic()
    files = sorted(spec.files, key=lambda wanted: -wanted.file.bytes)
    audited = spread(spark, files, lambda wanted: audit_file(access.repository(), wanted), FileAudited)
    return AuditResult(files=tuple(audited), seconds=time.monotonic() - started)


def audit_file(repository: Repository, wanted: FileToAudit) -> FileAudited:
    """One file. Needs local space for it and memory for one batch. Network errors pass: they say nothing about the file."""
    # Parquet reading is shared with the Kafka ring, whose client a driver does not have.
    from streams_recovery.kafka.segments import contents_of  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="streams-recovery-") as directory:
        path = Path(directory) / "segment.parquet"
        try:
            fetch(repository, wanted.file, path)
            seen, ascending = contents_of(path, key=wanted.file.key)
        except (Damaged, NotFound) as error:
            return FileAudited(key=wanted.file.key, rows=0, problems=(error.reason,))
    return FileAudited(key=wanted.file.key, rows=seen.rows, problems=content_problems(wanted, seen, ascending=ascending))
