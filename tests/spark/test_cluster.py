"""A real cluster of a master and a worker, with the settings of the compose stack, and somebody who listens between driver and worker."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from embedded.ports import free_ports
from streams_recovery.core import codec
from streams_recovery.core.errors import ConfigInvalid, SparkJobFailed
from streams_recovery.core.repository import check
from streams_recovery.core.repository.check import CheckSpec
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.waiting import poll
from streams_recovery.engine.spark_home import installed_spark
from streams_recovery.engine.submitter import SparkJob, SparkSubmit
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.storage.range_tables import PartitionRanges
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.savepoints import SavepointStore
from tests.support.compose_files import SECRETS, environment, outside
from tests.support.project import GOLDEN

pytestmark = [pytest.mark.spark, pytest.mark.deep, pytest.mark.timeout(1200)]

SAVEPOINT = "20261121T000000Z-0000000001"
CANARY = "canary-9c31b7"
HOST, LISTENED = "127.0.0.1", "127.0.0.2"
# Tasks run with python3: the one that has what they import.
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


@dataclass
class Listener:
    """Somebody on the way to the driver: passes everything on, and keeps it."""

    port: int
    heard: bytearray = field(default_factory=bytearray)

    def __enter__(self) -> Listener:
        self._server = socket.create_server((LISTENED, self.port))
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def _serve(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
                far = socket.create_connection((HOST, self.port))
            except OSError:
                return
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := one.recv(1 << 16):
                self.heard += piece
                other.sendall(piece)
        with contextlib.suppress(OSError):
            other.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def daemon(directory: Path, name: str, variables: Mapping[str, str], *command: str) -> Iterator[None]:
    """A daemon of Spark with the environment that compose gives it, ended by its pid."""
    home = installed_spark()
    own = {name: value for name, value in os.environ.items() if name in ("HOME", "JAVA_HOME", "LANG")}
    variables = {**own, "PATH": PATH, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": HOST, "SPARK_DAEMON_MEMORY": "256m", **variables}
    with (directory / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-class"), *command], env=variables, stdout=log, stderr=log, start_new_session=True, cwd=directory
        )
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


@contextlib.contextmanager
def cluster(directory: Path, of: Mapping[str, str]) -> Iterator[str]:
    """A master and a worker. ``of`` is their environment; yields the master's address."""
    master, master_page, worker, worker_page = free_ports(4)
    url = f"spark://{HOST}:{master}"
    masters = ("org.apache.spark.deploy.master.Master", "--host", HOST, "--port", str(master), "--webui-port", str(master_page))
    workers = ("org.apache.spark.deploy.worker.Worker", "--host", HOST, "--port", str(worker), "--webui-port", str(worker_page))
    size = ("--cores", "2", "--memory", "1g", "--work-dir", str(directory / "work"), url)
    with daemon(directory, "master", of, *masters), daemon(directory, "worker", of, *workers, *size):
        await_alive(master_page)
        yield url


def await_alive(page: int) -> None:
    """Until the master knows its worker."""

    def known() -> bool | None:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{HOST}:{page}/json/", timeout=5) as answer:
            return True if re.search(rb'"aliveworkers"\s*:\s*1', answer.read()) else None
        return None

    assert poll(known, seconds=300, interval=0.5), "the worker did not reach the master"


def compose_settings() -> dict[str, str]:
    """What the compose stack's master and workers find in their environment, with the paths of this machine."""
    found = environment("spark-worker")
    return found | {"SPARK_CONF_DIR": str(outside("spark-worker", found["SPARK_CONF_DIR"]))}


@pytest.fixture
def job(tmp_path: Path) -> SparkJob:
    """One that needs no broker, and has a secret in its closure."""
    location = StorageLocation(backend="filesystem", path=str(shutil.copytree(GOLDEN / "good", tmp_path / "repository")))
    repository = Repository(location)
    opened: dict[str, PartitionRanges] = {}
    files, _ = check.files_of([SavepointStore(repository, Layout("golden")).read(SAVEPOINT, opened)], opened)
    spec = codec.dumps(CheckSpec(application_id="golden", files=tuple(files)))
    repository.create("golden/work/run/spec.json", spec)
    return SparkJob(
        name="check",
        spec=ArtifactRef.of("golden/work/run/spec.json", spec),
        result_key="golden/work/run/result.json",
        repository=repository,
        connection=KafkaConnection(bootstrap_servers="b:1", properties={"sasl.password": CANARY}),
        credentials=None,
    )


@contextlib.contextmanager
def listening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **settings: str) -> Iterator[tuple[Listener, Listener]]:
    """A driver that is found where somebody listens, with these settings beside."""
    rpc, blocks = free_ports(2)
    defaults = {
        "spark.driver.host": LISTENED,
        "spark.driver.bindAddress": HOST,
        "spark.driver.port": str(rpc),
        "spark.driver.blockManager.port": str(blocks),
        "spark.executor.memory": "512m",
        # What is compressed cannot be searched.
        "spark.broadcast.compress": "false",
        "spark.rpc.message.maxSize": "16",
        **settings,
    }
    directory = tmp_path / "driver"
    directory.mkdir()
    (directory / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in defaults.items()))
    monkeypatch.setenv("SPARK_CONF_DIR", str(directory))
    monkeypatch.setenv("PATH", PATH)
    with Listener(rpc) as one, Listener(blocks) as other:
        yield one, other


@pytest.mark.fault("F61")
def test_with_compose_s_settings_a_job_runs_and_who_listens_hears_no_secret(
    job: SparkJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = {"spark.authenticate.secret": SECRETS["SPARK_RPC_SECRET"]}
    with cluster(tmp_path, compose_settings()) as master, listening(tmp_path, monkeypatch, **secret) as heard:
        SparkSubmit(master=master, logs=tmp_path / "logs").submit(job)
        assert job.repository.size(job.result_key)
        assert all(len(listener.heard) > 1000 for listener in heard)
        for listener in heard:
            assert CANARY.encode() not in listener.heard
            assert SECRETS["SPARK_RPC_SECRET"].encode() not in listener.heard


def test_without_a_secret_there_is_no_job_and_where_the_network_is_trusted_everybody_hears_it(
    job: SparkJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plain").mkdir()
    with cluster(tmp_path, {"SPARK_CONF_DIR": str(tmp_path / "plain")}) as master, listening(tmp_path, monkeypatch) as heard:
        with pytest.raises(ConfigInvalid, match=r"spark\.authenticate\.secret"):
            SparkSubmit(master=master, logs=tmp_path / "logs").submit(job)
        SparkSubmit(master=master, logs=tmp_path / "logs", allow_insecure_rpc=True).submit(job)
        assert job.repository.size(job.result_key)
        # This is what the refusal is for, and what shows that the listener would hear it.
        assert any(CANARY.encode() in listener.heard for listener in heard)


@pytest.mark.fault("F61")
def test_a_cluster_that_does_not_encrypt_is_not_spoken_to_in_clear(job: SparkJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plain").mkdir()
    secret = {"spark.authenticate.secret": SECRETS["SPARK_RPC_SECRET"]}
    with cluster(tmp_path, {"SPARK_CONF_DIR": str(tmp_path / "plain")}) as master, listening(tmp_path, monkeypatch, **secret) as heard:
        with pytest.raises(SparkJobFailed):
            SparkSubmit(master=master, logs=tmp_path / "logs").submit(job)
        (log,) = (tmp_path / "logs").rglob("*.log")
        assert "Exception while bootstrapping client" in log.read_text()
        assert not any(CANARY.encode() in listener.heard for listener in heard)
