"""The plain manifests for Kubernetes, and what lies beside them: every pod is harmless, every command and file is one that the program understands."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
from croniter import croniter

from streams_recovery.config.loader import load_all
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.kubernetes.controllers import rights_needed
from streams_recovery.core.kubernetes.workload import WorkloadName
from streams_recovery.core.repository.retention import Apply
from streams_recovery.storage.seals import new_private_key
from tests.support.deploy.commands import CONFIGS, command_problems, config_files, config_problems, environment_of, parsed, spark_master
from tests.support.deploy.documents import (
    DEPLOY,
    MANIFESTS,
    Document,
    containers,
    documents_in,
    granted,
    needed,
    pod_spec,
    reference_problems,
    rules_of,
    title,
)
from tests.support.deploy.safety import safety_problems, secret_problems

FILES = sorted(MANIFESTS.glob("*.yaml"))
Break = Callable[[dict[str, Document]], object]


@pytest.fixture
def manifests() -> list[Document]:
    return documents_in(*FILES)


def kinds(documents: list[Document]) -> list[str]:
    return sorted(document["kind"] for document in documents)


def problems(documents: list[Document], directory: Path) -> list[str]:
    """Everything that is wrong with the manifests."""
    return [
        *reference_problems(documents),
        *safety_problems(documents),
        *secret_problems(documents),
        *command_problems(documents),
        *config_problems(documents, directory),
    ]


def test_the_manifests_have_nothing_wrong(manifests: list[Document], tmp_path: Path) -> None:
    rights = ["ClusterRole", "ClusterRoleBinding", "ConfigMap", "Role", "RoleBinding"]
    assert kinds(documents_in(MANIFESTS / "rights.yaml")) == rights
    assert kinds([one for one in manifests if one not in documents_in(MANIFESTS / "rights.yaml")]) == [
        "ConfigMap",
        "CronJob",
        "CronJob",
        "CronJob",
        "Job",
        "Job",
        "PodDisruptionBudget",
        "ServiceAccount",
    ]
    assert problems(manifests, tmp_path) == []


def args_of(documents: list[Document], component: str) -> list[str]:
    """What the pod of one of the jobs calls the program with."""
    (found,) = [
        one for document, one in containers(documents) if document["metadata"]["labels"]["app.kubernetes.io/component"] == component
    ]
    args: list[str] = found["args"]
    return args


def test_each_job_calls_the_command_it_is_named_for(manifests: list[Document]) -> None:
    asked = {component: parsed(args_of(manifests, component)) for component in ("backup", "check", "expire", "restore-plan", "restore")}
    assert {component: call.info_name for component, call in asked.items()} == {
        "backup": "backup",
        "check": "verify",
        "expire": "expire",
        "restore-plan": "restore",
        "restore": "restore",
    }
    assert {call.params["name"] for call in asked.values()} == {"order-processing"}
    assert asked["check"].params["level"] == "sample=10%"
    assert asked["expire"].params["as_configured"]


def test_a_restore_is_approved_by_the_plan_of_the_same_options(manifests: list[Document]) -> None:
    plan, restore = (parsed(args_of(manifests, component)).params for component in ("restore-plan", "restore"))
    assert (plan["plan_only"], plan["approve"]) == (True, None)
    assert (restore["plan_only"], restore["approve"]) == (False, 64 * "0")
    assert restore["reason"]
    differing = {name for name in plan if plan[name] != restore[name]}
    assert differing == {"plan_only", "approve", "reason"}


def test_only_one_run_at_a_time_and_only_what_may_succeed_is_tried_again(manifests: list[Document]) -> None:
    for document in manifests:
        if document["kind"] == "CronJob":
            spec = document["spec"]
            assert croniter.is_valid(spec["schedule"])
            assert spec["concurrencyPolicy"] == "Forbid"
            assert {"successfulJobsHistoryLimit", "failedJobsHistoryLimit", "timeZone"} <= spec.keys()
            (rule,) = spec["jobTemplate"]["spec"]["podFailurePolicy"]["rules"]
            assert rule["action"] == "FailJob"
            assert (rule["onExitCodes"]["operator"], rule["onExitCodes"]["values"]) == ("NotIn", [7, 20, 137, 143])
            assert rule["onExitCodes"]["containerName"] == pod_spec(document)["containers"][0]["name"]


def test_a_restore_is_never_begun_again_by_itself(manifests: list[Document]) -> None:
    jobs = {one["metadata"]["labels"]["app.kubernetes.io/component"]: one["spec"] for one in manifests if one["kind"] == "Job"}
    assert {component: spec["backoffLimit"] for component, spec in jobs.items()} == {"restore-plan": 0, "restore": 0}
    # Applied as it is, a restore does not start.
    assert (jobs["restore"]["suspend"], jobs["restore-plan"]["suspend"]) == (True, False)


def test_nobody_drains_a_node_on_which_a_restore_is_under_way(manifests: list[Document]) -> None:
    [budget] = [one["spec"] for one in manifests if one["kind"] == "PodDisruptionBudget"]
    # Of a Job's pods only a number can be asked for (the controller has no scale).
    assert budget["minAvailable"] == 1
    labels = {title(one): one["spec"]["template"]["metadata"]["labels"] for one in manifests if one["kind"] == "Job"}
    held = [name for name, found in labels.items() if budget["selector"]["matchLabels"].items() <= found.items()]
    assert [name.rpartition("-")[0] for name in held] == ["Job streams-recovery-restore"], "a plan changes nothing, and may be ended"


def test_what_a_job_writes_goes_to_the_one_directory_that_can_be_written(manifests: list[Document]) -> None:
    for document, container in containers(manifests):
        volumes = {volume["name"]: volume for volume in pod_spec(document)["volumes"]}
        writable = [mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")]
        assert writable == ["/tmp"]
        assert "emptyDir" in volumes["tmp"]
        assert container["workingDir"] == "/tmp"
        logs = parsed(container["args"]).params.get("logs")
        assert logs is None or Path("/tmp") in logs.parents, title(document)


def test_the_pods_find_configuration_and_spark(manifests: list[Document]) -> None:
    for _, container in containers(manifests):
        assert environment_of(container)["STREAMS_RECOVERY_CONFIG_DIR"] == CONFIGS
        assert CONFIGS in [mount["mountPath"] for mount in container["volumeMounts"]]
        assert spark_master(container) == "local[2]"


@pytest.fixture
def example(manifests: list[Document], tmp_path: Path) -> ApplicationConfig:
    for file, text in config_files(manifests).items():
        (tmp_path / file).write_text(text)
    return load_all(tmp_path, {}).applications["order-processing"]


def test_the_example_is_paused_for_a_savepoint_and_can_be_stopped_for_a_restore(example: ApplicationConfig) -> None:
    assert (example.quiesce_mode, example.runs.kind) == ("pause", "kubernetes")
    assert example.retention.apply is Apply.NO


def test_its_jobs_have_the_rights_for_that_and_no_others(manifests: list[Document], example: ApplicationConfig) -> None:
    runs = example.runs.kubernetes
    assert runs is not None
    workload = WorkloadName.parse(runs.workload)
    wanted = rights_needed(workload, runs.namespace, runs.record_name, stops=True, claims=runs.claims, keda=False)
    assert granted(rules_of(manifests)) == needed(wanted)
    ours = [one for one in documents_in(MANIFESTS / "rights.yaml") if not one["kind"].startswith("Cluster")]
    assert {one["metadata"]["namespace"] for one in ours} == {runs.namespace}
    assert {pod_spec(document)["automountServiceAccountToken"] for document, _ in containers(manifests)} == {True}


# Each of these is found.

BROKEN: dict[str, tuple[Break, str]] = {
    "root": (lambda m: security(m, "backup").update(runAsNonRoot=False), "may run as root"),
    "user 0": (lambda m: security(m, "backup").update(runAsUser=0), "may run as root"),
    "seccomp": (lambda m: security(m, "check").pop("seccompProfile"), "no seccomp profile"),
    "token": (lambda m: pod(m, "check").pop("automountServiceAccountToken"), "API server's token"),
    "privileges": (lambda m: own(m, "expire")["securityContext"].pop("allowPrivilegeEscalation"), "may gain privileges"),
    "capabilities": (lambda m: own(m, "expire")["securityContext"].pop("capabilities"), "has capabilities"),
    "writable": (lambda m: own(m, "restore")["securityContext"].update(readOnlyRootFilesystem=False), "can be written"),
    "version": (lambda m: own(m, "restore").update(image="streams-recovery/recovery:latest"), "has no version"),
    "memory": (lambda m: own(m, "backup").update(resources={}), "no limit of memory"),
    "account": (lambda m: pod(m, "backup").update(serviceAccountName="another"), "no ServiceAccount another"),
    "role": (lambda m: m["RoleBinding"]["roleRef"].update(name="other"), "no Role other"),
    "cluster role": (lambda m: m["ClusterRoleBinding"]["roleRef"].update(name="other"), "no ClusterRole other"),
    "configs": (lambda m: m["ConfigMap"]["metadata"].update(name="other-configs"), "no ConfigMap streams-recovery-configs"),
    "mount": (lambda m: own(m, "check")["volumeMounts"].pop(), "mounted nowhere"),
    "volume": (lambda m: pod(m, "check")["volumes"].pop(0), "no volume"),
    "long name": (lambda m: m["backup"]["metadata"].update(name="b" * 53), "longer than 52"),
    "option": (lambda m: own(m, "backup")["args"].append("--fast"), "--fast"),
    "command": (lambda m: own(m, "backup").update(args=["save", "order-processing"]), "save"),
    "level": (lambda m: own(m, "restore")["args"].extend(["--safety", "perhaps"]), "perhaps"),
    "program": (lambda m: own(m, "backup").update(command=["sh", "-c"]), "runs ['sh', '-c']"),
    "application": (lambda m: own(m, "expire").update(args=["expire", "orders"]), "orders is not configured"),
    "key": (lambda m: edit(m, "order-processing.yaml", "storage:", "store:"), "store"),
    "instances": (lambda m: m["ConfigMap"]["data"].update({"instances.json": '{"project": "x"}'}), "instances.json"),
    "file": (
        lambda m: edit(m, "order-processing.yaml", "allow_http: true", f"token_file: {CONFIGS}/other.json"),
        "other.json, which is not there",
    ),
    "seal": (
        lambda m: edit(
            m,
            "order-processing.yaml",
            "connection: aws_default",
            f"connection: aws_default\n  seal: {{public_keys: [{new_private_key()[1]!r}], connection: sealing}}",
        ),
        "has no connection sealing",
    ),
    "connection": (lambda m: edit(m, "order-processing.yaml", "aws_default", "bucket"), "has no connection bucket"),
    "password in a file": (lambda m: m["ConfigMap"]["data"].update({"a.json": '{"password": "x"}'}), "a.json has password"),
    "password in an argument": (lambda m: own(m, "backup")["args"].extend(["--reason", "password=x"]), "argument password=x"),
    "connection in clear": (lambda m: own(m, "check")["env"].append(KAFKA), "AIRFLOW_CONN_KAFKA_DEFAULT is in clear"),
    "secret in clear": (lambda m: own(m, "check")["env"].append({"name": "AWS_SECRET", "value": "x"}), "AWS_SECRET is in clear"),
}
KAFKA = {"name": "AIRFLOW_CONN_KAFKA_DEFAULT", "value": '{"conn_type": "kafka", "extra": {"sasl.password": "x"}}'}


def pod(manifests: dict[str, Document], component: str) -> Document:
    found = pod_spec(manifests[component])
    assert found is not None
    return found


def security(manifests: dict[str, Document], component: str) -> Document:
    return pod(manifests, component)["securityContext"]


def own(manifests: dict[str, Document], component: str) -> Document:
    return pod(manifests, component)["containers"][0]


def edit(manifests: dict[str, Document], file: str, old: str, new: str) -> None:
    data = manifests["ConfigMap"]["data"]
    assert old in data[file]
    data[file] = data[file].replace(old, new)


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_wrong_is_found(manifests: list[Document], tmp_path: Path, what: str) -> None:
    breaks, said = BROKEN[what]
    broken = copy.deepcopy(manifests)
    breaks(
        {
            one["metadata"]["labels"].get("app.kubernetes.io/component", one["kind"]): one
            for one in reversed(broken)
            if one["kind"] != "PodDisruptionBudget"
        }
    )
    assert any(said in problem for problem in problems(broken, tmp_path)), problems(broken, tmp_path)


# What lies beside the manifests.


def test_the_templates_of_spark_s_pods_are_harmless_too() -> None:
    driver, executor = documents_in(DEPLOY / "spark" / "driver-pod.yaml", DEPLOY / "spark" / "executor-pod.yaml")
    said = {"its root file system can be written", "has no limit of memory"}
    assert [one for one in safety_problems([driver]) if one.split(": ", 1)[1] not in said] == []
    # Spark itself sets image and memory of an executor.
    executor["spec"]["containers"][0] |= {"image": "spark:4.2.0", "resources": {"limits": {"memory": "3Gi"}}}
    assert safety_problems([executor]) == []
    assert secret_problems([driver, executor]) == []
