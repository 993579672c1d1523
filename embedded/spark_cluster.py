"""A cluster of Spark on this machine: a master and two workers of one core each, which authenticate each other and encrypt what they say."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import sys
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from embedded.java import find_java
from embedded.ports import HOST, free_ports
from embedded.processes import Processes
from streams_recovery.core.errors import ApplicationNotReady
from streams_recovery.core.waiting import poll
from streams_recovery.engine.spark_home import installed_spark

WORKERS: Final = 2
_NAMES: Final = ("HOME", "LANG")
_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkCluster:
    """A cluster: its ports, and its settings below ``directory``. Start it once; it ends with its processes."""

    directory: Path
    master_port: int
    page_port: int

    @classmethod
    def of(cls, directory: Path) -> SparkCluster:
        """One on ports that nobody listens on now, with settings and a secret of its own."""
        master, page = free_ports(2)
        made = cls(directory=directory, master_port=master, page_port=page)
        made._write_settings()
        return made

    @property
    def url(self) -> str:
        """The address that jobs are submitted to."""
        return f"spark://{HOST}:{self.master_port}"

    @property
    def variables(self) -> dict[str, str]:
        """The variables that a process needs which submits jobs."""
        return {"SPARK_CONF_DIR": str(self.directory / "conf")}

    def start(self, processes: Processes) -> None:
        """Start master and workers, and wait until they know each other. Raises ``ApplicationNotReady``."""
        ports = ("--host", HOST, "--port", str(self.master_port), "--webui-port", str(self.page_port))
        self._start(processes, "spark-master", ("org.apache.spark.deploy.master.Master", *ports))
        for number in range(1, WORKERS + 1):
            own, page = free_ports(2)
            size = ("--cores", "1", "--memory", "1g", "--work-dir", str(self.directory / "work"))
            ports = ("--host", HOST, "--port", str(own), "--webui-port", str(page))
            self._start(processes, f"spark-worker-{number}", ("org.apache.spark.deploy.worker.Worker", *ports, *size, self.url))
        if poll(self._all_known, seconds=_SECONDS, interval=0.5) is None:
            raise ApplicationNotReady("Spark's workers did not reach their master", next_step=f"see {processes.log('spark-worker-1')}")

    def _start(self, processes: Processes, name: str, command: tuple[str, ...]) -> None:
        home = installed_spark()
        processes.start(name, [str(home / "bin" / "spark-class"), *command], environment=self._environment(home), cwd=self.directory)

    def _environment(self, home: Path) -> Mapping[str, str]:
        # Tasks run with the python3 of the path: the one that has what they import.
        path = os.pathsep.join([str(Path(sys.executable).parent), str(find_java().parent), os.environ.get("PATH", "")])
        own = {name: value for name, value in os.environ.items() if name in _NAMES}
        spark = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": HOST, "SPARK_DAEMON_MEMORY": "256m", **self.variables}
        return {**own, "PATH": path, **spark}

    def _all_known(self) -> bool | None:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{HOST}:{self.page_port}/json/", timeout=5) as answer:
            found = re.search(rb'"aliveworkers"\s*:\s*(\d+)', answer.read())
            return True if found and int(found[1]) == WORKERS else None
        return None

    def _write_settings(self) -> None:
        settings = {
            "spark.authenticate": "true",
            "spark.authenticate.secret": secrets.token_hex(24),
            "spark.network.crypto.enabled": "true",
            "spark.network.crypto.saslFallback": "false",
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            # One executor on each worker, so that what runs at once runs in different processes.
            "spark.executor.cores": "1",
            "spark.executor.memory": "512m",
            "spark.cores.max": str(WORKERS),
        }
        directory = self.directory / "conf"
        directory.mkdir(parents=True, exist_ok=True)
        file = directory / "spark-defaults.conf"
        file.touch(mode=0o600)
        file.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
