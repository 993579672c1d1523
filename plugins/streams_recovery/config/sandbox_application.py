"""The application in a sandbox, as a configuration like any other: what a drill restores into, and what processes an interval again."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from streams_recovery.config.application import Groups
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.sandbox import Sandbox
from streams_recovery.core.errors import ConfigInvalid

_DRILL: Final = "drill"
_REPROCESS: Final = "reprocess"
_INTERVAL_AND_SLOT: Final = re.compile(rf"{_REPROCESS}:(\d{{8}}T\d{{6}}(?:\.\d{{3}})?Z):(\d{{1,2}})")


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxName:
    """What the sandbox of ``application`` is called where a configuration is named: ``orders:drill``, or ``orders:reprocess:<interval>:<slot>`` with an
    ``interval``. No file can have such a name.
    """

    application: str
    interval: str | None = None
    slot: int = 0

    def __str__(self) -> str:
        if self.interval is None:
            return f"{self.application}:{_DRILL}"
        return f"{self.application}:{_REPROCESS}:{self.interval}:{self.slot}"

    @classmethod
    def of(cls, text: str) -> SandboxName | None:
        """The sandbox that is named, None for the name of an application. Raises ``ConfigInvalid``."""
        application, colon, which = text.partition(":")
        if not colon:
            return None
        if which == _DRILL:
            return cls(application=application)
        if found := _INTERVAL_AND_SLOT.fullmatch(which):
            return cls(application=application, interval=found[1], slot=int(found[2]))
        raise ConfigInvalid(
            f"{text[:100]!r} names no sandbox",
            next_step=f"write {application[:60]}:{_DRILL}, or {application[:60]}:{_REPROCESS}:20261121T120000Z:0 for an interval and a slot",
        )


def drill_name(application: str) -> str:
    """What the sandbox of an application's drills is called."""
    return str(SandboxName(application=application))


def in_sandbox(config: ApplicationConfig, name: SandboxName) -> ApplicationConfig:
    """The configuration of the sandbox ``name``: another id, mapped topics, processes of its own; everything else as it is. Raises ``ConfigInvalid`` when
    none is configured, or it is not enabled.
    """
    sandbox = _sandbox(config, name)
    topics, names = config.topics, sandbox.topic_map
    mapped = {
        role: tuple(names.get(topic, topic) for topic in given)
        for role, given in (("inputs", topics.inputs), ("outputs", topics.outputs), ("globals", topics.globals))
    }
    owned = tuple(sandbox.application_id + topic.removeprefix(config.application.id) for topic in topics.owned)
    stores = {
        called: store if store.source is None else store.model_copy(update={"source": names.get(store.source, store.source)})
        for called, store in config.stores.items()
    }
    restore = {"topic_map": names, "consumer_group_strategy": "exact", "time_window_end": None}
    changes = {
        "name": str(name),
        "application": config.application.model_copy(update={"id": sandbox.application_id}),
        "topics": topics.model_copy(update={**mapped, "owned": owned, "foreign": ()}),
        "groups": Groups(),
        "stores": stores,
        "restore": config.restore.model_copy(update=restore),
        "runs": sandbox.runs_as(config.runs),
        "drill": None,
        "reprocess": None,
        "clone": None,
    }
    return config.model_copy(update=changes)


def _sandbox(config: ApplicationConfig, name: SandboxName) -> Sandbox:
    if name.interval is None:
        if config.drill is not None and config.drill.enabled:
            return config.drill.sandbox
        raise ConfigInvalid(
            f"no drill is configured for {config.name}", next_step="write a drill section; docs/configuration.md explains its keys"
        )
    if config.reprocess is None or not config.reprocess.enabled:
        raise ConfigInvalid(
            f"reprocessing is not configured for {config.name}",
            next_step="write a reprocess section; docs/configuration.md explains its keys",
        )
    try:
        return config.reprocess.sandbox(name.interval, name.slot)
    except ValueError as error:
        raise ConfigInvalid(str(error), next_step="correct the reprocess section") from error
