"""Losing everything: the demonstration's reason to exist."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable

from embedded.processes import Processes
from embedded.stack import Stack
from streams_recovery.application.port import InstanceState
from streams_recovery.core.names import internal_role
from streams_recovery.operations.context import RecoveryContext


def kill_processes(recovery: RecoveryContext) -> None:
    """End every instance that is a process of this machine, without a word to it."""
    for status in recovery.application.status():
        if status.state is not InstanceState.GONE:
            os.kill(int(status.detail.split("pid ")[1].split()[0].rstrip(",;")), signal.SIGKILL)


def destroy(recovery: RecoveryContext, kill: Callable[[RecoveryContext], None] = kill_processes) -> list[str]:
    """Kill every instance, delete every internal topic and the consumer group, wipe local state. Returns the topics that were deleted."""
    kill(recovery)
    while any(status.state is not InstanceState.GONE for status in recovery.application.status()):
        time.sleep(0.2)
    group = recovery.groups.describe(recovery.application_id)
    recovery.groups.evict(recovery.application_id, group.members)
    recovery.groups.wait_empty(recovery.application_id, timeout=30)
    topics = [topic for topic in recovery.cluster.topic_names() if internal_role(topic, recovery.application_id)]
    recovery.cluster.delete_topics(topics)
    recovery.groups.delete(recovery.application_id)
    recovery.application.wipe_state()
    return topics


def destroy_cluster(stack: Stack, processes: Processes, recovery: RecoveryContext) -> None:
    """Kill every instance and the broker, and erase its disk. An empty cluster takes its place."""
    kill_processes(recovery)
    os.kill(processes.recorded()["broker"][0], signal.SIGKILL)
    processes.stop("broker")
    shutil.rmtree(stack.directory / "broker")
    stack.start_broker(processes)
