"""What a clone's configuration says: whose clone it is, and how it reads once it is live, with the real outputs."""

from __future__ import annotations

from streams_recovery.config.clone import Clone, real_outputs
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.errors import ConfigInvalid


def clone_of(config: ApplicationConfig) -> Clone:
    """The clone section; ``of`` names the application. Raises ``ConfigInvalid`` when there is none."""
    if config.clone is None:
        raise ConfigInvalid(
            f"{config.name} is not configured as a clone",
            next_step="write a clone section; docs/strategies/clone.md explains it",
            application=config.name,
        )
    return config.clone


def live(config: ApplicationConfig) -> ApplicationConfig:
    """The configuration of a clone once it writes the outputs of the application it is a clone of. Raises ``ConfigInvalid`` when it is no clone."""
    clone = clone_of(config)
    real = real_outputs(config.topics, config.restore.topic_map)
    kept = {name: own for name, own in config.restore.topic_map.items() if own not in real}
    changes = {
        "topics": config.topics.model_copy(update={"outputs": tuple(real.get(name, name) for name in config.topics.outputs)}),
        "restore": config.restore.model_copy(update={"topic_map": kept}),
        "runs": clone.runs_live(config.runs),
    }
    return config.model_copy(update=changes)
