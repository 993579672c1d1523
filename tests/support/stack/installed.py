"""An Airflow as somebody else has it: an environment of its own with the wheel, one configuration file, and nothing of this checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedded.airflow import Airflow
from embedded.java import find_java
from embedded.processes import Processes
from embedded.stack import APPLICATION, CONFIGS, Stack
from streams_recovery.config import reading
from streams_recovery.config.loader import load
from streams_recovery.config.model import ApplicationConfig
from tests.support.project import PROJECT
from tests.support.wheel import build_wheel

_KEPT = ("LANG", "TZ", "USER", "JAVA_HOME")
# Written into the plugins folder of that Airflow: each task finds a home and a temporary directory that nobody has used before, and that are gone
# when it ends, as in a pod of its own.
_FRESH_MACHINES = """
import os, shutil, sys, tempfile
from pathlib import Path

from airflow.listeners import hookimpl
from airflow.sdk.plugins_manager import AirflowPlugin


@hookimpl
def on_task_instance_running(previous_state, task_instance):
    place = Path(os.environ["FRESH_MACHINES"]) / task_instance.dag_id / f"{task_instance.task_id}-{os.getpid()}"
    for variable in ("HOME", "TMPDIR"):
        (place / variable).mkdir(parents=True)
        os.environ[variable] = str(place / variable)
    tempfile.tempdir = None


@hookimpl
def on_task_instance_success(previous_state, task_instance):
    _end()


@hookimpl
def on_task_instance_failed(previous_state, task_instance, error):
    _end()


def _end():
    if os.environ["TMPDIR"].startswith(os.environ["FRESH_MACHINES"]):
        for variable in ("HOME", "TMPDIR"):
            shutil.rmtree(os.environ[variable], ignore_errors=True)


class FreshMachines(AirflowPlugin):
    name = "fresh_machines"
    listeners = [sys.modules[__name__]]
"""


class Installed(Stack):
    """A stack whose application is described by one file below Airflow's home, with no variables in it, and whose connections are URIs."""

    @property
    def home(self) -> Path:
        """Airflow's home, where an installed package looks for configurations."""
        return self.directory / "airflow"

    @property
    def variables(self) -> dict[str, str]:
        """The connections; the one for Kafka was written for other tools too."""
        return {
            "AIRFLOW_CONN_KAFKA_DEFAULT": f"kafka://{self.bootstrap}?group.id=another-tool&auto.offset.reset=latest",
            "AIRFLOW_CONN_SPARK_DEFAULT": "spark://local%5B2%5D?deploy-mode=client",
        }

    def config(self) -> ApplicationConfig:
        """The application of that file, which is written when it is first asked for."""
        file = self.home / "include" / "configs" / f"{APPLICATION}.yaml"
        if not file.exists():
            file.parent.mkdir(parents=True)
            # JSON is YAML.
            file.write_text(json.dumps(self._plain(), indent=2))
        return load(file, {})

    def _plain(self) -> dict[str, Any]:
        variables = {name: value for name, value in super().variables.items() if not name.startswith("AIRFLOW")}
        plain = reading.read((CONFIGS / f"{APPLICATION}.yaml").read_bytes(), variables).data
        del plain["drill"], plain["reprocess"], plain["runs"]["command"]
        plain["storage"] = {"backend": "filesystem", "path": str(self.directory / "repository")}
        plain["runs"]["process"]["working_directory"] = str(self.directory)
        return plain


@dataclass(frozen=True, slots=True)
class Environment:
    """A Python environment that was made for one test."""

    directory: Path

    def program(self, name: str) -> str:
        """A program in it."""
        return str(self.directory / "bin" / name)

    @classmethod
    def make(cls, directory: Path) -> Environment:
        """A stock Airflow of the locked version with the wheel, as pip would resolve it with Airflow's constraints: ranges of the wheel, versions of
        the lock.
        """
        found, uv = cls(directory / "environment"), str(Path(sys.executable).with_name("uv"))
        constraints = directory / "constraints.txt"
        constraints.write_text("\n".join(locked_versions()))
        airflow = next(line for line in locked_versions() if line.startswith("apache-airflow=="))
        _run([uv, "venv", "--quiet", "--python", sys.executable, str(found.directory)])
        packages = [airflow, str(build_wheel(directory / "dist"))]
        _run(
            [uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", found.program("python"), "-c", str(constraints), *packages]
        )
        return found


def locked_versions() -> list[str]:
    """What the lock file says, without the hashes."""
    lines = (PROJECT / "requirements.lock").read_text().splitlines()
    return [line.removesuffix("\\").strip() for line in lines if line[:1].isalnum()]


class InstalledAirflow(Airflow):
    """The services of that environment. DAGs come from the bundle that the wheel brings."""

    def __init__(self, stack: Installed, processes: Processes, environment: Environment) -> None:
        super().__init__(stack, processes)
        self._stack, self._python, self._installed = stack, environment.program("python"), environment
        self.machines = stack.directory / "machines"

    def services(self) -> dict[str, list[str]]:
        """As ``airflow standalone`` has them."""
        command = [self._python, "-m", "airflow"]
        quiet = {"scheduler": ["--skip-serve-logs"], "triggerer": ["--skip-serve-logs"]}
        return {name: [*command, name, *quiet.get(name, ())] for name in ("api-server", "scheduler", "dag-processor", "triggerer")}

    def prepare(self, environment: dict[str, str]) -> None:
        """A database, an empty DAGs folder, and a plugins folder with one plugin that is not ours."""
        for name in ("dags", "plugins"):
            (self._stack.home / name).mkdir()
        (self._stack.home / "plugins" / "fresh_machines.py").write_text(_FRESH_MACHINES)
        _run([self._python, "-m", "airflow", "db", "migrate"], environment=environment, cwd=self._stack.home)

    def environment(self) -> dict[str, str]:
        """Nothing of this process's own but where programs are."""
        settings = {name: value for name, value in super().environment().items() if name.startswith("AIRFLOW_")}
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        folders = {name: str(self._stack.directory / name) for name in ("user", "temporary")}
        for folder in folders.values():
            Path(folder).mkdir(exist_ok=True)
        local, ours = "airflow.dag_processing.bundles.local.LocalDagBundle", "streams_recovery.provider.bundle.RecoveryDagBundle"
        bundles = [{"name": name, "classpath": path, "kwargs": {}} for name, path in (("dags-folder", local), ("streams-recovery", ours))]
        return {
            **kept,
            **settings,
            **self._stack.variables,
            "PATH": os.pathsep.join([str(self._installed.directory / "bin"), str(find_java().parent), "/usr/bin", "/bin"]),
            "HOME": folders["user"],
            "TMPDIR": folders["temporary"],
            "FRESH_MACHINES": str(self.machines),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self._stack.home / "dags"),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(self._stack.home / "plugins"),
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles),
        }

    def command(self, *arguments: str) -> str:
        """What ``streams-recovery`` of that environment prints, in a directory of the user's."""
        return _run([self._installed.program("streams-recovery"), *arguments], environment=self.environment(), cwd=self._stack.home)

    def python(self, code: str) -> str:
        """What Python of that environment prints for ``code``."""
        return _run([self._python, "-c", code], environment=self.environment(), cwd=self._stack.home)


def _run(command: list[str], *, environment: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    done = subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout
