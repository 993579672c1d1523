"""A control plane of Kubernetes: etcd, the API server and the controllers, as processes of this machine."""

from __future__ import annotations

import secrets
import subprocess
import time
from pathlib import Path

import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from embedded.ports import free_ports
from tests.support.kubernetes.api import Answered, Api
from tests.support.kubernetes.programs import program

_START_SECONDS = 180
_CONTROLLERS = (
    "deployment-controller",
    "garbage-collector-controller",
    "horizontal-pod-autoscaler-controller",
    "job-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "replicaset-controller",
    "serviceaccount-controller",
    "statefulset-controller",
)


class ControlPlane:
    """Running from the start. Every process is ended by its own handle."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._etcd_port, self._peer_port, self._port = free_ports(3)
        self._token = secrets.token_hex(16)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        (directory / "tokens.csv").write_text(f'{self._token},admin,admin,"system:masters"\n')
        self._write_keys()
        self._administrator: Api | None = None
        self._start("etcd", self._etcd())
        self.start_api()
        self.start_controllers()

    @property
    def api(self) -> Api:
        """The API server as its administrator."""
        self._administrator = self._administrator or self.user(self._token)
        return self._administrator

    def watchers(self) -> int:
        """How many watch the pods of one namespace. The controllers watch those of all."""
        wanted = ('resource="pods"', 'scope="namespace"', 'verb="WATCH"')
        lines = (line for line in self.api.text("/metrics").splitlines() if line.startswith("apiserver_longrunning_requests{"))
        return sum(int(float(line.rpartition(" ")[2])) for line in lines if all(part in line for part in wanted))

    def user(self, token: str) -> Api:
        return Api(url=f"https://127.0.0.1:{self._port}", authority=self.directory / "certificates" / "apiserver.crt", token=token)

    def kubeconfig(self, token: str | None = None) -> str:
        """A file by which a client finds the API server, as its administrator or with a token."""
        api = self.user(token or self._token)
        name = f"kubeconfig-{secrets.token_hex(4)}"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": api.url, "certificate-authority": str(api.authority)}}],
            "users": [{"name": "u", "user": {"token": api.token}}],
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "here",
        }
        file = self.directory / name
        file.write_text(yaml.safe_dump(content))
        return str(file)

    def start_api(self) -> None:
        """Start the API server, and wait until it is ready."""
        self._start("apiserver", self._apiserver())
        deadline = time.monotonic() + _START_SECONDS
        while not self._ready():
            if time.monotonic() > deadline or self._running["apiserver"].poll() is not None:
                pytest.fail(f"the API server did not start:\n{(self.directory / 'apiserver.log').read_text()[-3000:]}")
            time.sleep(0.2)

    def stop_api(self) -> None:
        """End the API server without a warning."""
        self._running["apiserver"].kill()
        self._running.pop("apiserver").wait(timeout=60)

    def start_controllers(self) -> None:
        self._start("controllers", self._controllers())

    def stop_controllers(self) -> None:
        """End the controllers without a warning: counts are written, and nobody does anything about them."""
        self._running["controllers"].kill()
        self._running.pop("controllers").wait(timeout=60)

    def close(self) -> None:
        for name in ("controllers", "apiserver", "etcd"):
            if name in self._running:
                self._running[name].kill()
                self._running.pop(name).wait(timeout=60)

    def _ready(self) -> bool:
        try:
            return self.api.text("/readyz") == "ok" and self.api.find("/api/v1/namespaces/default") is not None
        except (Answered, OSError):
            # Its certificate may not be written yet either.
            return False

    def _start(self, name: str, arguments: list[str]) -> None:
        with (self.directory / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                [str(program(name)), *arguments], stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.directory
            )

    def _etcd(self) -> list[str]:
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._peer_port}"
        return [
            f"--data-dir={self.directory / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
        ]

    def _apiserver(self) -> list[str]:
        return [
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self._port}",
            f"--cert-dir={self.directory / 'certificates'}",
            f"--token-auth-file={self.directory / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.directory / 'accounts.key'}",
            f"--service-account-signing-key-file={self.directory / 'accounts.key'}",
            "--endpoint-reconciler-type=none",
            "--disable-admission-plugins=ServiceAccount",
            "--feature-gates=HPAScaleToZero=true",
        ]

    def _controllers(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig()}",
            "--leader-elect=false",
            "--secure-port=0",
            f"--controllers={','.join(_CONTROLLERS)}",
            "--horizontal-pod-autoscaler-sync-period=1s",
            f"--service-account-private-key-file={self.directory / 'accounts.key'}",
        ]

    def _write_keys(self) -> None:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        plain = serialization.NoEncryption()
        text = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, plain)
        (self.directory / "accounts.key").write_bytes(text)
