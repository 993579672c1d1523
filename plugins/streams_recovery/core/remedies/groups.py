"""How to look at a group, and which of its settings are the group's own, by its protocol.

A group of the streams protocol has its session time-out and its standby replicas from the broker, and one of the consumer protocol its session time-out: what
the application sets is ignored. A group of the classic protocol has both from its application.
"""

from __future__ import annotations

from typing import Final

from streams_recovery.core.group_members import WHAT_TO_DO
from streams_recovery.core.remedies.remedy import KafkaTool, KafkaTools, Remedy, RemedyKind
from streams_recovery.core.words import command

MEMBERS: Final = RemedyKind(
    id="group-members",
    condition="The command asks each group by the group's own protocol. Kafka's own tools know groups of some protocols only: to others a group is not there.",
)
STANDBY: Final = RemedyKind(
    id="group-standby-stop", condition="The application is paused for savepoints, which it does not survive with a standby replica."
)
SETTING: Final = RemedyKind(
    id="group-setting",
    condition="The broker has the setting for groups of this protocol, as it reports the kind of the group; else the application has it.",
)
STRANGERS: Final = RemedyKind(
    id="group-strangers", condition="The group has members that no known instance accounts for, and whose session has not timed out."
)
# Kafka's default, for the application and for both protocols.
_SESSION_MS: Final = 45_000


def see_members(name: str, group_id: str) -> Remedy:
    """See who is in a group of the cluster that the configuration ``name`` is for."""
    return Remedy(
        kind=MEMBERS, text="see who is in the group", commands=(command("groups", "describe", name, "--group", group_id, "--members"),)
    )


def know_members(*commands: str) -> Remedy:
    """Members of processes that the configuration does not know. ``commands`` show them."""
    return Remedy(kind=STRANGERS, text=WHAT_TO_DO, commands=commands)


def shorten_session(tools: KafkaTools, group_id: str, protocol: str) -> Remedy:
    """Notice the death of a member sooner. ``protocol`` is the ``kind`` of the group's description."""
    at_broker = protocol in ("streams", "consumer")
    return _setting(tools, group_id, protocol if at_broker else None, "session.timeout.ms", _SESSION_MS, "application.session_timeout_ms")


def add_standby(tools: KafkaTools, group_id: str, protocol: str, *, pauses: bool) -> Remedy:
    """Keep a second copy of the state, on another instance. An application that ``pauses`` for savepoints fails when it is resumed with one (KAFKA-20731)."""
    if pauses:
        text = "with one, this application cannot be paused for a savepoint (KAFKA-20731): set backup.consistency.mode to stop, and look here again"
        return Remedy(kind=STANDBY, text=text)
    return _setting(tools, group_id, protocol if protocol == "streams" else None, "num.standby.replicas", 1, "application.standby_replicas")


def _setting(tools: KafkaTools, group_id: str, at_broker: str | None, name: str, value: int, key: str) -> Remedy:
    if at_broker is None:
        return Remedy(kind=SETTING, text=f"set {name}={value} in the application, and write it as {key}")
    entity = ("--alter", "--entity-type", "groups", "--entity-name", group_id)
    return Remedy(
        kind=SETTING,
        text=f"set {at_broker}.{name}={value} of the group at the broker, and write it as {key}: a group of the {at_broker} protocol does not take it from "
        "the application",
        commands=(tools.command(KafkaTool.CONFIGS, *entity, "--add-config", f"{at_broker}.{name}={value}"),),
    )


def examples() -> tuple[Remedy, ...]:
    """For the page of remedies, each made as people get theirs."""
    tools = KafkaTools("broker:9092", secured=False)
    return (
        see_members("orders", "orders-prod"),
        know_members(),
        *(shorten_session(tools, "orders-prod", protocol) for protocol in ("streams", "classic")),
        *(add_standby(tools, "orders-prod", protocol, pauses=False) for protocol in ("streams", "classic")),
        add_standby(tools, "orders-prod", "streams", pauses=True),
    )
