"""The containers agree with the project and with each other: addresses, volumes, secrets, connections, and who may reach the engine."""

from __future__ import annotations

import base64
import importlib.util
import json
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from streams_recovery.application.docker_compose_verbs import _settings, main
from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.loader import load_named
from streams_recovery.core.errors import ConfigInvalid, NotFound
from streams_recovery.engine.master import rpc_settings, spark_defaults
from streams_recovery.operations.context import seal_keys
from streams_recovery.storage.seals import new_private_key, public_of
from tests.support.compose_files import (
    AIRFLOW,
    BASE,
    CONTROL,
    DOCKERFILES,
    INSIDE,
    SECRETS,
    SERVICES,
    TASKS,
    TEXTS,
    VARIABLE,
    command,
    environment,
    outside,
    ports_of,
)
from tests.support.project import PROJECT

# Network


def test_ports_are_published_on_loopback_only():
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)
    numbers = [re.search(r":-(\d+)\}", port)[1] for port in published]
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("service", [name for name in SERVICES if SERVICES[name].get("ports")])
def test_published_ports_are_listened_on(service):
    for port in SERVICES[service]["ports"]:
        assert port.rsplit(":", 1)[1] in ports_of(service), f"{service}: {port}"


@pytest.mark.parametrize("service", SERVICES)
def test_no_program_of_a_container_gets_the_rights_of_another_user(service):
    assert "no-new-privileges:true" in SERVICES[service].get("security_opt", ())


@pytest.mark.parametrize("page", ["docs/docker.md", "docker/make_env.py", ".env.example", "docker-compose.yaml"])
def test_the_command_that_makes_the_secrets_keeps_them_to_their_owner_and_replaces_none(page, tmp_path):
    (said,) = re.findall(r"\(?(?:umask[^()\n]*)?python docker/make_env\.py > \.env\)?", (PROJECT / page).read_text())
    call = said.replace("python docker/make_env.py", f"{sys.executable} {PROJECT / 'docker/make_env.py'}")
    assert subprocess.run(["sh", "-c", call], cwd=tmp_path, check=False).returncode == 0
    file = tmp_path / ".env"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    # Other keys would make what is sealed and encrypted with these unreadable.
    made = file.read_bytes()
    assert subprocess.run(["sh", "-c", call], cwd=tmp_path, capture_output=True, check=False).returncode != 0
    assert file.read_bytes() == made


def test_names_in_addresses_are_services():
    names = {*SERVICES, "127.0.0.1", "0.0.0.0", "localhost"}
    for service in SERVICES:
        for text in [*command(service), *environment(service).values()]:
            for host in re.findall(r"(?:\w+://|@)(?:\w+:[^@/]+@)?([a-z0-9][a-z0-9.-]*)", text):
                assert host in names, f"{service}: {host}"


