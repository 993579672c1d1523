"""Configurations that are made from others: the application in a sandbox, for a drill or for an interval, and a clone once it is live."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Self

from streams_recovery.config.application import Groups
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.restore import Clone, real_outputs
from streams_recovery.config.sandbox import Sandbox, sandbox_problems
from streams_recovery.config.sites import names_at
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.repository.sites import PRIMARY

_DRILL: Final = "drill"
_REPROCESS: Final = "reprocess"
_INTERVAL_AND_SLOT: Final = re.compile(rf"{_REPROCESS}:(\d{{8}}T\d{{6}}(?:\.\d{{3}})?Z):(\d{{1,2}})")


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxName:
    """Name of the sandbox of ``application`` where a configuration is named: ``orders:drill``, or ``orders:reprocess:<interval>:<slot>`` with an
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
    """The name of the sandbox of an application's drills."""
    return str(SandboxName(application=application))


class SandboxApplication(ApplicationConfig):
    """The application in a sandbox, at one site. Topics with another name than those in ``own``, and internal ones, are not the sandbox's."""

    _of: ApplicationConfig
    _sandbox_name: SandboxName
    _own: dict[str, str]

    @property
    def of(self) -> ApplicationConfig:
        """The application that this is a sandbox of, as it was written."""
        return self._of

    @property
    def own(self) -> Mapping[str, str]:
        """The sandbox's names for topics of the application, by their names at the site."""
        return self._own

    @property
    def pinned_site(self) -> str | None:
        """The site that the section names, None for one that is where the application belongs."""
        return self._of.drill.site if self._sandbox_name.interval is None and self._of.drill is not None else None

    def at(self, site: str) -> Self:
        """The sandbox at a site of the application. Raises ``ConfigInvalid`` as ``in_sandbox`` does."""
        if site == PRIMARY and not self._of.sites:
            return self
        return type(self).made(self._of, self._sandbox_name, site)

    @classmethod
    def made(cls, config: ApplicationConfig, name: SandboxName, site: str) -> Self:
        """The sandbox ``name`` of an application at a site. Raises ``ConfigInvalid`` as ``in_sandbox`` does."""
        written, there = _sandbox(config, name), config.at(site)
        sandbox = written.where(config.names_at(site))
        if site != PRIMARY and (problems := sandbox_problems(config.application.id, there.topics, there.runs, sandbox)):
            raise ConfigInvalid(
                f"{name} cannot be at the site {site}: {'; '.join(problems)}",
                next_step=f"correct the section {sandbox.section}, or name a site in drill.site where it can be",
                site=site,
            )
        topics, names = there.topics, sandbox.topic_map
        mapped = {
            role: tuple(names.get(topic, topic) for topic in given)
            for role, given in (("inputs", topics.inputs), ("outputs", topics.outputs), ("globals", topics.globals))
        }
        owned = tuple(sandbox.application_id + topic.removeprefix(config.application.id) for topic in topics.owned)
        stores = {
            called: store if store.source is None else store.model_copy(update={"source": names.get(store.source, store.source)})
            for called, store in there.stores.items()
        }
        # A savepoint may have been taken at any site, and has the names of that one.
        elsewhere = {old: names.get(new, new) for old, new in names_at(config.sites, site, {}).items()}
        restore = {"topic_map": elsewhere | names, "consumer_group_strategy": "exact", "time_window_end": None}
        changes = {
            "name": str(name),
            "application": config.application.model_copy(update={"id": sandbox.application_id}),
            "topics": replace(topics, **mapped, owned=owned, foreign=()),
            "groups": Groups(),
            "stores": stores,
            "restore": there.restore.model_copy(update=restore),
            "runs": sandbox.runs_as(there.runs),
            # It would put another version under the real application.
            "deploy": None,
            "drill": None,
            "reprocess": None,
            "clone": None,
        }
        made = cls.model_construct(**({field: getattr(there, field) for field in ApplicationConfig.model_fields} | changes))
        made._of, made._sandbox_name, made._own = config, name, names  # noqa: SLF001 - it is made here
        return made


def in_sandbox(config: ApplicationConfig, name: SandboxName) -> SandboxApplication:
    """The configuration of the sandbox ``name`` of an application, which ``config`` is as it was written: another id, mapped topics, processes of its own;
    everything else as it is at the site that its section names, or at the primary one. Raises ``ConfigInvalid`` when none is configured, it is not enabled,
    or it cannot be there.
    """
    pinned = None if config.drill is None or name.interval is not None else config.drill.site
    return SandboxApplication.made(config, name, pinned or PRIMARY)


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
        "topics": replace(config.topics, outputs=tuple(real.get(name, name) for name in config.topics.outputs)),
        "restore": config.restore.model_copy(update={"topic_map": kept}),
        "runs": clone.runs_live(config.runs),
    }
    return config.model_copy(update=changes)
