"""Encrypted segments in Spark, with the key, as the page on the format says."""

import base64
import os

from streams_recovery.core.repository.encryption import DataKey
from streams_recovery.segments.files import write_segment
from tests.support.examples.rows import batch_of
from tests.support.repository.readable import code_of


def test_spark_reads_encrypted_files_as_the_page_says(spark, tmp_path):
    key = DataKey(key_id="k0000000000000001", secret=os.urandom(32))
    files = []
    for number in range(3):
        rows = [(at, b"k%d" % at, None if at % 5 == 0 else b"v", [("h", b"x")] if at % 2 else None) for at in range(1_000)]
        files.append(str(tmp_path / f"{number}.parquet"))
        write_segment([batch_of(rows, 1_000 * number)], tmp_path / f"{number}.parquet", compression_level=1, key=key)
    names = {"spark": spark, "files": files, "key": base64.b64encode(key.secret).decode()}
    exec(code_of("docs/format.md", "python", "mapInArrow"), names)
    found = names["rows"].orderBy("offset").collect()
    assert [row["offset"] for row in found] == list(range(3_000))
    assert [row["value"] is None for row in found] == [at % 5 == 0 for at in range(1_000)] * 3
    assert bytes(found[7]["key"]) == b"k7"
    assert found[7]["headers"][0]["key"] == "h"
