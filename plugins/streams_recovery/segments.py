"""Asking a segment in the repository for what its manifest entry does not say."""

from __future__ import annotations

import pyarrow.compute as pc
import pyarrow.parquet as pq

from streams_recovery.core.manifest import SegmentFile
from streams_recovery.storage.repository import Repository


def rows_below(repository: Repository, file: SegmentFile, offset: int) -> int:
    """How many rows of a segment have an offset below ``offset``. Reads the offset column only. Raises ``NotFound``."""
    with pq.ParquetFile(repository.open(file.key)) as parquet:
        return int(sum(pc.sum(pc.less(batch.column(0), offset)).as_py() or 0 for batch in parquet.iter_batches(columns=["offset"])))
