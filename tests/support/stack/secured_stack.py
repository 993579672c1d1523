"""The embedded stack as a company has it: brokers with TLS, users and access rules, a bucket with object lock that may only be written to, records that are
encrypted, and jobs on Spark's cluster.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from embedded.jars import JarSet
from embedded.processes import Processes
from embedded.spark_cluster import SparkCluster
from embedded.stack import APPLICATION, Stack
from embedded.stores import Store
from embedded.stores.s3 import S3Server, s3_server
from examples.order_processing.generator import INPUTS, OUTPUTS
from streams_recovery.core.repository.layout import StorageLocation
from tests.support.kafka.access_rules import Rules
from tests.support.kafka.secured_broker import ADMIN, PASSWORDS, SCRAM, Secured, secured_broker
from tests.support.kubernetes.pod_stack import runs_in

# Who saves and restores, and who processes.
RECOVERY_USER, APPLICATION_USER = "backup", "spare"
_CONNECTION = "savepoint_store"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What is there before the stack: a broker, and a server with one bucket. ``cluster`` is a control plane if the application runs in pods."""

    secured: Secured
    rules: Rules
    s3: S3Server
    location: StorageLocation
    cluster: Any = None


@contextmanager
def surroundings(directory: Path, *, jars: JarSet, cluster: Any = None) -> Iterator[Surroundings]:
    """Start them. The application may do what Kafka Streams needs, and who saves it may do nothing yet."""
    for name in ("broker", "s3"):
        (directory / name).mkdir()
    with secured_broker(directory / "broker", jars) as secured, s3_server(directory / "s3", secured.authority) as s3:
        rules = Rules(secured)
        try:
            _application_may(rules, secured)
            yield Surroundings(secured=secured, rules=rules, s3=s3, location=s3.bucket("governance"), cluster=cluster)
        finally:
            rules.close()


def _application_may(rules: Rules, secured: Secured) -> None:
    """https://kafka.apache.org/documentation/streams/developer-guide/security.html: its inputs, its outputs, and all that begins with its id."""
    application_id = "order-processor"
    who = f"kafka-acls.sh --bootstrap-server {secured.address} --command-config x --add --allow-principal User:{APPLICATION_USER}"
    prefixed = "--resource-pattern-type prefixed"
    for resources, operations in (
        (" ".join(f"--topic {name}" for name in INPUTS), ("Read", "Describe")),
        (" ".join(f"--topic {name}" for name in OUTPUTS), ("Write", "Describe")),
        (f"--topic {application_id}- {prefixed}", ("All",)),
        (f"--group {application_id}", ("All",)),
        (f"--transactional-id {application_id}- {prefixed}", ("Write", "Describe")),
        ("--cluster", ("DescribeConfigs",)),
    ):
        rules.apply(f"{who} {' '.join(f'--operation {one}' for one in operations)} {resources}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuredStack(Stack):
    """The stack in these surroundings."""

    around: Surroundings

    @classmethod
    def on(cls, directory: Path, around: Surroundings) -> Mapping[str, Any]:
        """Its values beside directory, ports and guarantee."""
        writer = around.s3.writer(around.location).options
        plain = {name: value for name, value in asdict(around.location).items() if value not in (None, "")}
        amazon = {"conn_type": "aws", "login": writer["access_key_id"], "password": writer["secret_access_key"]}
        store = Store(
            section={**plain, "connection": _CONNECTION, "sse": "AES256"},
            variables={f"AIRFLOW_CONN_{_CONNECTION.upper()}": json.dumps(amazon)},
        )
        return {"around": around, "store": store, "spark": SparkCluster.of(directory / "spark"), "encrypted": True}

    @property
    def bootstrap(self) -> str:
        """The address of the broker that is there."""
        return self.around.secured.address

    @property
    def client_settings(self) -> Mapping[str, str]:
        """Those who feed the application are the administrator."""
        return {name: str(value) for name, value in self.around.secured.extra(ADMIN).items()}

    @property
    def variables(self) -> dict[str, str]:
        """With the connections of users that may do little."""
        kafka = {"conn_type": "kafka", "extra": self.around.secured.extra(RECOVERY_USER)}
        # Two-argument super() does not see the class that ``slots`` makes anew.
        return {**Stack.variables.fget(self), "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(kafka)}  # type: ignore[attr-defined]

    def start_broker(self, processes: Processes) -> None:
        """It runs already."""

    def configs(self) -> Path:
        """With the application in pods where there is a cluster for them."""
        fresh = not (self.directory / "configs").exists()
        directory = Stack.configs(self)
        if fresh and self.around.cluster is not None:
            runs = runs_in(self.around.cluster, self.config())
            file = directory / f"{APPLICATION}.yaml"
            plain = json.loads(file.read_text()) | {"runs": runs}
            # Sandboxes of processes need an application of processes.
            file.write_text(json.dumps({name: value for name, value in plain.items() if name not in ("drill", "reprocess")}))
        return directory

    def _configurations(self, first: dict[str, Any]) -> dict[str, dict[str, Any]]:
        settings = self.directory / "application.properties"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.touch(mode=0o600)
        user = f'username="{APPLICATION_USER}" password="{PASSWORDS[APPLICATION_USER]}"'
        lines = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": SCRAM,
            "sasl.jaas.config": f"org.apache.kafka.common.security.scram.ScramLoginModule required {user};",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.around.secured.authority.certificate),
        }
        settings.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        first["runs"]["process"]["environment"]["KAFKA_CLIENT_PROPERTIES"] = str(settings)
        return {APPLICATION: first}
