"""More replicas for the partitions of a topic, on the brokers that have the fewest."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Final

from streams_recovery.core.next_command import shell
from streams_recovery.core.status.advice.facts import AdviceFacts, AdviceTopic

# A command of more partitions is no command that anybody reads.
_MOST_PARTITIONS: Final = 60

Placement = tuple[tuple[int, ...], ...]


def add_replicas(facts: AdviceFacts, topic: AdviceTopic, wanted: int) -> tuple[str, ...]:
    """The commands that write the plan of the reassignment and carry it out. None for a topic of very many partitions."""
    if len(topic.replicas) > _MOST_PARTITIONS:
        return ()
    placed = widened(topic.replicas, facts.broker_ids, wanted)
    plan = {
        "version": 1,
        "partitions": [{"topic": topic.name, "partition": number, "replicas": list(brokers)} for number, brokers in enumerate(placed)],
    }
    file = f"add-replicas-{topic.name}.json"
    connect = ("--bootstrap-server", facts.bootstrap_servers, "--command-config", "admin.properties")
    return (
        f"echo {shell(json.dumps(plan, separators=(',', ':')))} > {file}",
        shell("kafka-reassign-partitions.sh", *connect, "--reassignment-json-file", file, "--execute"),
    )


def widened(placed: Sequence[Sequence[int]], brokers: Sequence[int], wanted: int) -> Placement:
    """The same placement with ``wanted`` replicas of each partition. Those that are there stay, and the leader stays first; new ones go to the brokers with
    the fewest.
    """
    load = Counter(dict.fromkeys(brokers, 0))
    load.update(broker for replicas in placed for broker in replicas)
    found = []
    for replicas in placed:
        more = list(replicas)
        while len(more) < wanted and (free := [broker for broker in brokers if broker not in more]):
            least = min(free, key=lambda broker: (load[broker], broker))
            load[least] += 1
            more.append(least)
        found.append(tuple(more))
    return tuple(found)
