"""Helm itself lints and renders the chart. What it renders is harmless, keeps secrets out of sight, and is understood by the program that it runs."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from streams_recovery.core.kubernetes.controllers import rights_needed
from streams_recovery.core.kubernetes.workload import WorkloadName
from tests.support.deploy.chart import CHART, MANIFEST_FILES, RELEASE, built_helm, helm, manifest, rendered
from tests.support.deploy.commands import command_problems, config_problems, environment_of, parsed, spark_master
from tests.support.deploy.documents import (
    DEPLOY,
    MANIFESTS,
    Document,
    containers,
    documents_in,
    granted,
    names,
    needed,
    pod_spec,
    reference_problems,
    rules_of,
)
from tests.support.deploy.safety import safety_problems, secret_problems

pytestmark = pytest.mark.deep

Values = Mapping[str, Any]
KUBERNETES = {"spark": {"master": "k8s://https://kubernetes.default.svc:443", "executorImage": "example.com/spark:4.2.0"}}
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
DIGEST = f"sha256:{64 * 'a'}"
ORDERS = """
version: 1
application: {id: orders, guarantee: at_least_once}
source: {connection: cluster_a}
topics: {inputs: [orders]}
storage: {backend: filesystem, path: /var/lib/streams-recovery/repository}
backup: {survive_cluster_loss: true, consistency: {mode: live, require: ahead_allowed}}
runs: {kind: command, command: {status: [status], stop: [stop], start: [start], wipe: [wipe]}}
"""
PODS = """
version: 1
application: {id: orders, guarantee: at_least_once}
topics: {inputs: [orders]}
storage: {backend: filesystem, path: /var/lib/streams-recovery/repository}
backup: {survive_cluster_loss: true, consistency: {mode: live, require: ahead_allowed}}
runs:
  kind: kubernetes
  kubernetes: {namespace: shop, workload: deployment/orders, state_directory: /var/lib/state, port: 8080, claims: job, wipe_image: "busybox:1", record: kept}
