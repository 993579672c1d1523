"""Losing everything: the demonstration's reason to exist."""

from __future__ import annotations

import os
import signal
import time

from streams_recovery.application.port import InstanceState
from streams_recovery.core.names import internal_role
from streams_recovery.operations.context import Workbench


def destroy(bench: Workbench) -> list[str]:
    """Kill every instance, delete every internal topic and the consumer group, wipe local state. Returns the topics that were deleted."""
    for status in bench.application.status():
        if status.state is not InstanceState.GONE:
            os.kill(int(status.detail.split("pid ")[1].split()[0].rstrip(",;")), signal.SIGKILL)
    while any(status.state is not InstanceState.GONE for status in bench.application.status()):
        time.sleep(0.2)
    group = bench.groups.describe(bench.application_id)
    bench.groups.evict(bench.application_id, group.members)
    bench.groups.wait_empty(bench.application_id, timeout=30)
    topics = [topic for topic in bench.cluster.topic_names() if internal_role(topic, bench.application_id)]
    bench.cluster.delete_topics(topics)
    bench.groups.delete(bench.application_id)
    bench.application.wipe_state()
    return topics
