"""One Kafka broker, KRaft, on loopback."""

from __future__ import annotations

import base64
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from confluent_kafka.admin import AdminClient

from embedded import broker_classes, class_archive
from embedded.jars import JarSet, jar_files
from embedded.java import QUICK, find_java
from embedded.ports import HOST, free_ports, require_free
from embedded.processes import Processes
from streams_recovery.core.errors import ApplicationNotReady, ConfigInvalid

_START_SECONDS = 180.0

# One node has nothing to replicate to, few partitions start faster, and what a cluster does every few minutes is to be seen in seconds.
_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={logs}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
log.retention.check.interval.ms=1000
log.cleaner.backoff.ms=1000
log.segment.delete.delay.ms=1000
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerExtras:
    """The differences of a broker from the plain one. ``settings`` go over the usual ones (a text with ``{host}``, ``{port}`` or ``{controller}``
    gets this broker's), ``format_arguments`` to the tool that formats its directory, ``client`` is how a client must connect. ``jars`` are another Kafka's
    than the embedded one, ``plugins`` jars with classes that the settings name.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    format_arguments: tuple[str, ...] = ()
    client: Mapping[str, str] = field(default_factory=dict)
    jars: JarSet | None = None
    plugins: tuple[Path, ...] = ()


def start_broker(processes: Processes, directory: Path, *, port: int, controller_port: int, extras: BrokerExtras | None = None) -> str:
    """Start a broker on ``port``, on the data of ``directory`` if there is some, and return its address once it answers. Where nothing was prepared it
    first makes an archive of a broker's classes, which takes longer.
    """
    extras = extras or BrokerExtras()
    jvm = QUICK if extras.jars else class_archive.options(broker_classes.program(), EXERCISE)
    return _start(processes, directory, (port, controller_port), jvm, extras)


def _start_anywhere(processes: Processes, directory: Path, jvm: Sequence[str]) -> str:
    port, controller = free_ports(2)
    return _start(processes, directory, (port, controller), jvm, BrokerExtras())


EXERCISE = partial(broker_classes.exercise, _start_anywhere)


def _start(processes: Processes, directory: Path, ports: tuple[int, int], jvm: Sequence[str], extras: BrokerExtras) -> str:
    port, controller = ports
    require_free(port, "the broker")
    require_free(controller, "the broker's controller")
    directory.mkdir(parents=True, exist_ok=True)
    settings = directory / "server.properties"
    # Of a key that comes twice the last one counts.
    text = _SETTINGS + "".join(f"{key}={value}\n" for key, value in extras.settings.items())
    settings.write_text(text.format(host=HOST, port=port, controller=controller, logs=directory / "logs"))
    if not (directory / "logs" / "meta.properties").exists():
        # The archive that is to be written is the broker's.
        _format(_java([option for option in jvm if not option.startswith(class_archive.WRITES)], extras), settings, extras)
    processes.start("broker", [*_java(jvm, extras), "kafka.Kafka", str(settings)])
    address = f"{HOST}:{port}"
    _await_answer(processes, address, extras.client)
    return address


def _java(jvm: Sequence[str], extras: BrokerExtras) -> list[str]:
    logged = [
        f"-Dorg.slf4j.simpleLogger.{option}" for option in ("defaultLogLevel=warn", "showDateTime=true", "dateTimeFormat=HH:mm:ss.SSS")
    ]
    # An archive of classes takes a class path that begins as its own does.
    program = broker_classes.program().class_path if extras.jars is None else jar_files(extras.jars)
    return [str(find_java()), "-Xmx512m", *jvm, *logged, "-cp", ":".join(map(str, (*program, *extras.plugins)))]


def _cluster_id() -> str:
    # Without the first bit the text never begins with a dash, which the tool would take for an option.
    first, *rest = uuid.uuid4().bytes
    return base64.urlsafe_b64encode(bytes([first & 0x7F, *rest])).decode().rstrip("=")


def _format(java: list[str], settings: Path, extras: BrokerExtras) -> None:
    command = [*java, "kafka.tools.StorageTool", "format", "-t", _cluster_id(), "-c", str(settings), *extras.format_arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ConfigInvalid(f"the broker's directory cannot be formatted: {done.stderr[-500:]}", next_step="check the disk and its rights")


def _await_answer(processes: Processes, address: str, how: Mapping[str, str]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    client = AdminClient({**how, "bootstrap.servers": address, "log_level": 0, "reconnect.backoff.max.ms": 250})
    while time.monotonic() < deadline:
        processes.check("broker")
        try:
            client.list_topics(timeout=1.0)
        except Exception:  # noqa: BLE001, S112 - any answer but success means: not yet
            continue
        return
    raise ApplicationNotReady(f"the broker at {address} did not answer in {_START_SECONDS:.0f} s", next_step="see broker.log")
