"""Which settings a topic gets that a restore makes: every override that its owner had set, but those of the place and those that the target does not take. What
is left out stands in the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from streams_recovery.core.topic_settings import of_the_place
from streams_recovery.core.words import first_names


class Override(NamedTuple):
    """A setting of a topic with a value."""

    name: str
    value: str

    def __str__(self) -> str:
        return f"{self.name}={self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSettings:
    """The settings of topics at the cluster where they are made. ``refused`` are overrides that it does not take, with its reason."""

    refused: Mapping[Override, str] = field(default_factory=dict)


def to_ask(configs: Iterable[Mapping[str, str]]) -> frozenset[Override]:
    """The overrides among ``configs`` that a target has to be asked for."""
    return frozenset(Override(name, value) for config in configs for name, value in config.items() if not of_the_place(name))


def restored_overrides(config: Mapping[str, str], target: TargetSettings) -> dict[str, str]:
    """The overrides that a topic gets again whose owner had set ``config``."""
    return {name: value for name, value in config.items() if not of_the_place(name) and Override(name, value) not in target.refused}


def left_out(configs: Mapping[str, Mapping[str, str]], target: TargetSettings) -> tuple[str, ...]:
    """Warnings about overrides that do not come back, of topics with their ``configs``."""
    topics: dict[Override, list[str]] = {}
    for topic, config in configs.items():
        for name, value in config.items():
            topics.setdefault(Override(name, value), []).append(topic)
    here = [(override, names) for override, names in sorted(topics.items()) if of_the_place(override.name)]
    refused = [(override, names) for override, names in sorted(topics.items()) if override in target.refused]
    return (
        *(
            f"{override} of {first_names(names)} is not set again: it belongs to the cluster that the topic was on; set it by hand where it is meant here too"
            for override, names in here
        ),
        *(
            f"{override} of {first_names(names)} is not set again, this cluster does not take it ({target.refused[override]}): what it has by default counts"
            for override, names in refused
        ),
    )
