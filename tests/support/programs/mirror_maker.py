"""MirrorMaker 2, as Kafka ships it. ``python -m tests.support.programs.mirror_maker`` writes the lock file of its jars anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from embedded.jars import JarSet, jar_files, write_lock
from embedded.java import QUICK, find_java
from embedded.processes import Processes

# The newest that resolves: there is a connect-runtime 4.4.0, and no connect-mirror beside it. It brings its own clients, and mirrors brokers of any version.
_VERSION: Final = "4.3.1"
MIRROR: Final = JarSet(
    name=f"kafka-mirror-{_VERSION}",
    modules=(("org.apache.kafka", "connect-mirror", _VERSION), ("org.apache.kafka", "connect-runtime", _VERSION)),
    lock=Path(__file__).with_name("mirror_maker.lock"),
    megabytes=34,
)
IDENTITY: Final = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
# One broker on each side, and what takes minutes at work is to be seen in seconds.
_SETTINGS: Final = {
    "replication.factor": 1,
    "offset-syncs.topic.replication.factor": 1,
    "heartbeats.topic.replication.factor": 1,
    "checkpoints.topic.replication.factor": 1,
    "config.storage.replication.factor": 1,
    "offset.storage.replication.factor": 1,
    "status.storage.replication.factor": 1,
    "offset.storage.partitions": 1,
    "status.storage.partitions": 1,
    "refresh.topics.interval.seconds": 2,
    "sync.topic.acls.enabled": "false",
    "emit.heartbeats.enabled": "false",
    "emit.checkpoints.enabled": "false",
    "refresh.groups.enabled": "false",
}


@dataclass(frozen=True, kw_only=True)
class Flow:
    """One mirror: from ``source``, an alias with its address, to ``target``. ``topics`` is a pattern, ``settings`` go over the usual ones."""

    source: tuple[str, str]
    target: tuple[str, str]
    topics: str
    settings: Mapping[str, str]


def start_mirror(processes: Processes, name: str, directory: Path, flow: Flow) -> None:
    """Start MirrorMaker under this name. Where it has come to is kept by the target, so that one that is started anew goes on."""
    (source, source_address), (target, target_address) = flow.source, flow.target
    settings = {
        "clusters": f"{source}, {target}",
        f"{source}.bootstrap.servers": source_address,
        f"{target}.bootstrap.servers": target_address,
        f"{source}->{target}.enabled": "true",
        f"{source}->{target}.topics": flow.topics,
        f"{target}->{source}.enabled": "false",
        **_SETTINGS,
        **flow.settings,
    }
    path = directory / f"{name}.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    # What a mirror logs with is among the broker's jars.
    loggers = [jar for jar in jar_files() if jar.name.startswith("slf4j-simple")]
    class_path = ":".join(map(str, (*jar_files(MIRROR), *loggers)))
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    processes.start(
        name, [str(find_java()), "-Xmx512m", *QUICK, quiet, "-cp", class_path, "org.apache.kafka.connect.mirror.MirrorMaker", str(path)]
    )


if __name__ == "__main__":
    write_lock(MIRROR)
