"""The base of every restore strategy. Each strategy is a file beside this one: what a person asks for, and what is restored then."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, ClassVar, Self

from streams_recovery.core.forms import Form
from streams_recovery.core.repository.journal import RestoreScope
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.request import NOTHING_REPLACED, REASON, Safeguards
from streams_recovery.core.words import LATEST
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.placing import RestoreSource
from streams_recovery.operations.restore.state_plan import plan_state
from streams_recovery.operations.unfinished import last_deploying
from streams_recovery.storage.savepoints import SavepointStore


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreStrategy(ABC):
    """A request for a restore, by a person. ``reason`` is kept with the report. With ``compare_keys`` changelogs are also compared key by key where every
    record was found equal already. It is stored by the name ``KIND``; ``DAG`` and ``COMMAND`` are where a person asks for it, None if a person cannot. A
    strategy that asks for ``safeguards`` or ``compare_keys`` says so with a field of its own.
    """

    KIND: ClassVar[str]
    DAG: ClassVar[str | None] = None
    COMMAND: ClassVar[str | None] = None
    # The params of the DAG, the options of the command and the fields of the page are made of it.
    FORM = Form()
    # True when what is there is replaced, whatever is asked for.
    REPLACES: ClassVar[bool] = False

    reason: Annotated[str, REASON]
    safeguards: Safeguards = NOTHING_REPLACED
    compare_keys: bool = False

    @abstractmethod
    def plan(self, recovery: RecoveryContext, mine: Mapping[str, set[str]]) -> RestorePlan:
        """The plan of what would be done now. Changes nothing. ``mine`` has the ids of topics that an earlier attempt created; those count as absent."""

    def at_cut(self, entry: int) -> Self:
        """The request for the state of this cut behind the savepoint; itself where it asks for another one, or for none."""
        return self

    @property
    def scope(self) -> RestoreScope:
        """The scope: the state, or topics beside it."""
        return RestoreScope.STATE

    @property
    def source(self) -> str:
        """The application id whose savepoints it begins from, empty for the application's own."""
        return ""

    @property
    def lost(self) -> str:
        """The site that a person says cannot be reached, empty if none."""
        return ""

    @property
    def site(self) -> str | None:
        """The site that it moves the application to, None if the application stays at its site."""
        return None

    def pinned(self, recovery: RecoveryContext, planned: RestorePlan) -> Self:
        """The request with the planned savepoint in place of ``latest``: there may be a newer savepoint by now, such as the restore's own safety savepoint.
        Archive entries are pinned too: to the planned one, or to 0 (none) for a plan that uses no archive.
        """
        savepoints = {"savepoint": planned.savepoint_id, "inputs_from": planned.part.inputs_from}
        entries = {"archive_entry": planned.part.archived, "state_entry": planned.part.state}
        named: dict[str, Any] = {}
        for wanted in fields(self):
            value = getattr(self, wanted.name)
            if wanted.name in savepoints and value == LATEST:
                named[wanted.name] = savepoints[wanted.name] or value
            elif wanted.name in entries and value is None:
                entry = entries[wanted.name]
                named[wanted.name] = 0 if entry is None else entry.entry
        return replace(self, **named)

    def savepoints(self, recovery: RecoveryContext, planned: RestorePlan) -> SavepointStore:
        """The store with the savepoint that was planned."""
        return recovery.savepoints_of(planned.source_application_id)

    def deployed_before(self, recovery: RecoveryContext, planned: RestorePlan) -> str | None:
        """The restore whose version runs on that state: another one needs a word. None where nothing needs it."""
        return last_deploying(recovery)

    def deployment(self, recovery: RecoveryContext, planned: RestorePlan) -> tuple[str, ...]:
        """The command that puts the version there that is started, empty where none is configured."""
        return () if recovery.config.deploy is None else recovery.config.deploy.command


@dataclass(frozen=True, slots=True, kw_only=True)
class StateStrategy(RestoreStrategy):
    """A strategy that brings back a state from a savepoint."""

    @abstractmethod
    def resolve(self, recovery: RecoveryContext) -> RestoreSource:
        """The state to restore, and where the inputs go on. Changes nothing; raises what the strategy does."""

    def plan(self, recovery: RecoveryContext, mine: Mapping[str, set[str]]) -> RestorePlan:
        """Raises what ``resolve`` and ``plan_state`` do."""
        return plan_state(recovery, self.safeguards, self.resolve(recovery), mine)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedStrategy(StateStrategy):
    """A strategy whose state may be that of a cut behind the savepoint, which is in the archive up to ``state_entry``, and whose inputs go on with what was
    archived behind it, up to ``archive_entry``: see ``RestoreSource``. None is any, 0 none.
    """

    archive_entry: int | None = None
    state_entry: int | None = None

    def at_cut(self, entry: int) -> Self:
        state = entry if self.state_entry is None else self.state_entry
        return replace(self, state_entry=state, archive_entry=entry if self.archive_entry is None else self.archive_entry)
