"""The request of a restore, from what a person gave for the form of its strategy: as params of a run, or as options of a command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.offsets import as_of, offset_strategy
from streams_recovery.core.forms import FieldKind, FormField, request_of
from streams_recovery.core.offsets.given_offsets import ReadFile
from streams_recovery.core.offsets.strategies import OffsetStrategy
from streams_recovery.core.restore.point_in_time import AsOf
from streams_recovery.operations.restore.strategies import RestoreStrategy

S = TypeVar("S", bound=RestoreStrategy)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestReader:
    """How what is named in a request is found: in the ``config`` of its application, another ``application`` by its name, and a file of offsets."""

    config: ApplicationConfig
    application: Callable[[str], ApplicationConfig]
    read: ReadFile

    def request(self, strategy: type[S], given: Mapping[str, Any]) -> S:
        """The request for what was ``given``, by the names of the form's fields. Raises ``ConfigInvalid`` for what names nothing."""
        readers = {
            FieldKind.APPLICATION: self._application_id,
            OffsetStrategy: self._offsets,
            AsOf: self._moment,
            AsOf | None: self._moment_if_any,
        }
        found = request_of(strategy, given, readers)
        return replace(found, safeguards=replace(found.safeguards, replace=True)) if strategy.REPLACES else found

    def _application_id(self, asked: tuple[FormField, ...], given: Mapping[str, Any]) -> str | None:
        name = given.get(asked[0].name)
        return self.application(name).application.id if name else None

    def _offsets(self, asked: tuple[FormField, ...], given: Mapping[str, Any]) -> OffsetStrategy:
        return offset_strategy(self.config, given.get(asked[0].name) or "", read=self.read)

    def _moment(self, asked: tuple[FormField, ...], given: Mapping[str, Any]) -> AsOf:
        """A moment, and what belongs to it. Empty is for the configured one."""
        moment, by = asked
        return as_of(self.config, given.get(moment.name) or "", given.get(by.name) or str(by.default))

    def _moment_if_any(self, asked: tuple[FormField, ...], given: Mapping[str, Any]) -> AsOf | None:
        return self._moment(asked, given) if given.get(asked[0].name) else None
