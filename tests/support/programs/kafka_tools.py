"""Kafka's own command line tools; what else they need is among the broker's jars. ``python -m tests.support.programs.kafka_tools`` writes their lock."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from embedded.jars import KAFKA_VERSION, JarSet, jar_files, write_lock
from embedded.java import QUICK, find_java
from streams_recovery.core.waiting import poll

TOOLS: Final = JarSet(
    name=f"kafka-command-line-{KAFKA_VERSION}",
    # Brokers need no CSV since 4.4, the tools do.
    modules=(("org.apache.kafka", "kafka-tools", KAFKA_VERSION), ("com.fasterxml.jackson.dataformat", "jackson-dataformat-csv", "2.21.7")),
    lock=Path(__file__).with_name("kafka_tools.lock"),
    megabytes=2,
    alone=True,
)


def class_path() -> tuple[Path, ...]:
    """The tools, and what they need. Downloads the tools once."""
    return (*jar_files(), *jar_files(TOOLS))


# The class that each script runs.
CLASSES: Final = {
    "kafka-acls.sh": "AclCommand",
    "kafka-configs.sh": "ConfigCommand",
    "kafka-features.sh": "FeatureCommand",
    "kafka-consumer-groups.sh": "consumer.group.ConsumerGroupCommand",
    "kafka-reassign-partitions.sh": "reassign.ReassignPartitionsCommand",
    "kafka-streams-groups.sh": "streams.StreamsGroupCommand",
    "kafka-topics.sh": "TopicCommand",
    "kafka-transactions.sh": "TransactionsCommand",
}


def ran(command: str, directory: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A command as somebody pastes it into a shell in ``directory``, run by the class that the script runs. One start takes seconds."""
    program, *arguments = shlex.split(command)
    java = [str(find_java()), *QUICK, "-cp", ":".join(map(str, class_path())), f"org.apache.kafka.tools.{CLASSES[program]}"]
    return subprocess.run([*java, *arguments], capture_output=True, text=True, check=False, timeout=120, cwd=directory)


def done(command: str, directory: Path | None = None) -> str:
    """What a command prints that has to succeed."""
    found = ran(command, directory)
    assert found.returncode == 0, f"{command}: {found.stdout}{found.stderr}"
    return found.stdout


def follow(commands: Iterable[str], directory: Path) -> None:
    """As somebody pastes them into a shell in ``directory``, one after the other. What is to be repeated until it is complete is."""
    for command in commands:
        words = shlex.split(command)
        if words[0] == "echo":
            text, arrow, file = words[1:]
            assert arrow == ">"
            (directory / file).write_text(f"{text}\n")
        elif words[-1] == "--verify":
            assert poll(lambda line=command: True if "still in progress" not in done(line, directory) else None, seconds=120)
        else:
            done(command, directory)


if __name__ == "__main__":
    write_lock(TOOLS)
