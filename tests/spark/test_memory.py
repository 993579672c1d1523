"""What a task needs of memory does not grow with its partition: one range, one Python process, its peak as the kernel counted it."""

from __future__ import annotations

import contextlib
import random
import re
import sys
import threading
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer

from streams_recovery.core.jobs.spec import BackupResult, BackupSpec, PartitionToLoad, RangeToCopy, RestoreResult, RestoreSpec
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.segment_file import SegmentFiles
from tests.support.kafka.records import end_of, topic

pytestmark = [pytest.mark.deep, pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(1800)]

MB = 1 << 20
LIMIT_MB = 600


def fill(bootstrap, name, megabytes, record_bytes):
    """Records that no compression makes smaller. Returns how many."""
    noise = random.Random(4).randbytes(8 * MB)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "batch.size": MB, "log_level": 0})
    count = megabytes * MB // record_bytes
    for number in range(count):
        at = number * 7919 % (len(noise) - record_bytes)
        while True:
            try:
                producer.produce(name, noise[at : at + record_bytes], b"%016d" % number, 0, timestamp=1 + number)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(120) == 0
    return count


class Peaks:
    """Highest resident memory of every Python worker of the jobs submitted meanwhile, in MB by pid."""

    def __init__(self):
        self.found, self._done = {}, threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self._thread.join()

    @property
    def highest(self):
        return max(self.found.values())

    def _look(self):
        while not self._done.wait(0.05):
            for process in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.Error, OSError):
                    if "pyspark.daemon" in process.cmdline() and process.parent().name().startswith("python"):
                        self.found[process.pid] = max(self.found.get(process.pid, 0), peak_mb(process))


def peak_mb(process):
    """The kernel's high-water mark where it keeps one: no moment between two looks is missed."""
    status = Path(f"/proc/{process.pid}/status")
    marked = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return int(marked[1]) // 1024 if marked else process.memory_info().rss // MB


@pytest.mark.parametrize(("megabytes", "record_bytes"), [(256, 1000), pytest.param(2048, 8000, marks=pytest.mark.deep)])
def test_a_task_s_memory_is_bounded_whatever_its_partition_holds(submit, connection, bootstrap, megabytes, record_bytes):
    with topic(connection) as source, topic(connection) as target:
        count = fill(bootstrap, source, megabytes, record_bytes)
        wanted = RangeToCopy(tp=TopicPartition(source, 0), start=0, end=count, size_hint=1)
        with Peaks() as copying:
            backup = submit(
                "backup", BackupSpec(application_id="app", ranges=(wanted,), compression_level=3), BackupResult, master="local[1]"
            )
        file = backup.ranges[0].copied.file
        assert (file.rows, file.payload_bytes) == (count, count * (record_bytes + 16))
        load = PartitionToLoad(tp=TopicPartition(target, 0), first_offset=0, files=SegmentFiles.of((file,)))
        with Peaks() as loading:
            restore = submit("restore", RestoreSpec(application_id="app", partitions=(load,)), RestoreResult, master="local[1]")
        assert restore.partitions[0].rows == count
        assert end_of(connection, TopicPartition(target, 0)) == count
    sys.stdout.write(
        f"{megabytes} MB in one partition, records of {record_bytes} B: the copying task peaked at {copying.highest} MB "
        f"({backup.seconds:.1f} s), the loading one at {loading.highest} MB ({restore.seconds:.1f} s)\n"
    )
    assert 50 < copying.highest < LIMIT_MB
    assert 50 < loading.highest < LIMIT_MB
