"""The compose files and Dockerfiles as data, with ways to ask what is where inside and outside the containers."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from tests.support.project import PROJECT

INSIDE = "/opt/streams-recovery"
BASE = yaml.safe_load((PROJECT / "docker-compose.yaml").read_text())
CONTROL = yaml.safe_load((PROJECT / "docker-compose.control.yaml").read_text())
SERVICES = BASE["services"] | {"docker-control": CONTROL["services"]["docker-control"]}
TEXTS = {name: (PROJECT / name).read_text() for name in ("docker-compose.yaml", "docker-compose.control.yaml")}
DOCKERFILES = {path.parent.name: path.read_text() for path in (PROJECT / "docker").glob("*/Dockerfile")}


def locked(name):
    """The version of each package in a lock file."""
    lines = (line.split() for line in (PROJECT / name).read_text().splitlines() if re.match(r"[a-z0-9-]+==", line))
    return dict(line[0].split("==") for line in lines)


LOCK = locked("requirements.lock")
AIRFLOW = ["airflow-init", "airflow-api-server", "airflow-scheduler", "airflow-dag-processor", "airflow-triggerer"]
TASKS = SERVICES["airflow-scheduler"]
VARIABLE = re.compile(r"(?<!\$)\$\{(\w+)(?:(:\?|:-)([^}]*))?\}")
SECRETS = {
    "POSTGRES_PASSWORD": "postgres-secret",
    "AIRFLOW_FERNET_KEY": "fernet",
    "AIRFLOW_JWT_SECRET": "jwt",
    "AIRFLOW_API_SECRET_KEY": "api",
    "AIRFLOW_ADMIN_PASSWORD": "admin-secret",
    "S3_ROOT_ACCESS_KEY": "root-id",
    "S3_ROOT_SECRET_KEY": "root-secret",
    "S3_ACCESS_KEY": "key-id",
    "S3_SECRET_KEY": "key-secret",
    "S3_READER_ACCESS_KEY": "reader-id",
    "S3_READER_SECRET_KEY": "reader-hidden",
    "SEAL_PRIVATE_KEY": "nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=",
    "SEAL_PUBLIC_KEY": "ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=",
    "SPARK_RPC_SECRET": "rpc-secret",
    "ORDER_PROCESSOR_TOKEN": "order-token",
}


def expanded(text):
    return VARIABLE.sub(lambda found: SECRETS.get(found[1], found[3] or ""), text).replace("$$", "$")


def environment(service):
    return {name: expanded(str(value)) for name, value in SERVICES[service].get("environment", {}).items()}


def mounts(service):
    """Where each bind mount of a service comes from, by where it is inside."""
    found = {}
    for volume in SERVICES[service].get("volumes", []):
        source, target, *_ = volume.split(":")
        if source.startswith("."):
            found[target] = PROJECT / source
    return found


def outside(service, path):
    """The file of the project that a path inside a service is, or None when no mount covers it."""
    for target, source in mounts(service).items():
        if path == target or path.startswith(f"{target}/"):
            return Path(str(source) + path[len(target) :])
    return None


def command(service):
    return [expanded(str(part)) for part in SERVICES[service].get("command", [])]


def base_images():
    built = {stage for text in DOCKERFILES.values() for stage in re.findall(r"^FROM \S+ AS (\w+)", text, re.M)}
    found = [image for text in DOCKERFILES.values() for image in re.findall(r"^FROM (\S+)", text, re.M)]
    found += [service["image"] for service in SERVICES.values() if "build" not in service]
    return [image for image in found if image not in built]


def ports_of(service):
    """Ports a service is told to listen on."""
    told = " ".join([*command(service), *environment(service).values()])
    known = {"airflow-api-server": "8080", "airflow-scheduler": "8974"}
    return {*re.findall(r"\b(\d{4,5})\b", told)} - ({"8080"} if service == "airflow-scheduler" else set()) | {known.get(service, "")}
