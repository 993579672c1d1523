"""The places of the pieces of one stack, and the environment that all of them share."""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from embedded import example, spark_start
from embedded.broker import start_broker
from embedded.java import find_java
from embedded.ports import HOST, free_ports
from embedded.processes import Processes
from embedded.spark_cluster import SparkCluster
from embedded.stores import Store
from streams_recovery.application.factory import open_application
from streams_recovery.application.port import InstanceState
from streams_recovery.config.loader import load_named
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.sandbox import EXAMPLE
from streams_recovery.config.sandbox_application import SandboxName, in_sandbox
from streams_recovery.storage.seals import new_private_key, public_of

PROJECT = Path(__file__).resolve().parents[1]
CONFIGS = PROJECT / "include" / "configs"
APPLICATION = "order-processing"
CONFIGURATIONS, KEY, RECORDS_KEY = "configs", "seal.key", "records.key"
Plain = dict[str, Any]
# Somebody else's Airflow and Spark; and without bytecode every process would compile all that it imports.
_NOT_INHERITED = ("AIRFLOW", "STREAMS_RECOVERY", "SPARK", "PYTHONDONTWRITEBYTECODE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Every port of a stack."""

    broker: int
    controller: int
    instances: tuple[int, int]
    airflow: int
    drill: int

    @classmethod
    def free(cls) -> Ports:
        """Ports that nobody listens on now."""
        return cls.of(free_ports(6))

    @classmethod
    def of(cls, numbers: list[int]) -> Ports:
        """From ``numbers`` as the property of that name has them."""
        broker, controller, first, second, airflow, drill = numbers
        return cls(broker=broker, controller=controller, instances=(first, second), airflow=airflow, drill=drill)

    @property
    def numbers(self) -> list[int]:
        """All of them, in one order."""
        return [self.broker, self.controller, *self.instances, self.airflow, self.drill]


def sealed(plain: Plain, key: Path, store: Store | None) -> Plain:
    """A configuration whose repository is in this store, and sealed with the key in this file, which is made when it is not there."""
    if not key.exists():
        key.parent.mkdir(parents=True, exist_ok=True)
        key.touch(mode=0o600)
        key.write_text(new_private_key()[0])
    # Without a store it is a directory; variables of other backends are left out.
    storage = {name: plain["storage"][name] for name in ("backend", "path")} if store is None else store.section
    return {**plain, "storage": {**storage, "seal": {"public_keys": [public_of(key.read_text())], "key_file": str(key)}}}


def encryption(key: Path) -> Plain:
    """The section for records that are encrypted with the key in this file, which is made when it is not there."""
    if not key.exists():
        key.touch(mode=0o600)
        key.write_text(base64.b64encode(os.urandom(32)).decode())
    return {"keys": [{"key": "local", "key_file": str(key)}]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """One stack below ``directory``. Nothing is written elsewhere, the jar cache aside. ``schedule`` is a cron expression for savepoints. One that is only to
    be stopped (``starts`` false) does without the example's program: it may not even compile any more. Without a cluster of Spark jobs run with a local
    master. Savepoints ``by_names`` are taken in mode ``live`` and have the outputs too: those come back with the state where the cluster is lost.
    They are files below ``directory``, or in the ``store``; with ``encrypted`` their records are encrypted with a key in a file.
    """

    directory: Path
    ports: Ports
    guarantee: str
    schedule: str = "none"
    starts: bool = True
    spark: SparkCluster | None = None
    by_names: bool = False
    store: Store | None = None
    encrypted: bool = False

    @property
    def bootstrap(self) -> str:
        """The broker's address."""
        return f"{HOST}:{self.ports.broker}"

    @property
    def client_settings(self) -> Mapping[str, str]:
        """What those need who feed the application, beside the address: nothing, for nobody is asked who they are."""
        return {}

    @property
    def master(self) -> str:
        """The address that Spark's jobs are submitted to."""
        return self.spark.url if self.spark else "local[2]"

    @property
    def variables(self) -> dict[str, str]:
        """The variables by which configuration files, connections and Spark find this stack."""
        return {
            "STREAMS_RECOVERY_STACK": str(self.directory),
            "STREAMS_RECOVERY_HOME": str(PROJECT),
            "STREAMS_RECOVERY_CONFIG_DIR": str(self.configs()),
            "STREAMS_RECOVERY_BOOTSTRAP": self.bootstrap,
            "STREAMS_RECOVERY_GUARANTEE": self.guarantee,
            "STREAMS_RECOVERY_SCHEDULE": self.schedule,
            "STREAMS_RECOVERY_VERIFY_SCHEDULE": "none",
            "STREAMS_RECOVERY_EXPIRE_SCHEDULE": "none",
            **({"ORDER_PROCESSING_CONSISTENCY_MODE": "live"} if self.by_names else {}),
            **(example.variables() if self.starts else {}),
            "ORDER_PROCESSOR_1_PORT": str(self.ports.instances[0]),
            "ORDER_PROCESSOR_2_PORT": str(self.ports.instances[1]),
            "ORDER_PROCESSOR_DRILL_PORT": str(self.ports.drill),
            "STREAMS_RECOVERY_DRILL_SCHEDULE": "none",
            # Its inputs are not archived, so the first run of that schedule, at once, could only find that there is nothing.
            "STREAMS_RECOVERY_REPROCESS": "false",
            "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": self.bootstrap}}),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": self.master, "extra": {"deploy-mode": "client"}}),
            **(self.store.variables if self.store else {}),
        }

    @property
    def environment(self) -> dict[str, str]:
        """A whole environment for a child process: this one's without anybody else's Airflow, and the stack's variables."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)}
        return {
            **inherited,
            **self.variables,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), str(find_java().parent), os.environ.get("PATH", "")]),
            "PYTHONPATH": os.pathsep.join([str(PROJECT / "plugins"), str(PROJECT)]),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": HOST,
            **spark_start.environment(),
            **(self.spark.variables if self.spark else {}),
        }

    def config(self) -> ApplicationConfig:
        """The example application's configuration in this stack."""
        return load_named(APPLICATION, self.configs(), {**os.environ, **self.variables})

    def configs(self) -> Path:
        """The directory of its configuration files, which is made when it is first asked for."""
        directory = self.directory / CONFIGURATIONS
        if not directory.exists():
            first = sealed(yaml.safe_load((CONFIGS / f"{APPLICATION}.yaml").read_text()), self.directory / KEY, self.store)
            if self.encrypted:
                first["storage"]["encryption"] = encryption(self.directory / RECORDS_KEY)
            first["runs"]["process"]["working_directory"] = str(PROJECT)
            if self.spark is not None:
                first["spark"]["always"] = True  # its workers are there to be seen at work
            if self.by_names:
                first["topics"]["include"] = first["topics"]["outputs"]
            files = self._configurations(first)
            directory.mkdir(parents=True)
            for name, plain in files.items():
                # JSON is YAML in which every text is quoted: a variable without a value stays a text.
                (directory / f"{name}.yaml").write_text(json.dumps(plain))
        return directory

    def _configurations(self, first: Plain) -> dict[str, Plain]:
        """The content of each file, by its name; ``first`` is the example's."""
        return {APPLICATION: first}

    def stop_application(self) -> list[str]:
        """Stop every instance of the example application, and those of a drill or an interval that failed. Returns the names of those that lived."""
        stopped, own = [], self.config()
        slots = range(own.reprocess.parallel) if own.reprocess is not None and own.reprocess.enabled else ()
        # Whichever interval it was, its instances are known by their slot.
        sandboxes = [SandboxName(application=own.name), *(SandboxName(application=own.name, interval=EXAMPLE, slot=slot) for slot in slots)]
        for config in (own, *(in_sandbox(own, name) for name in sandboxes)):
            application = open_application(config.runs, config.application.id)
            stopped += [status.name for status in application.status() if status.state is not InstanceState.GONE]
            application.stop(timeout=30)
        return stopped

    def start_broker(self, processes: Processes) -> None:
        start_broker(processes, self.directory / "broker", port=self.ports.broker, controller_port=self.ports.controller)
