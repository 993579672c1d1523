"""Who may do what: rights on a cluster, as Kafka's own tool grants them, and the users of Airflow that a configuration names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from streams_recovery.core.remedies.remedy import KafkaTool, KafkaTools, Remedy, RemedyKind

GRANT_NAMES: Final = RemedyKind(
    id="right-by-name", condition="The cluster says that the user of the connection lacks this right on what the command names."
)
GRANT_PREFIX: Final = RemedyKind(
    id="right-by-prefix",
    condition="The user lacks this right on internal topics, also on those that are made later, and every group of the cluster was seen: no other "
    "application's id begins like this one's. Else a prefix gives no more than the right to look.",
)
SEE_GROUPS: Final = RemedyKind(
    id="right-to-see-groups",
    condition="The user lacks rights on internal topics, and does not see all groups of the cluster: a prefix might give the same rights on the topics "
    "of another application. The command gives nothing but the right to look.",
)
COMPARE: Final = RemedyKind(id="right-unknown", condition="The cluster does not tell what the user of the connection may do.")
KUBERNETES: Final = RemedyKind(
    id="right-kubernetes", condition="Kubernetes says that the service account lacks this right in the namespace of the workload."
)
ROLES: Final = RemedyKind(
    id="access-roles", condition="`access.roles` is set, and the auth manager of this Airflow gives no rights on single DAGs."
)
APPROVERS: Final = RemedyKind(
    id="access-approvers", condition="`access.approvers` is set, and everybody is the same administrator of this Airflow."
)


def grant(
    tools: KafkaTools,
    principal: str,
    option: str,
    names: Iterable[str],
    operations: Iterable[str],
    *,
    prefixed: bool = False,
    proven: bool = True,
) -> Remedy:
    """Give a user rights. ``option`` names the kind of resource, ``operations`` are as `kafka-acls.sh` spells them. With ``prefixed`` a name stands for all
    that begin so; it is ``proven`` where every group of the cluster was seen and none is of another application with such an id, or only looking is allowed.
    Where it is not, the user is let see the groups first.
    """
    if prefixed and not proven:
        return _see_groups(tools, principal)
    if not prefixed:
        return Remedy(kind=GRANT_NAMES, text="grant it", commands=(acls(tools, principal, option, names, operations),))
    command = acls(tools, principal, option, names, operations, "--resource-pattern-type", "prefixed")
    return Remedy(kind=GRANT_PREFIX, text="grant it", commands=(command,))


def acls(tools: KafkaTools, principal: str, option: str, names: Iterable[str], operations: Iterable[str], *more: str) -> str:
    """The command that gives a user these operations on resources of one kind. One without a name is the cluster."""
    words = ["--add", "--allow-principal", principal]
    for operation in sorted(operations):
        words += ["--operation", operation]
    for name in names:
        words += [f"--{option}", name] if name else [f"--{option}"]
    return tools.command(KafkaTool.ACLS, *words, *more)


def _see_groups(tools: KafkaTools, principal: str) -> Remedy:
    return Remedy(
        kind=SEE_GROUPS,
        text="a prefix is safe where no other application's id begins so, which nobody sees without Describe on the cluster: give that right first, and run "
        "the preflight again for the commands that are safe then",
        commands=(acls(tools, principal, "cluster", [""], ["Describe"]),),
    )


def compare_rights() -> Remedy:
    """Nothing is known of the rights."""
    return Remedy(kind=COMPARE, text="compare the rights with docs/security.md by hand")


def grant_in_kubernetes() -> Remedy:
    """The service account lacks a right."""
    return Remedy(
        kind=KUBERNETES,
        text="write your names into include/kubernetes/rbac.yaml, which has this right, and apply it",
        commands=("kubectl apply -f include/kubernetes/rbac.yaml",),
    )


def enforce_roles() -> Remedy:
    """An Airflow that cannot enforce ``access.roles``."""
    return Remedy(
        kind=ROLES,
        text="use the FAB auth manager. Without access.roles this software restricts nobody: whoever this Airflow lets run DAGs may restore, delete and "
        "approve here; remove it only if that is meant",
    )


def enforce_approvers() -> Remedy:
    """An Airflow in which everybody is the same administrator."""
    return Remedy(
        kind=APPROVERS,
        text="let users log in (core.simple_auth_manager_all_admins = False, or another auth manager). Without access.approvers and "
        "access.approvers_exclude_trigger whoever reaches this Airflow may approve every restore, their own too; remove both only if that is meant",
    )


def examples() -> tuple[Remedy, ...]:
    """For the page of remedies, each made as people get theirs."""
    tools = KafkaTools("broker:9093", secured=True)
    return (
        grant(tools, "User:backup", "topic", ["orders"], ["Describe", "DescribeConfigs"]),
        *(
            grant(tools, "User:backup", "topic", ["orders-"], ["AlterConfigs", "Read"], prefixed=True, proven=proven)
            for proven in (True, False)
        ),
        compare_rights(),
        grant_in_kubernetes(),
        enforce_roles(),
        enforce_approvers(),
    )
