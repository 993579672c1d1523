"""All that a savepoint holds, as it is, at another site: the way out when a cluster is lost, and the way home."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from streams_recovery.core.errors import Refused
from streams_recovery.core.forms import CONFIRM, SAVEPOINT
from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.repository.sites import SeenSite
from streams_recovery.core.restore.failover import LOST, TO, SiteMove, check_left, fewer_replicas, left_behind, left_by, stays
from streams_recovery.core.restore.parts.move import MovePart
from streams_recovery.core.restore.rebuild import Placed, target_name
from streams_recovery.core.restore.request import (
    ALLOW_AHEAD,
    ALLOW_DAMAGED,
    COMPARE_KEYS,
    DELETE,
    NOTHING_REPLACED,
    REPLACE,
    SAFETY,
    Safeguards,
)
from streams_recovery.core.words import LATEST
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.inputs_there import Allowed, inputs_there
from streams_recovery.operations.restore.placing import RestoreSource
from streams_recovery.operations.restore.strategies.from_savepoint import ChosenState, FromSavepoint, choose
from streams_recovery.operations.restore.strategies.strategy import ArchivedStrategy


@dataclass(frozen=True, slots=True, kw_only=True)
class Failover(ArchivedStrategy):
    """Move the application to the site ``to``, with the state of a savepoint: an id, or ``latest`` as for a restore. ``lost`` is the name of the site that is
    left, typed by a person when there is no proof that the application is stopped there. It is resolved with the context of the site ``to``.
    """

    KIND: ClassVar = "failover"
    DAG: ClassVar = "streams_failover"
    COMMAND: ClassVar = "failover"
    to: Annotated[str, TO]
    lost: Annotated[str, LOST] = ""
    savepoint: Annotated[str, SAVEPOINT] = LATEST
    allow_ahead: Annotated[bool, ALLOW_AHEAD] = False
    allow_damaged: Annotated[bool, ALLOW_DAMAGED] = False
    safeguards: Annotated[Safeguards, REPLACE, DELETE, SAFETY, CONFIRM] = NOTHING_REPLACED
    compare_keys: Annotated[bool, COMPARE_KEYS] = False

    @property
    def site(self) -> str:
        return self.to

    def resolve(self, recovery: RecoveryContext) -> MoveSource:
        """The state to restore, with fewer replicas where the site has fewer brokers. Raises what ``choose`` raises, and ``Refused`` if the application belongs
        to this site already, or if it is not proven stopped at the other site and no person has typed that site's name.
        """
        if recovery.site != self.to:
            raise Refused(
                f"the restore moves {recovery.application_id} to the site {self.to}, and was begun for {recovery.site}",
                next_step="nothing was changed; begin the failover again",
            )
        seen = _seen_before(recovery, self.to, self.lost)
        chosen = self._chosen(recovery, self.state_entry)
        names = {
            topic.name: target_name(
                topic, chosen.manifest, recovery.application_id, recovery.config.restore.topic_map, recovery.config.dialect
            )
            for topic in chosen.manifest.topics
        }
        present = recovery.cluster.describe_topics(list(names.values()))
        if chosen.state is not None and any(
            names[topic.name] in present for topic in chosen.manifest.topics if topic.role is TopicRole.INPUT
        ):
            # Where an offset stands in what a mirror has carried is found by the records around it, which the savepoint has.
            chosen = self._chosen(recovery, 0)
        manifest, fewer = fewer_replicas(
            chosen.manifest, factor=recovery.config.restore.replication_factor, brokers=len(recovery.cluster.broker_ids())
        )
        allowed = Allowed(ahead=self.allow_ahead, replace=self.safeguards.replace)
        there = inputs_there(recovery, manifest, names, present, seen, allowed)
        return MoveSource(
            manifest=there.manifest,
            part=MovePart(
                move=SiteMove(before=seen.site, to=self.to, lost=bool(self.lost), kept=there.kept, replaced=there.replaced),
                state=chosen.state,
            ),
            running=seen.in_use,
            archive_entry=self.archive_entry if chosen.state is None else chosen.state.entry,
            warnings=(
                *chosen.warnings,
                *(
                    f"{seen.site} cannot be asked ({one}), and is left on your word: what is left there is stopped once it answers"
                    for one in seen.unseen
                ),
                *there.proofs,
                *stays(there.kept, before=seen.site),
                *(one.text for one in fewer),
                *left_behind(manifest, names, present, before=seen.site, to=self.to),
                *_schemas(recovery),
            ),
        )

    def _chosen(self, recovery: RecoveryContext, state_entry: int | None) -> ChosenState:
        return choose(
            recovery,
            FromSavepoint(
                reason=self.reason,
                savepoint=self.savepoint,
                allow_ahead=self.allow_ahead,
                allow_damaged=self.allow_damaged,
                state_entry=state_entry,
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveSource(RestoreSource):
    """A state for another site. Its own warnings tell of the outputs there."""

    @property
    def proven_inputs(self) -> tuple[str, ...]:
        return () if self.part.move is None else self.part.move.kept

    def warnings_about(self, _placed: Sequence[Placed]) -> tuple[str, ...]:
        return ()


def _seen_before(recovery: RecoveryContext, to: str, lost: str) -> SeenSite:
    """Look at the site that the application leaves for ``to``. Raises ``Refused`` if it leaves none, and if the instances there cannot be asked and no person
    has typed the site's name. If the application belongs to ``to`` by now, an earlier failover has left the site and has begun to replace topics: then the site
    may be away.
    """
    entry = recovery.sites.entry()
    before = left_by(entry, to, application_id=recovery.application_id)
    seen = recovery.sites.look(before)
    if entry is None or entry.site != to:
        check_left(seen, lost)
    return seen


def _schemas(recovery: RecoveryContext) -> tuple[str, ...]:
    stores = sorted(name for name, store in recovery.config.stores.items() if store.wire_format == "confluent")
    if not stores:
        return ()
    text = f"records of the stores {', '.join(stores)} name their schemas by the ids of a schema registry: the registry that the application asks at "
    return (f"{text}{recovery.site} must have the same ones under the same ids, and nothing here can look",)
