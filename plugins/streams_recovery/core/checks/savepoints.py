"""Checks of what savepoints need beside settings: transactions that end, topics that are the application's, and records of the repository that are believed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from streams_recovery.core.checks.check import CatalogueCheck, CheckPlace, Found, Occasion, Severity
from streams_recovery.core.remedies.remedy import KafkaTools
from streams_recovery.core.remedies.savepoints import attribute, correct_clock, seal_records, survive_cluster_loss
from streams_recovery.core.remedies.transactions import HangingTransaction, abort
from streams_recovery.core.repository.seal import NOT_SEALED
from streams_recovery.core.words import command, first_names

_IN_RUNS: Final = (Occasion.SAVEPOINT, Occasion.RESTORE)
# Ids in a text.
_NAMED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class HangingFacts:
    """Transactions that hang. A savepoint waits for those on topics that it ``waits_for``; of inputs it takes what was committed."""

    tools: KafkaTools
    hanging: tuple[HangingTransaction, ...]
    waits_for: frozenset[str]


def _hanging(facts: HangingFacts, _place: CheckPlace) -> Iterator[Found]:
    """Each may be aborted on its partition: it never ends by itself, and no other partition waits for its end."""
    for one in facts.hanging:
        what = ", no exact savepoint can be taken" if one.tp.topic in facts.waits_for else ""
        yield Found(
            severity=Severity.CRITICAL,
            subject=str(one.tp),
            text=f"a transaction hangs on {one.tp} from offset {one.start_offset} on: {one.proof}. It never ends by itself{what}, and readers of "
            "committed records stop there",
            remedy=abort(facts.tools, [one]),
            numbers={"start_offset": float(one.start_offset)},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributionGaps:
    """Internal ``topics`` that may be another application's. ``name`` is that of the configuration."""

    name: str
    application_id: str
    topics: tuple[str, ...]


def _unattributed(facts: AttributionGaps, _place: CheckPlace) -> Iterator[Found]:
    if facts.topics:
        yield Found(
            severity=Severity.WARNING,
            text=f"nothing but the name says that {first_names(facts.topics)} {'is' if len(facts.topics) == 1 else 'are'} {facts.application_id}'s: saved, and "
            "no restore and no rebuild deletes or replaces what is not proven to be",
            remedy=attribute(facts.application_id),
            commands=(command("preflight", facts.name, "--for", "backup"),),
            numbers={"topics": float(len(facts.topics))},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FutureRecords:
    """``ids`` of savepoints and restores with a time that has not come. ``keys`` are the objects of the last savepoints among them, where they are known."""

    name: str
    ids: tuple[str, ...]
    keys: tuple[str, ...]


def _ahead(facts: FutureRecords, _place: CheckPlace) -> Iterator[Found]:
    if facts.ids:
        more = f" and {len(facts.ids) - _NAMED} more" if len(facts.ids) > _NAMED else ""
        yield Found(
            severity=Severity.WARNING,
            text="these savepoints and restores have a time that has not come, and none of them is taken for the newest: "
            f"{', '.join(facts.ids[-_NAMED:])}{more}",
            remedy=correct_clock(facts.keys) if facts.keys else None,
            commands=(command("verify", facts.name),),
            numbers={"ids": float(len(facts.ids))},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLoss:
    """The ``lost`` parts of an application after a loss of its cluster, as reasons. ``what`` is the beginning of a sentence, and ``promised`` is
    ``backup.survive_cluster_loss``. ``commands`` show the savepoint, where it is about one.
    """

    what: str
    lost: tuple[str, ...]
    promised: bool
    commands: tuple[str, ...]


def _lost_with_cluster(facts: ClusterLoss, place: CheckPlace) -> Iterator[Found]:
    promised = ", although backup.survive_cluster_loss is true" if facts.promised else ""
    why = f": {facts.lost[0]}" if facts.lost else ""
    yield Found(
        severity=Severity.CRITICAL if facts.promised else Severity.INFO,
        text=f"{facts.what} not survive the loss of the cluster{promised}{why}",
        # Of one that was taken there may be other reasons than what is configured.
        remedy=None if place.asked is Occasion.LOOK else survive_cluster_loss(),
        commands=facts.commands,
        numbers={"reasons": float(len(facts.lost))},
    )


def _not_sealed(sealed: bool, _place: CheckPlace) -> Iterator[Found]:
    if not sealed:
        yield Found(
            severity=Severity.WARNING,
            text=NOT_SEALED.removesuffix("."),
            remedy=seal_records(),
            commands=(command("seal-key", "seal.key"),),
        )


HANGING: Final = CatalogueCheck(
    "Does a transaction hang?",
    _hanging,
    tuple(CheckPlace(asked=asked, kind="transaction-hanging") for asked in (*_IN_RUNS, Occasion.LOOK)),
    severities=(Severity.CRITICAL,),
)
UNATTRIBUTED: Final = CatalogueCheck(
    "Is it known whose the internal topics are?",
    _unattributed,
    (
        *(CheckPlace(asked=asked, kind="unattributed") for asked in _IN_RUNS),
        CheckPlace(asked=Occasion.LOOK, kind="topics-unattributed", severity=Severity.INFO),
    ),
)
AHEAD: Final = CatalogueCheck(
    "Has the time of every savepoint come?",
    _ahead,
    (CheckPlace(asked=Occasion.SAVEPOINT, kind="repository"), CheckPlace(asked=Occasion.LOOK, kind="ids-ahead")),
)
CLUSTER_LOSS: Final = CatalogueCheck(
    "Does an application survive the loss of its cluster?",
    _lost_with_cluster,
    (
        CheckPlace(asked=Occasion.SAVEPOINT, kind="cluster-loss", severity=Severity.WARNING),
        CheckPlace(asked=Occasion.LOOK, kind="lost-with-cluster"),
    ),
    severities=(Severity.CRITICAL, Severity.INFO),
)
SEALS: Final = CatalogueCheck(
    "Are records believed by their seals?",
    _not_sealed,
    (
        *(CheckPlace(asked=asked, kind="not-sealed") for asked in _IN_RUNS),
        CheckPlace(asked=Occasion.LOOK, kind="not-sealed", severity=Severity.INFO),
    ),
)
