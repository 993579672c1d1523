"""A Spark that knows nothing of this project reads a savepoint with the code of docs/format.md."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.repository.readable import ROWS, STATE, code_of, row_of, write_savepoints

pytestmark = pytest.mark.spark

DUMP = """
import base64, json, sys

def plain(value):
    if isinstance(value, (bytes, bytearray)):
        return {"bytes": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return {name: plain(one) for name, one in value.asDict().items()} if hasattr(value, "asDict") else value

found = {"rows": [plain(row) for row in rows.collect()], "state": [plain(row) for row in state.collect()]}
found["ours"] = [name for name in sys.modules if name.split(".")[0] in ("streams_recovery", "spark_jobs")]
json.dump(found, open("found.json", "w"))
spark.stop()
"""


def told(value):
    if isinstance(value, dict):
        return base64.b64decode(value["bytes"]) if set(value) == {"bytes"} else {name: told(one) for name, one in value.items()}
    return [told(one) for one in value] if isinstance(value, list) else value


@pytest.mark.deep
def test_plain_spark_reads_every_row_and_shows_the_state(tmp_path: Path) -> None:
    write_savepoints(tmp_path)
    page = "docs/format.md"
    program = code_of(page, "python", "SET VARIABLE") + code_of(page, "python", "import SparkSession") + DUMP
    (tmp_path / "read.py").write_text(program)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHONPATH", "PYSPARK", "SPARK"))}
    settings = ["sql.shuffle.partitions=1", "ui.enabled=false", "driver.host=127.0.0.1", "driver.bindAddress=127.0.0.1"]
    options = " ".join(["--master local[1]", *(f"--conf spark.{setting}" for setting in settings)])
    environment |= {"PYSPARK_SUBMIT_ARGS": f"{options} pyspark-shell", "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "-I", "read.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["ours"] == []
    assert sorted((row_of(told(row)) for row in found["rows"]), key=lambda row: row[0]) == ROWS
    state = [told(row) for row in found["state"]]
    assert len(state) == len(STATE)
    assert {row["key"]: row["value"] for row in state} == STATE
