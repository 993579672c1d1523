"""Topic configurations: reading the overrides, changing them, and seeing the change arrive."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, but its stubs do not say so
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)

Changes = Mapping[str, Mapping[str, str | None]]
# What to alter of a topic with these overrides: None deletes one, and nothing is to be altered when it is empty.
Change = Callable[[Mapping[str, str]], Mapping[str, str | None]]

_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000


def read_overrides(client: AdminClient, topics: Iterable[str], *, timeout: float, broker: int | None = None) -> dict[str, dict[str, str]]:
    """Overrides set on each topic itself, as ``broker`` (any, when None) has them. Raises the client's errors, also for one topic only.

    Broker-wide dynamic defaults are not overrides: putting those back on a topic would pin them there.
    """
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    if not resources:
        return {}
    options = {} if broker is None else {"broker": broker}
    answers = client.describe_configs(resources, request_timeout=timeout, **options)
    return {resource.name: _topic_entries(future.result()) for resource, future in answers.items()}


def read_in_force(client: AdminClient, topics: Iterable[str], *, timeout: float) -> dict[str, dict[str, str]]:
    """Every setting of each topic as it is in force, defaults included. Raises the client's errors, also for one topic only."""
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    answers = client.describe_configs(resources, request_timeout=timeout) if resources else {}
    return {resource.name: _values(future.result()) for resource, future in answers.items()}


def read_broker_settings(client: AdminClient, broker: int, *, timeout: float) -> dict[str, str]:
    """The settings of one broker, secret ones left out. Raises the client's errors."""
    resource = ConfigResource(ResourceType.BROKER, str(broker))
    return _values(client.describe_configs([resource], request_timeout=timeout, broker=broker)[resource].result())


def topic_defaults(broker: Mapping[str, str]) -> dict[str, str]:
    """What a topic without overrides has on a broker with these settings, by the names of a topic's: how long records are kept, and when they are
    compacted.
    """
    times = (("log.retention.ms", 1), ("log.retention.minutes", _MINUTE_MS), ("log.retention.hours", _HOUR_MS))
    # Of the three, a broker goes by the finest that is set (KafkaConfig#logRetentionTimeMillis). Below zero means for ever.
    retention = next((int(broker[name]) * factor for name, factor in times if name in broker), -1)
    return {
        "cleanup.policy": broker.get("log.cleanup.policy", "delete"),
        "retention.ms": str(max(retention, -1)),
        "min.compaction.lag.ms": broker.get("log.cleaner.min.compaction.lag.ms", "0"),
    }


def read_topic_setting(client: AdminClient, topic: str, name: str, *, timeout: float) -> str:
    """A setting in force on one topic, whoever set it. Raises the client's errors, and ``KeyError`` when the broker does not tell it."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entries = client.describe_configs([resource], request_timeout=timeout)[resource].result()
    return str(entries[name].value)


def alter(client: AdminClient, changes: Changes, *, timeout: float) -> None:
    """Send an incremental alter: None deletes an override, keys that are not named stay as they are. Raises the client's errors."""
    resources = [
        ConfigResource(ResourceType.TOPIC, topic, incremental_configs=_operations(settings)) for topic, settings in changes.items()
    ]
    for future in client.incremental_alter_configs(resources, request_timeout=timeout).values():
        future.result()


def _values(entries: Mapping[str, ConfigEntry]) -> dict[str, str]:
    return {name: str(entry.value) for name, entry in sorted(entries.items()) if entry.value is not None}


def _topic_entries(entries: Mapping[str, ConfigEntry]) -> dict[str, str]:
    # The stubs call a source an enumeration; it is its number.
    return {
        name: str(entry.value)
        for name, entry in sorted(entries.items())
        if ConfigSource(entry.source) is ConfigSource.DYNAMIC_TOPIC_CONFIG and entry.value is not None
    }


def _operations(settings: Mapping[str, str | None]) -> list[ConfigEntry]:
    return [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET)
        for key, value in settings.items()
    ]
