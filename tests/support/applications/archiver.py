"""An archiver in the session of the tests, beside what a test does."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from spark_jobs.transforms import archiver
from streams_recovery.core.archive.log import Archive
from streams_recovery.core.archive.tick import ArchiveSpec
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.waiting import poll
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.named_transactions import impatient_named_logs
from streams_recovery.operations import archive
from streams_recovery.operations.context import RecoveryContext
from tests.support.applications.restore_steps import access_of
from tests.support.applications.small import Small, configured, surviving
from tests.support.spark.session import InSession


def with_archive(small: Small, **archive: object) -> Small:
    """The application, whose configuration asks for an archive every second."""
    small = surviving(small)
    config = configured(small.recovery, archive={"enabled": True, "interval": "PT1S", **archive})
    return replace(small, recovery=replace(small.recovery, config=config))


@dataclass
class Archiver:
    """One that runs in a thread. It believes that as many seconds more have passed as it is ``ahead``."""

    recovery: RecoveryContext
    error: BaseException | None = None
    ahead: float = 0
    thread: threading.Thread | None = None

    def upto(self, tp: TopicPartition, seconds: float = 30) -> Archive:
        """Wait until all that is in a log by now is archived, and return the archive."""
        end = self.recovery.cluster.high_watermarks([tp])[tp]
        return self.once(lambda found: tp in found.logs and found.newest[tp].end >= end, seconds)

    def once(self, holds: Callable[[Archive], bool], seconds: float = 30) -> Archive:
        """Wait for an archive of which that holds, and return it."""

        def there() -> Archive | None:
            if self.error is not None:
                raise self.error
            found = archive.read_archive(self.recovery)
            return found if holds(found) else None

        found = poll(there, seconds=seconds, interval=0.1)
        assert found is not None, archive.read_archive(self.recovery)
        return found


@contextmanager
def archiving(
    recovery: RecoveryContext, session: InSession, *, clock: Callable[[], int] = archiver.wall_clock, patience: float = 60, site: str = ""
) -> Iterator[Archiver]:
    """An archiver beside the block, at this ``site``, which looks for a cut each second if it is to. At the block's end it is made to think that a day has
    passed, and hands over.
    """
    order = archive.plan_archiver(recovery, archive.begin(recovery, f"test-{uuid.uuid4().hex}"))
    found, later = Archiver(recovery), threading.Event()

    def run() -> None:
        try:
            spec = replace(recovery.artifacts.read(ArchiveSpec, order.spec), site=site)
            with ExitStack() as stack:
                cluster = stack.enter_context(KafkaCluster(lambda: recovery.connection, timeout=patience))
                logs = None
                if spec.cut_seconds is not None:
                    spec = replace(spec, cut_seconds=1.0)
                    logs = stack.enter_context(
                        impatient_named_logs(spec.application_id, recovery.connection, cluster, clock, recovery.loads)
                    )
                archiver.Archiver(
                    context=session.spark.sparkContext,
                    spec=spec,
                    logs=logs,
                    access=access_of(recovery),
                    cluster=cluster,
                    clock=clock,
                    monotonic=lambda: time.monotonic() + found.ahead + (100_000 if later.is_set() else 0),
                    sleep=lambda seconds: later.wait(min(seconds, 0.5)),
                ).run()
        except BaseException as error:  # noqa: BLE001  # the test is told
            found.error = error

    found.thread = thread = threading.Thread(target=run)
    thread.start()
    try:
        yield found
    finally:
        later.set()
        thread.join()
    if found.error is not None:
        raise found.error
