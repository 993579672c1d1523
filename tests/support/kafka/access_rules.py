"""Access rules of a secured broker, in the words of kafka-acls.sh."""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Callable, Iterable

from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)

from streams_recovery.core.preflight.findings import PreflightFinding, blocking
from streams_recovery.kafka.clients import Clients
from tests.support.kafka.secured_broker import ADMIN, Secured


class Rules:
    """The broker's access rules, changed by its administrator."""

    def __init__(self, secured: Secured) -> None:
        self._clients = Clients(secured.connection(ADMIN), timeout=60)

    def apply(self, command: str) -> list[ACL]:
        """Do what a call of kafka-acls.sh would, given in its own words, and wait until it counts."""
        parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
        for option in ("--bootstrap-server", "--command-config", "--allow-principal"):
            parser.add_argument(option, required=True)
        parser.add_argument("--add", action="store_true", required=True)
        parser.add_argument("--operation", action="append", required=True)
        parser.add_argument("--resource-pattern-type", choices=["literal", "prefixed"], default="literal")
        parser.add_argument("--cluster", action="store_true")
        for option in ("--topic", "--group", "--transactional-id"):
            parser.add_argument(option, action="append", default=[])
        tool, *argv = shlex.split(command)
        assert tool == "kafka-acls.sh"
        given = parser.parse_args(argv)
        kinds = {ResourceType.TOPIC: given.topic, ResourceType.GROUP: given.group, ResourceType.TRANSACTIONAL_ID: given.transactional_id}
        resources = [(kind, name) for kind, names in kinds.items() for name in names]
        resources += [(ResourceType.CLUSTER, "kafka-cluster")] if given.cluster else []
        assert resources
        pattern = ACLResourcePatternType[given.resource_pattern_type.upper()]
        rules = [
            _rule(given.allow_principal, kind, name, _operation(operation), pattern)
            for kind, name in resources
            for operation in given.operation
        ]
        self.create(rules)
        return rules

    def create(self, rules: list[ACL]) -> None:
        self._clients.pure.create_acls(rules)
        self._await(rules, there=True)

    def remove(self, rules: list[ACL]) -> None:
        self._clients.pure.delete_acls([_same(rule) for rule in rules])
        self._await(rules, there=False)

    def remove_all(self, user: str) -> None:
        anything = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
        self._clients.pure.delete_acls(
            [
                ACLFilter(
                    principal=f"User:{user}",
                    host=None,
                    operation=ACLOperation.ANY,
                    permission_type=ACLPermissionType.ANY,
                    resource_pattern=anything,
                )
            ]
        )

    def close(self) -> None:
        self._clients.close()

    def _await(self, rules: list[ACL], *, there: bool) -> None:
        deadline = time.monotonic() + 60
        for rule in rules:
            while bool(self._clients.pure.describe_acls(_same(rule))[0]) is not there:
                assert time.monotonic() < deadline
                time.sleep(0.05)


def _rule(principal: str, kind: ResourceType, name: str, operation: ACLOperation, pattern: ACLResourcePatternType) -> ACL:
    return ACL(
        principal=principal,
        host="*",
        operation=operation,
        permission_type=ACLPermissionType.ALLOW,
        resource_pattern=ResourcePattern(kind, name, pattern),
    )


def _operation(spoken: str) -> ACLOperation:
    return next(one for one in ACLOperation if one.name.replace("_", "").lower() == spoken.lower())


def _same(rule: ACL) -> ACLFilter:
    pattern = rule.resource_pattern
    return ACLFilter(
        principal=rule.principal,
        host=rule.host,
        operation=rule.operation,
        permission_type=rule.permission_type,
        resource_pattern=ResourcePatternFilter(pattern.resource_type, pattern.resource_name, pattern.pattern_type),
    )


def grant(rules: Rules, look: Callable[[], Iterable[PreflightFinding]]) -> list[ACL]:
    """Follow the advice as far as it must be followed. A user who sees no other group is given nothing by a prefix but the right to look; the look after that
    gives all the rest at once.
    """
    unseen = blocking(look())
    assert not [found for found in unseen if "prefixed" in found.next_step and "--operation Describe --t" not in found.next_step]
    # Without the right to see other groups nothing is refused.
    return [
        rule
        for rule in follow(rules, look)
        if (rule.resource_pattern.resource_type, rule.operation.name) != (ResourceType.CLUSTER, "DESCRIBE")
    ]


def follow(rules: Rules, look: Callable[[], Iterable[PreflightFinding]]) -> list[ACL]:
    """Do what blocking findings say, twice, for the first may be a right to look. Nothing blocks after that."""
    granted = [rule for _ in range(2) for found in blocking(look()) for rule in rules.apply(found.next_step)]
    assert {found.kind for found in look()} <= {"cluster-loss"}
    return granted
