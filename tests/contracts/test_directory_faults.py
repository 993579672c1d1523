"""A directory that may not be changed, and a disk that is full: what is there stays, nothing half written is left, and the next run is fine."""

from __future__ import annotations

import os
import resource
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from embedded.stores.s3 import CREDENTIALS
from streams_recovery.core.errors import NoRoom
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.storage.repository import Repository
from tests.support.project import PROJECT
from tests.support.repository.golden import FIRST
from tests.support.repository.golden_place import GOOD, approval_of, command, environment, write_config

# Root may write everywhere; without this right it is a user like others.
OBEDIENT = ("setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner") if os.geteuid() == 0 else ()
PLENTY, LITTLE = resource.RLIM_INFINITY, 300_000
WRITES = """
import sys
from pathlib import Path
from streams_recovery.core.errors import RecoveryError
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.storage.repository import Repository
repository = Repository(StorageLocation(backend="filesystem", path=sys.argv[1]))
try:
    repository.put_file("segments/big.parquet", Path(sys.argv[2]))
    repository.create("manifest", b"the segment is there")
except RecoveryError as error:
    print(type(error).__name__, error)
    sys.exit(error.exit_code)
"""
COPIES = """
import sys
from pathlib import Path
import numpy, pyarrow
from streams_recovery.segments.schema import SEGMENT_SCHEMA
from streams_recovery.segments.files import write_segment
def batches():
    for start in range(0, 100_000, 10_000):
        rows = 10_000
        values = [numpy.random.bytes(100) for _ in range(rows)]
        offsets = pyarrow.array(range(start, start + rows), pyarrow.int64())
        kinds = pyarrow.array([0] * rows, SEGMENT_SCHEMA.field("timestamp_type").type)
        headers = pyarrow.nulls(rows, SEGMENT_SCHEMA.field("headers").type)
        columns = [offsets, offsets, kinds, pyarrow.array(values), pyarrow.array(values), headers]
        yield pyarrow.record_batch(columns, schema=SEGMENT_SCHEMA)
print(write_segment(batches(), Path(sys.argv[1]) / "segment.parquet", compression_level=1))
"""


@pytest.fixture
def read_only(tmp_path: Path):
    """A good repository whose savepoints and segments may be read and not changed."""
    if OBEDIENT and shutil.which(OBEDIENT[0]) is None:
        pytest.skip("NOT checked: root needs setpriv to become somebody who may not write everywhere")
    shutil.copytree(GOOD, tmp_path / "repository")
    write_config(tmp_path, StorageLocation(backend="filesystem", path=str(tmp_path / "repository")))
    folders = [path for path in (tmp_path / "repository" / "golden").rglob("*") if path.is_dir()]
    for path in folders:
        path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    yield tmp_path
    for path in folders:
        path.chmod(stat.S_IRWXU)


@pytest.mark.deep
def test_expiry_in_a_directory_that_may_not_be_changed_names_what_stays_and_exits_with_8(read_only: Path) -> None:
    before = sorted(path for path in (read_only / "repository").rglob("*.*") if "locks" not in path.parts)
    approval = approval_of(read_only, environment(CREDENTIALS), "expire", "golden", prefix=OBEDIENT)
    done = command(read_only, environment(CREDENTIALS), "expire", "golden", "--approve", approval, prefix=OBEDIENT)
    assert done.returncode == 8, done
    assert "0 savepoints expired, 0 files removed, 1 could not be removed" in done.stdout
    assert f"{FIRST}/manifest.json.zst: deleting" in done.stderr
    assert "is not allowed" in done.stderr
    assert "Permission denied" in done.stderr
    after = sorted(path for path in (read_only / "repository").rglob("*.*") if not {"locks", "expired", "status"} & set(path.parts))
    assert after == before


def test_a_directory_that_may_not_be_written_is_no_passing_failure(read_only: Path) -> None:
    done = child(WRITES, str(read_only / "repository" / "golden"), __file__, limit=PLENTY, prefix=OBEDIENT)
    assert done.returncode == 2, done
    assert "ConfigInvalid" in done.stdout
    assert "is not allowed" in done.stdout


def child(program: str, *arguments: str, limit: int, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """A process whose files may not grow beyond ``limit`` bytes: for it, the disk is full there."""
    return subprocess.run(
        [*prefix, sys.executable, "-c", program, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(PROJECT / "plugins"), str(PROJECT)])},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.getrlimit(resource.RLIMIT_FSIZE)[1])),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def files(place: Path) -> list[Path]:
    return [path for path in place.rglob("*") if path.is_file()]


@pytest.mark.fault("F13")
def test_a_full_disk_leaves_no_manifest_and_nothing_half_written(tmp_path: Path) -> None:
    (tmp_path / "segment").write_bytes(bytes(LITTLE * 2))
    place = tmp_path / "repository"
    full = child(WRITES, str(place), str(tmp_path / "segment"), limit=LITTLE)
    assert full.returncode == 2, full
    assert "NoRoom uploading segments/big.parquet" in full.stdout
    assert "make room there" in full.stdout
    assert files(place) == [], "not even a part under another name"
    again = child(WRITES, str(place), str(tmp_path / "segment"), limit=PLENTY)
    assert again.returncode == 0, again
    assert {path.name: path.stat().st_size for path in files(place)} == {"big.parquet": LITTLE * 2, "manifest": 20}


@pytest.mark.fault("F13")
def test_a_full_disk_under_the_task_is_no_short_segment(tmp_path: Path) -> None:
    full = child(COPIES, str(tmp_path), limit=LITTLE)
    assert full.returncode == 1, full
    assert "OSError" in full.stderr
    assert "File too large" in full.stderr
    assert full.stdout == ""


def test_a_full_file_system(tmp_path: Path) -> None:
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(place)], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("NOT checked: only root can make a small file system")
    try:
        repository = Repository(StorageLocation(backend="filesystem", path=str(place)))
        with pytest.raises(NoRoom, match=r"No space left.*make room there"):
            repository.create("big", bytes(2 << 20))
        assert files(place) == []
        repository.create("small", bytes(1 << 19))
        assert list(repository.keys("")) == ["small"]
    finally:
        subprocess.run(["umount", str(place)], check=True)