def test_dependencies_are_services_that_can_meet_their_condition():
    for name, service in SERVICES.items():
        for other, how in (service.get("depends_on") or {}).items():
            assert other in SERVICES, name
            if how["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[other], f"{name} waits for the health of {other}"
            else:
                assert how["condition"] == "service_completed_successfully"
                assert SERVICES[other]["restart"] == "no"


def test_volumes_are_declared_and_used():
    used = {volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", [])}
    named = {volume for volume in used if volume[0] not in "./"}
    assert named == set(BASE["volumes"])


# Secrets and variables


def example():
    return (PROJECT / ".env.example").read_text()


def test_every_variable_is_explained_and_every_explained_one_is_used():
    used = {found[0] for text in TEXTS.values() for found in VARIABLE.findall(text)}
    explained = set(re.findall(r"^#?([A-Z0-9_]+)=", example(), re.M))
    assert used == explained


def test_secrets_have_no_default_and_are_nowhere_else():
    required = set(re.findall(r"^([A-Z0-9_]+)=$", example(), re.M))
    assert required == set(SECRETS)
    for text in TEXTS.values():
        for name, how, _ in VARIABLE.findall(text):
            assert (name in required) == (how == ":?"), f"{name}{how}"
    assert not re.search(r"^[A-Z0-9_]+=\S", example(), re.M)
    assert ".env" in (PROJECT / ".gitignore").read_text().split()


def test_defaults_agree_with_what_the_example_says():
    said = dict(re.findall(r"^#([A-Z0-9_]+)=(\S*)", example(), re.M))
    for text in TEXTS.values():
        for name, how, default in VARIABLE.findall(text):
            if how == ":-":
                assert said[name] == default


def test_made_secrets_fit():
    made = dict(
        line.split("=", 1)
        for line in subprocess.run(
            [sys.executable, PROJECT / "docker/make_env.py"], capture_output=True, text=True, check=True
        ).stdout.splitlines()
    )
    assert set(made) == set(SECRETS)
    assert len(made["AIRFLOW_JWT_SECRET"].encode()) >= 64
    assert len(base64.urlsafe_b64decode(made["AIRFLOW_FERNET_KEY"])) == 32
    assert all(re.fullmatch(r"[A-Za-z0-9_=-]{16,}", value) for name, value in made.items() if not name.startswith("SEAL_"))
    assert public_of(made["SEAL_PRIVATE_KEY"]) == made["SEAL_PUBLIC_KEY"]
    assert len(set(made.values())) == len(made)
    again = subprocess.run([sys.executable, PROJECT / "docker/make_env.py"], capture_output=True, text=True, check=True).stdout
    assert not set(made.values()) & {line.split("=", 1)[1] for line in again.splitlines()}


def test_the_services_share_one_signing_key():
    for variable in ("AIRFLOW__API_AUTH__JWT_SECRET", "AIRFLOW__CORE__FERNET_KEY", "AIRFLOW__CORE__EXECUTION_API_SERVER_URL"):
        assert len({environment(service)[variable] for service in AIRFLOW}) == 1
    assert environment("airflow-scheduler")["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == "http://airflow-api-server:8080/execution/"


def test_airflow_options_exist():
    # Read, not imported: importing Airflow takes seconds and makes directories.
    templates = Path(importlib.util.find_spec("airflow").submodule_search_locations[0]) / "config_templates/config.yml"
    known = yaml.safe_load(templates.read_text())
    checked = 0
    for name in environment("airflow-scheduler"):
        if name.startswith("AIRFLOW__"):
            _, section, option = name.lower().split("__")
            assert option in known[section]["options"], name
            checked += 1
    assert checked > 10


def initialise():
    spec = importlib.util.spec_from_file_location("initialise", PROJECT / "docker/airflow/initialise.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def written(tmp_path):
    """The files that airflow-init writes, by the paths they have in its container. It runs twice, and everything is written in both."""
    inside = environment("airflow-init")
    names = (initialise().PASSWORDS, "SPARK_CONF_DIR", "ORDER_PROCESSOR_TOKEN_FILE")
    places = {name: tmp_path / inside[name].lstrip("/") for name in names}
    for place in places.values():
        place.parent.mkdir(parents=True, exist_ok=True)
    settings = outside("airflow-init", inside["SPARK_SETTINGS"])
    for password in ("rosebud", "rosebud2"):
        here = {name: str(place) for name, place in places.items()} | {"SPARK_SETTINGS": str(settings), "AIRFLOW_ADMIN_PASSWORD": password}
        initialise().write_secrets(inside | here)
    return {f"/{path.relative_to(tmp_path)}": path for path in tmp_path.rglob("*") if path.is_file()}


def test_secrets_are_written_for_their_owner_only(written):
    passwords = initialise().PASSWORDS
    assert json.loads(written[environment("airflow-api-server")[passwords]].read_text()) == {"admin": "rosebud2"}
    assert environment("airflow-scheduler")["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"].split(":")[0] == "admin"
    assert len(written) == 3
    for file in written.values():
        assert file.stat().st_mode & 0o777 == 0o600
        private = "/opt/airflow/private" in str(file)
        volume = "airflow-private:/opt/airflow/private" if private else "airflow-auth:/opt/airflow/auth"
        assert volume in SERVICES["airflow-init"]["volumes"]
    holders = [name for name in SERVICES if any(volume.startswith("airflow-private:") for volume in SERVICES[name].get("volumes", []))]
    assert holders == ["airflow-init", "airflow-scheduler", "airflow-triggerer"]
    assert "install -d -o airflow -g root -m 0700 /opt/airflow/private" in DOCKERFILES["airflow"]


def holders_of(secret):
    """Services that find this value of .env in their environment, whole or as a part."""
    return {name for name in SERVICES if any(SECRETS[secret] in value for value in environment(name).values())}


def test_each_service_gets_the_secrets_it_works_with_and_no_others():
    tasks, telling, reading = {"airflow-scheduler", "airflow-triggerer"}, {"airflow-dag-processor"}, {"airflow-api-server"}
    assert holders_of("S3_ROOT_SECRET_KEY") == holders_of("S3_ROOT_ACCESS_KEY") == {"s3", "s3-init"}
    assert holders_of("S3_SECRET_KEY") == {"s3-init", *tasks, *telling}
    assert holders_of("S3_READER_SECRET_KEY") == {"s3-init", *reading}
    assert holders_of("SEAL_PRIVATE_KEY") == {*tasks, *telling}
    assert holders_of("SEAL_PUBLIC_KEY") == set(AIRFLOW)
    assert holders_of("SPARK_RPC_SECRET") == {"airflow-init", "spark-master", "spark-worker"}
    assert holders_of("ORDER_PROCESSOR_TOKEN") == {"airflow-init", "order-processor-1", "order-processor-2"}
    assert holders_of("AIRFLOW_ADMIN_PASSWORD") == {"airflow-init"}
    assert holders_of("AIRFLOW_FERNET_KEY") == set(AIRFLOW)
    for service in SERVICES:
        connections = {name for name in environment(service) if name.startswith("AIRFLOW_CONN_")}
        assert len(connections) == (4 if service in tasks else 2 if service in telling else 1 if service in reading else 0), service


@pytest.mark.parametrize(("service", "key"), [("airflow-api-server", "S3_READER"), ("airflow-dag-processor", "S3")])
def test_page_and_callbacks_have_the_repository_and_nothing_else(service, key):
    config = load_named("order-processing", PROJECT / "include/configs", environment(service))
    connections = EnvironmentConnections(environment(service))
    credentials = connections.storage(config.storage.connection, config.storage.backend)
    made = environment("s3-init")
    assert (credentials.options["access_key_id"], credentials.options["secret_access_key"]) == (
        made[f"{key}_ACCESS_KEY"],
        made[f"{key}_SECRET_KEY"],
    )
    with pytest.raises(NotFound):
        connections.kafka(config.source.connection)


@pytest.mark.parametrize("service", AIRFLOW)
def test_the_repository_is_sealed_for_every_service_and_writers_can_sign(service):
    config = load_named("order-processing", PROJECT / "include/configs", environment(service))
    keys = seal_keys(config, EnvironmentConnections(environment(service)))
    assert keys.public == (SECRETS["SEAL_PUBLIC_KEY"],)
    writes = service in ("airflow-scheduler", "airflow-triggerer", "airflow-dag-processor")
    assert keys.private == (SECRETS["SEAL_PRIVATE_KEY"] if writes else None)


def test_while_keys_change_the_old_one_is_believed_too():
    older = new_private_key()[1]
    config = load_named(
        "order-processing", PROJECT / "include/configs", environment("airflow-scheduler") | {"STREAMS_RECOVERY_SEAL_OLD_PUBLIC_KEY": older}
    )
    assert config.storage.seal.public_keys == (SECRETS["SEAL_PUBLIC_KEY"], older)
    stolen = environment("airflow-scheduler") | {"STREAMS_RECOVERY_SEAL_WITHDRAWN_KEY": older}
    config = load_named("order-processing", PROJECT / "include/configs", stolen)
    assert (config.storage.seal.public_keys, config.storage.seal.withdrawn_keys) == ((SECRETS["SEAL_PUBLIC_KEY"],), (older,))


# Spark


def settings_of(text):
    return dict(line.split(maxsplit=1) for line in text.splitlines() if line and line[0] != "#")


@pytest.mark.parametrize("service", ["spark-master", "spark-worker"])
def test_master_and_workers_know_each_other_and_encrypt(service):
    found = settings_of(outside(service, environment(service)["SPARK_CONF_DIR"]).joinpath("spark-defaults.conf").read_text())
    assert found["spark.authenticate"] == found["spark.network.crypto.enabled"] == "true"
    assert found["spark.network.crypto.saslFallback"] == "false"
    assert environment(service)["_SPARK_AUTH_SECRET"] == "rpc-secret"
    assert "rpc-secret" not in " ".join(command(service))


def test_drivers_know_the_same_secret(written, config):
    directory = environment("airflow-scheduler")["SPARK_CONF_DIR"]
    file = written[f"{directory}/spark-defaults.conf"]
    assert settings_of(file.read_text())["spark.authenticate.secret"] == environment("spark-master")["_SPARK_AUTH_SECRET"]
    assert config.spark.allow_insecure_rpc is False
    set_at_submission = rpc_settings(
        "spark://spark-master:7077", spark_defaults({"SPARK_CONF_DIR": str(file.parent)}), allow_insecure=False
    )
    assert set_at_submission["spark.authenticate"] == "true"


# Configuration


@pytest.fixture
def config():
    return load_named("order-processing", PROJECT / "include/configs", environment("airflow-scheduler"))


def test_connections_of_the_configuration_are_defined(config):
    connections = EnvironmentConnections(environment("airflow-scheduler"))
    assert connections.kafka(config.source.connection).bootstrap_servers == "kafka:9092"
    assert connections.spark_master(config.spark.connection) == "spark://spark-master:7077"
    credentials = connections.storage(config.storage.connection, config.storage.backend)
    assert (credentials.options["access_key_id"], credentials.options["secret_access_key"]) == ("key-id", "key-secret")
    assert (environment("s3-init")["S3_ACCESS_KEY"], environment("s3-init")["S3_SECRET_KEY"]) == ("key-id", "key-secret")
    assert environment("s3")["ROOT_ACCESS_KEY_ID"] == environment("s3-init")["S3_ROOT_ACCESS_KEY"] == "root-id"
    assert environment("s3")["ROOT_SECRET_ACCESS_KEY"] == environment("s3-init")["S3_ROOT_SECRET_KEY"] == "root-secret"
    assert f"s3-users:{environment('s3')['VGW_IAM_DIR']}" in SERVICES["s3"]["volumes"]


def test_the_repository_is_the_bucket_that_is_created(config):
    found = environment("s3-init")
    assert (config.storage.backend, config.storage.bucket) == ("s3", found["STREAMS_RECOVERY_BUCKET"])
    assert config.storage.endpoint == found["STREAMS_RECOVERY_S3_ENDPOINT"]
    assert config.storage.region == found["STREAMS_RECOVERY_REGION"] == environment("s3")["VGW_REGION"]
    assert config.storage.endpoint.endswith(environment("s3")["VGW_PORT"])


def test_the_spark_master_listens_where_it_is_looked_for(config):
    arguments = command("spark-master")
    assert arguments[arguments.index("--host") + 1] == SERVICES["spark-master"]["hostname"] == "spark-master"
    assert arguments[arguments.index("--port") + 1] == "7077"
    assert command("spark-worker")[-1] == "spark://spark-master:7077"
    settings = outside("airflow-init", environment("airflow-init")["SPARK_SETTINGS"])
    assert settings_of(settings.read_text())["spark.driver.host"] == TASKS["hostname"]


def test_the_application_is_reached_through_its_services(config, monkeypatch):
    assert config.runs.kind == "command"
    found = config.runs.command
    verbs = {verb: getattr(found, verb) for verb in ("status", "stop", "start", "pause", "resume", "wipe", "query")}
    for verb, argv in verbs.items():
        assert argv[1:3] == ("-m", "streams_recovery.application.docker_compose_verbs")
        assert argv[4] == verb
    assert found.environment["PYTHONPATH"] == f"{INSIDE}/plugins"
    monkeypatch.setenv("DOCKER_HOST", "tcp://docker-control:2375")
    settings = _settings(outside("airflow-scheduler", found.status[3]))
    assert settings.application_id == config.application.id
    assert settings.project == BASE["name"] == environment("docker-control")["GATE_PROJECT"]
    for one in settings.services:
        service = SERVICES[one.service]
        assert one.url == f"http://{one.service}:{environment(one.service)['HTTP_PORT']}"
        [volume] = service["volumes"]
        name, inside = volume.split(":")
        assert inside == environment(one.service)["STATE_DIR"]
        assert f"{name}:{one.state_directory}" in TASKS["volumes"]
        assert environment(one.service)["APPLICATION_ID"] == config.application.id
        assert environment(one.service)["PROCESSING_GUARANTEE"] == config.application.guarantee
        assert service["labels"][environment("docker-control")["GATE_LABEL"]] == "true"
        assert service["restart"] == "no"
    assert any(volume.endswith(f":{settings.directory}") for volume in TASKS["volumes"])
    assert settings.control.token_file == environment("airflow-init")["ORDER_PROCESSOR_TOKEN_FILE"]
    assert all(environment(one.service)["HTTP_TOKEN"] == environment("airflow-init")["ORDER_PROCESSOR_TOKEN"] for one in settings.services)
    assert "Authorization: Bearer" in (PROJECT / "docker/example/healthcheck.sh").read_text()
    processors = {name for name in SERVICES if name.startswith("order-processor")}
    assert {one.service for one in settings.services} == processors
    monkeypatch.delenv("DOCKER_HOST")
    assert _settings(outside("airflow-scheduler", found.status[3])).docker is None


def test_state_can_be_wiped_by_the_user_that_airflow_is():
    # apache/airflow runs as 50000:0.
    assert "USER 50000:0" in DOCKERFILES["example"]
    assert "install -d -o 50000 -g 0 -m 0775 /var/lib/streams-recovery/state" in DOCKERFILES["example"]
    for number in (1, 2):
        assert f"/var/lib/streams-recovery/state/{number}" in DOCKERFILES["airflow"]


# The engine's socket


def test_only_the_gate_has_the_socket_and_only_tasks_reach_the_gate():
    everything = {**BASE["services"], **{f"{name} (control)": service for name, service in CONTROL["services"].items()}}
    holders = [name for name, service in everything.items() if any("docker.sock" in volume for volume in service.get("volumes", []))]
    assert holders == ["docker-control (control)"]
    assert "docker.sock" not in TEXTS["docker-compose.yaml"]
    gate = CONTROL["services"]["docker-control"]
    assert gate["networks"] == ["control"]
    assert CONTROL["networks"]["control"] == {"internal": True}
    assert "ports" not in gate
    assert (gate["cap_drop"], gate["read_only"], gate["security_opt"]) == (["ALL"], True, ["no-new-privileges:true"])
    assert [name for name, service in CONTROL["services"].items() if "control" in service.get("networks", [])] == [
        "docker-control",
        "airflow-scheduler",
    ]
    assert (
        CONTROL["services"]["airflow-scheduler"]["environment"]["DOCKER_HOST"] == f"tcp://docker-control:{gate['environment']['GATE_PORT']}"
    )


SETTINGS = json.loads((PROJECT / "docker" / "order-processor.json").read_text())


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"project": None}, "project: Input should be a valid string"),
        ({"port": "canary"}, "port: Extra inputs are not permitted"),
        ({"control": {**SETTINGS["control"], "pause": "canary"}}, "control.pause"),
        ({"timeout": float("nan")}, "timeout: "),
        ({"application_id": "../x"}, "application_id: "),
        (
            {"control": {name: value for name, value in SETTINGS["control"].items() if name not in ("close", "token_file")}},
            "control has no close, token_file",
        ),
        ({"services": [{"service": "one", "url": "http://127.0.0.1:1"}]}, "services.0.state_directory: Field required"),
    ],
)
def test_a_mistake_in_the_settings_is_named(
    changed: dict[str, object], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "settings.json"
    file.write_text(json.dumps(SETTINGS | changed))
    assert main([str(file), "status"]) == ConfigInvalid.exit_code
    assert f"{file} cannot be used: {named}" in capsys.readouterr().err


def test_the_settings_have_to_be_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none"), "status"]) == ConfigInvalid.exit_code
    assert "cannot be read" in capsys.readouterr().err