"""
OF_PODS = {"application": "orders", "configs": {"orders.yml": PODS, "order-processing.yaml": None}}
NO_RIGHTS = {"rbac": {"workload": {"create": False}}}
APPROVED = {"enabled": True, "approve": 64 * "0", "reason": "a bad release"}
# What somebody may want, by a name.
CASES: dict[str, Values] = {
    "default": {},
    "archive": {"archive": {"enabled": True}},
    "other application": {
        "application": "orders",
        "configs": {"orders.yaml": ORDERS, "order-processing.yaml": None},
        "connections": {"kafka_default": None, "aws_default": None, "cluster_a": {"secretName": "kafka-a", "key": "connection"}},
        "repository": {"existingClaim": "savepoints"},
        "image": {"digest": DIGEST},
        "backup": {"schedule": "@hourly", "args": ["--mode", "live"]},
        "check": {"level": "full"},
        "expire": {"enabled": False},
    },
    "executors in pods": KUBERNETES,
    "a standalone cluster": {"spark": {"master": "spark://spark:7077", "secretDefaults": "spark-settings"}},
    "settings": {"spark": {"defaults": {"spark.driver.memory": "2g"}}},
    "certificates": {"secretFiles": [{"name": "kafka-tls", "secretName": "kafka-tls", "mountPath": "/etc/streams-recovery/kafka"}]},
    "rights": {"rbac": {"rules": [{"apiGroups": ["apps"], "resources": ["statefulsets/scale"], "verbs": ["get", "patch"]}]}},
    "pods of a deployment": {**OF_PODS, "rbac": {"workload": {"keda": True, "nodes": False}}},
    "no rights": NO_RIGHTS,
    "network": {**KUBERNETES, "networkPolicy": {"enabled": True, "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]}},
    "placed": {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "high",
        "podLabels": {"team": "orders"},
        "podAnnotations": {"sidecar.istio.io/inject": "false"},
        "env": [{"name": "TZ", "value": "Europe/Berlin"}],
        "image": {"tag": "1.2.3", "pullSecrets": [{"name": "registry"}]},
        "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/savepoints"}},
    },
    "plan": {"restore": {"enabled": True, "args": ["--savepoint", "20261121T120000Z-0123456789"]}},
    "restore": {"restore": {**APPROVED, "args": ["--replace"]}},
    "rebuild": {"restore": {**APPROVED, "command": "rebuild", "args": ["--offsets", "earliest"]}},
    "undo": {"restore": {**APPROVED, "command": "undo"}},
    "resume": {"restore": {**APPROVED, "command": "resume", "args": ["--take-over"]}},
}


@pytest.fixture(scope="module")
def program() -> Path:
    return built_helm()


@pytest.mark.timeout(3600)
def test_helm_is_built_from_its_source(program: Path) -> None:
    assert program.exists()


@pytest.mark.parametrize("case", CASES)
def test_helm_accepts_the_chart(program: Path, case: str) -> None:
    done = helm(program, "lint", "--strict", str(CHART), values=CASES[case])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("case", CASES)
def test_what_is_rendered_has_nothing_wrong(program: Path, case: str, tmp_path: Path) -> None:
    documents = rendered(program, CASES[case], tests=True)
    assert names(documents, "ServiceAccount") == {RELEASE}
    assert "Pod" in {document["kind"] for document in documents}
    assert reference_problems(documents) == []
    assert safety_problems(documents) == []
    assert secret_problems(documents) == []
    assert command_problems(documents) == []
    assert config_problems(documents, tmp_path) == []


# The plain manifests


@pytest.mark.parametrize("name", MANIFEST_FILES)
def test_the_plain_manifests_are_what_the_chart_renders(program: Path, name: str) -> None:
    expected = manifest(program, name)
    assert expected
    assert documents_in(MANIFESTS / name) == expected, "write them anew: python -m tests.support.deploy.chart"


def test_every_document_of_the_default_values_is_in_a_manifest(program: Path) -> None:
    assert sorted(MANIFEST_FILES) == sorted(path.name for path in MANIFESTS.iterdir())
    plain = documents_in(*sorted(MANIFESTS.glob("*.yaml")))
    assert [document for document in rendered(program) if document not in plain] == []


# What values change


def job(documents: list[Document]) -> Document:
    (found,) = [document for document in documents if document["kind"] == "Job"]
    return found


def args_of(document: Document) -> list[str]:
    found = pod_spec(document)
    assert found is not None
    args: list[str] = found["containers"][0]["args"]
    return args


def test_without_an_approval_only_a_plan_is_shown(program: Path) -> None:
    call = parsed(args_of(job(rendered(program, CASES["plan"]))))
    assert (call.info_name, call.params["plan_only"], call.params["approve"]) == ("restore", True, None)


@pytest.mark.parametrize("command", ["restore", "rebuild", "undo", "resume"])
def test_an_approval_carries_a_plan_out(program: Path, command: str) -> None:
    found = job(rendered(program, CASES[command]))
    call = parsed(args_of(found))
    assert (call.info_name, call.params["plan_only"], call.params["approve"]) == (command, False, 64 * "0")
    assert found["spec"]["backoffLimit"] == 0
    if command != "resume":
        assert call.params["reason"] == "a bad release"


def test_another_plan_is_another_job(program: Path) -> None:
    values = [{"restore": {**APPROVED, **change}} for change in ({}, {"approve": 64 * "1"}, {"args": ["--replace"]}, {"attempt": 2})]
    found = [job(rendered(program, one))["metadata"]["name"] for one in values]
    assert len(set(found)) == len(found)
    assert job(rendered(program, values[0]))["metadata"]["name"] == found[0]


def test_an_archiver_is_one_pod_that_is_started_again_whatever_ends_it(program: Path) -> None:
    [found] = [one for one in rendered(program, CASES["archive"]) if one["kind"] == "Deployment"]
    pod = pod_spec(found)
    assert pod is not None
    assert (found["spec"]["replicas"], found["spec"]["strategy"], pod["restartPolicy"]) == (1, {"type": "Recreate"}, "Always")
    assert found["spec"]["selector"]["matchLabels"].items() <= found["spec"]["template"]["metadata"]["labels"].items()
    assert parsed(args_of(found)).info_name == "archive"


def test_an_archiver_begins_again_with_another_configuration_and_only_then(program: Path) -> None:
    def seen(**more: Any) -> Any:
        [found] = [one for one in rendered(program, {**CASES["archive"], **more}) if one["kind"] == "Deployment"]
        return found["spec"]["template"]["metadata"]["annotations"]

    assert seen() == seen(backup={"schedule": "@daily"})
    assert seen(configs={"order-processing.yaml": VALUES["configs"]["order-processing.yaml"] + "# another\n"}) != seen()
    assert seen(spark={"defaults": {"spark.driver.memory": "2g"}}) != seen()
    assert seen(podAnnotations={"team": "orders"}) == {**seen(), "team": "orders"}


@pytest.mark.parametrize("case", ["restore", "rebuild", "undo", "resume", "plan", "default"])
def test_what_is_carried_out_is_ended_by_no_drain(program: Path, case: str) -> None:
    documents = rendered(program, CASES[case])
    budgets = [one["spec"] for one in documents if one["kind"] == "PodDisruptionBudget"]
    if case in ("plan", "default"):
        assert budgets == []
    else:
        labels = job(documents)["spec"]["template"]["metadata"]["labels"]
        assert [(one["minAvailable"], one["selector"]["matchLabels"].items() <= labels.items()) for one in budgets] == [(1, True)]


def test_executors_in_pods_have_their_settings_their_template_and_the_rights_for_them(program: Path) -> None:
    documents = rendered(program, KUBERNETES)
    (spark,) = [one["data"] for one in documents if one["metadata"]["name"] == f"{RELEASE}-spark"]
    settings = dict(line.split() for line in spark["spark-defaults.conf"].splitlines())
    assert settings.pop("spark.kubernetes.container.image") == "example.com/spark:4.2.0"
    assert settings == yaml.safe_load((CHART / "files" / "spark-defaults.yaml").read_text())
    assert spark["executor-pod.yaml"] == (DEPLOY / "spark" / "executor-pod.yaml").read_text()
    (role,) = [one for one in documents if one["kind"] == "Role" and one["metadata"]["name"] == RELEASE]
    assert role["rules"][0]["resources"] == ["pods", "configmaps", "services", "persistentvolumeclaims"]
    for document, container in containers(documents):
        assert spark_master(container) == KUBERNETES["spark"]["master"]
        assert environment_of(container)["SPARK_CONF_DIR"] == "/etc/streams-recovery/spark"
        assert pod_spec(document)["automountServiceAccountToken"] is True


def test_own_settings_of_spark_count_more_than_the_chart_s(program: Path) -> None:
    values = {"spark": {**KUBERNETES["spark"], "defaults": {"spark.executor.instances": "8"}}}
    (spark,) = [one["data"] for one in rendered(program, values) if one["metadata"]["name"] == f"{RELEASE}-spark"]
    assert "spark.executor.instances 8" in spark["spark-defaults.conf"].splitlines()


def tokens(program: Path, values: Values) -> set[bool]:
    """Whether pods get a token of the API server."""
    return {pod_spec(document)["automountServiceAccountToken"] for document, _ in containers(rendered(program, values))}


def test_without_rights_no_pod_has_a_token_of_the_api_server(program: Path) -> None:
    for values in (CASES["other application"], {"existingConfigMap": "theirs"}):
        assert (names(rendered(program, values), "Role"), tokens(program, values)) == (set(), {False})
    # Rights that somebody else grants need a token too.
    assert (names(rendered(program, NO_RIGHTS), "Role"), tokens(program, NO_RIGHTS)) == (set(), {True})
    values = {**CASES["other application"], **CASES["rights"]}
    assert rules_of(rendered(program, values)) == CASES["rights"]["rbac"]["rules"]
    assert tokens(program, values) == {True}


@pytest.mark.parametrize("more", [{"keda": True, "nodes": True}, {"keda": False, "nodes": False}], ids=["keda and nodes", "neither"])
def test_the_rights_over_pods_are_those_that_the_configuration_needs_where_they_are(program: Path, more: dict[str, bool]) -> None:
    documents = rendered(program, {**OF_PODS, "rbac": {"workload": more}})
    wanted = rights_needed(WorkloadName.parse("deployment/orders"), "shop", "kept", stops=True, claims="job", keda=more["keda"])
    assert granted(rules_of(documents)) == needed(right for right in wanted if right.blocking or more["nodes"])
    assert names(documents, "ClusterRole") == ({f"{RELEASE}-{RELEASE}-nodes"} if more["nodes"] else set())
    ours = [one for one in documents if one["kind"] in ("Role", "RoleBinding") or one["metadata"]["name"] == "kept"]
    assert [one["metadata"]["namespace"] for one in ours] == 3 * ["shop"]


def test_the_network_lets_in_executors_and_nothing_else(program: Path) -> None:
    documents = rendered(program, CASES["network"])
    policy, executors = [one["spec"] for one in documents if one["kind"] == "NetworkPolicy"]
    for one in (policy, executors):
        assert one["policyTypes"] == ["Ingress", "Egress"]
        assert one["egress"][-1] == CASES["network"]["networkPolicy"]["egress"][0]
    assert [port["port"] for port in policy["ingress"][0]["ports"]] == [7078, 7079]
    # Executors: from and to jobs and each other, and nobody else's executors.
    own = yaml.safe_load((CHART / "files" / "executor-pod.yaml").read_text())["metadata"]["labels"]
    jobs = policy["podSelector"]
    assert executors["podSelector"] == {"matchLabels": own}
    assert [peer["podSelector"] for peer in executors["ingress"][0]["from"]] == [jobs, {"matchLabels": own}]
    assert [port["port"] for port in executors["egress"][1]["ports"]] == [7078, 7079]
    assert executors["egress"][1]["to"] == [{"podSelector": jobs}]
    alone = {**CASES["network"], "spark": {"master": "local[2]"}}
    (policy,) = [one["spec"] for one in rendered(program, alone) if one["kind"] == "NetworkPolicy"]
    assert policy["ingress"] == []


REFUSED: dict[str, tuple[Values, str]] = {
    "a connection in clear": ({"connections": {"kafka_default": '{"extra": {"sasl.password": "x"}}'}}, "connections"),
    "a password beside a name": ({"connections": {"kafka_default": {"secretName": "s", "key": "k", "password": "x"}}}, "password"),
    "a connection as a variable": ({"env": [{"name": "AIRFLOW_CONN_KAFKA_DEFAULT", "value": "x"}]}, "env"),
    "a password as a variable": ({"env": [{"name": "AWS_SECRET_ACCESS_KEY", "value": "x"}]}, "env"),
    "a secret of Spark's executors": ({"spark": {"defaults": {"spark.executorEnv.AWS_SECRET_ACCESS_KEY": "x"}}}, "spark"),
    "a secret of Spark": ({"spark": {"defaults": {"spark.authenticate.secret": "x"}}}, "spark"),
    "a user in a master": ({"spark": {"master": "spark://user:password@host:7077"}}, "spark"),
    "root": ({"podSecurityContext": {"runAsNonRoot": False}}, "runAsNonRoot"),
    "user 0": ({"podSecurityContext": {"runAsUser": 0}}, "runAsUser"),
    "privileges": ({"containerSecurityContext": {"allowPrivilegeEscalation": True}}, "allowPrivilegeEscalation"),
    "an unknown key": ({"backup": {"cron": "@hourly"}}, "cron"),
    "a short approval": ({"restore": {"enabled": True, "approve": "abc", "reason": "r"}}, "approve"),
    "no reason": ({"restore": {"enabled": True, "approve": 64 * "0"}}, "restore.reason is needed"),
    "no configuration": ({"application": "orders"}, "configs has no orders.yaml"),
    "no image for executors": ({"spark": {"master": "k8s://https://cluster:6443"}}, "spark.executorImage is needed"),
    "no way out": ({"networkPolicy": {"enabled": True}}, "egress"),
    "a variable": ({"configs": {"order-processing.yaml": PODS.replace("shop", "${NAMESPACE}")}}, "must be written out"),
    "no account": ({"serviceAccount": {"create": False}}, "serviceAccount.name is needed"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_values_that_cannot_be_meant_are_refused(program: Path, what: str) -> None:
    values, said = REFUSED[what]
    done = helm(program, "template", RELEASE, str(CHART), values=values)
    assert done.returncode != 0
    assert said in done.stderr


def test_the_notes_name_what_must_exist_and_the_commands(program: Path, tmp_path: Path) -> None:
    # Helm shows notes only when it installs. As the text of a document they are rendered like any other template.
    chart = tmp_path / CHART.name
    shutil.copytree(CHART, chart)
    (chart / "templates" / "NOTES.txt").rename(chart / "notes.txt")
    (chart / "templates" / "notes.yaml").write_text('kind: Notes\ntext: {{ tpl (.Files.Get "notes.txt") . | quote }}\n')
    done = helm(program, "template", RELEASE, str(chart), "--namespace", RELEASE, "--show-only", "templates/notes.yaml")
    assert done.returncode == 0, done.stderr
    notes = yaml.safe_load(done.stdout)["text"]
    assert "streams-recovery-connections, key kafka_default: connection kafka_default" in notes
    assert f"--from=cronjob/{RELEASE}-backup" in notes
    assert f"{RELEASE}-backup" in names(rendered(program), "CronJob")
    assert "component=restore-plan" in notes
    assert job(rendered(program, CASES["plan"]))["metadata"]["labels"]["app.kubernetes.io/component"] == "restore-plan"
