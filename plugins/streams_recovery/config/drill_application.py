"""The application that a drill restores into, as a configuration like any other."""

from __future__ import annotations

from typing import Final

from streams_recovery.config.application import Groups
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.errors import ConfigInvalid

# Behind the name of an application. No file can have such a name.
DRILL: Final = ":drill"


def drilled(config: ApplicationConfig) -> ApplicationConfig:
    """The configuration of the drill's application: another id, mapped topics, processes of its own; everything else as it is. Raises
    ``ConfigInvalid`` when there is no drill, or it is not enabled.
    """
    drill = config.drill
    if drill is None or not drill.enabled:
        raise ConfigInvalid(
            f"no drill is configured for {config.name}", next_step="write a drill section; docs/configuration.md explains its keys"
        )
    topics, names = config.topics, drill.topic_map
    mapped = {
        role: tuple(names.get(name, name) for name in given)
        for role, given in (("inputs", topics.inputs), ("outputs", topics.outputs), ("globals", topics.globals))
    }
    stores = {
        name: store if store.source is None else store.model_copy(update={"source": names.get(store.source, store.source)})
        for name, store in config.stores.items()
    }
    restore = {"topic_map": names, "consumer_group_strategy": "exact", "time_window_end": None}
    changes = {
        "name": f"{config.name}{DRILL}",
        "application": config.application.model_copy(update={"id": drill.application_id}),
        "topics": topics.model_copy(update=mapped),
        "groups": Groups(),
        "stores": stores,
        "restore": config.restore.model_copy(update=restore),
        "runs": drill.runs_as(config.runs),
        "drill": None,
        "clone": None,
    }
    return config.model_copy(update=changes)
