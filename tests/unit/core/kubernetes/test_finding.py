"""Which workload runs an application: the one that has its whole id in its environment, and never one whose id begins like it."""

from __future__ import annotations

from typing import Any

from streams_recovery.core.kubernetes.finding import workloads_of


def workload(name: str, *containers: dict[str, Any], **labels: str) -> tuple[str, dict[str, Any]]:
    metadata = {"name": name, "namespace": "shop", "labels": {key.replace("_", "."): value for key, value in labels.items()}}
    return "deployment", {"metadata": metadata, "spec": {"template": {"spec": {"containers": list(containers)}}}}


def container(name: str = "app", ports: tuple[int, ...] = (), args: tuple[str, ...] = (), **env: str) -> dict[str, Any]:
    ported = [{"containerPort": one} for one in ports]
    return {"name": name, "ports": ported, "args": list(args), "env": [{"name": key, "value": value} for key, value in env.items()]}


def test_the_environment_tells_the_container_its_port_and_its_directory() -> None:
    mine = workload("any", container("proxy"), container("main", (8080,), APP_ID="orders", STREAMS_STATE_DIR="/var/lib/orders/state"))
    other = workload("orders", container(APP_ID="orders-eu"), app="orders")
    (found,) = workloads_of("orders", [other, mine])
    assert (found.namespace, found.workload, found.container, found.port) == ("shop", "deployment/any", "main", 8080)
    assert (found.state_directory, found.because) == ("/var/lib/orders/state", "its environment has APP_ID=orders")


def test_an_argument_tells_it_too_and_a_label_only_where_nothing_else_does() -> None:
    (by_argument,) = workloads_of("orders", [workload("a", container(args=("--id", "orders"))), workload("b", container(), app="orders")])
    assert (by_argument.workload, by_argument.because) == ("deployment/a", "orders is one of its arguments")
    assert not by_argument.by_label
    (by_label,) = workloads_of(
        "orders", [workload("b", container(ports=(1, 2)), app="orders"), workload("c", container(), app="orders-eu")]
    )
    assert by_label.by_label
    assert (by_label.workload, by_label.port, by_label.because) == ("deployment/b", None, "its label app is orders")


def test_a_directory_that_no_configuration_takes_is_not_told() -> None:
    for directory in ("state", "/state", "/var/../x/y"):
        (found,) = workloads_of("orders", [workload("a", container(ID="orders", STATE_DIR=directory))])
        assert found.state_directory is None
    assert workloads_of("orders", []) == ()
