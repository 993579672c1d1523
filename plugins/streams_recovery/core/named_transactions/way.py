"""The way in which a savepoint is taken, and why it is not the better one.

By the names of transactions a cut is exact at any moment, and nothing is held for it.

That asks of an application and its cluster, in this order:

1. the guarantee exactly_once_v2;
2. the finalized feature ``transaction.version`` of the cluster, 2 or higher;
3. the right to read ``__consumer_offsets``, and a cluster that shows it;
4. the present members' last transactions, each of which has raised its producer's epoch: a client before 4.0 keeps it, also on a new cluster;
5. none of the last offsets of the group committed or deleted outside a transaction;
6. internal topics whose writers, as far as brokers remember them, are all transactional, but for those of a restore that have written nothing since; and no
   topic that the application reads and writes.

The first three are conditions that stay. The next two are what the group's partition shows of the last moments. An application that has committed nothing in
these is not refused: the cut proves them again of what it reads.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from streams_recovery.core.kafka_types import Guarantee, QuiesceMode, TopicPartition
from streams_recovery.core.named_transactions.cut import NEEDED_VERSION, EpochsStay, OffsetsByHand, VersionTooLow
from streams_recovery.core.named_transactions.readings import GroupRecord, Name
from streams_recovery.core.remedies.remedy import KafkaTools, Remedy
from streams_recovery.core.remedies.transactions import OFFSETS_TOPIC, name_transactions, read_offsets_topic, renew_client
from streams_recovery.core.words import first_names


class CaptureWay(enum.StrEnum):
    """How a savepoint is taken. ``NAMES``: while the application works, by the names of its transactions. ``LIVE``: while it works, where all its logs stand
    still for a moment. ``PAUSE`` and ``STOP``: it is held. ``DOWN``: it does not run, which holds it.
    """

    NAMES = "names"
    LIVE = "live"
    PAUSE = "pause"
    STOP = "stop"
    DOWN = "down"


class Condition(enum.StrEnum):
    """A condition of a savepoint by names, as a stable word."""

    GUARANTEE = "guarantee"
    VERSION = "transaction-version"
    READABLE = "offsets-topic"
    CLIENTS = "clients"
    ONLY_TRANSACTIONS = "only-transactions"
    WRITERS = "writers"
    LOOPS = "loops"


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A ``condition`` that is not met. ``text`` is a clause that goes on behind "because". There is no remedy where nothing is wrong."""

    condition: Condition
    text: str
    remedy: Remedy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentTransactions:
    """What the last records of a group show since its members changed: producers whose epochs ``rise`` with each transaction, a transaction that has ``kept``
    the epoch, and a partition with an offset ``outside`` transactions.
    """

    rise: frozenset[int] = frozenset()
    kept: Name | None = None
    outside: TopicPartition | None = None

    @classmethod
    def of(cls, records: Iterable[GroupRecord]) -> RecentTransactions:
        """``records`` are in their order, and the first ones may be missing."""
        found, opened = cls(), dict[int, Name]()
        for one in records:
            if one.marker is not None:
                if (name := opened.pop(one.producer_id, None)) is not None:
                    found = cls(
                        rise=found.rise | {one.producer_id} if one.epoch > name.epoch else found.rise,
                        kept=found.kept if one.epoch > name.epoch else name,
                        outside=found.outside,
                    )
            elif one.tp is None:
                # Members have changed: who wrote before may be gone.
                found, opened = cls(), {}
            elif one.transactional:
                opened.setdefault(one.producer_id, Name(one.producer_id, one.epoch))
            else:
                found = cls(rise=found.rise, kept=found.kept, outside=one.tp)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesFacts:
    """``version`` is the cluster's finalized ``transaction.version``, 0 without one. ``unreadable`` is the reason why the group's partition cannot be read,
    empty if it can; ``refused`` tells that a right is missing. ``recent`` is empty where it was not read.
    """

    tools: KafkaTools
    principal: str
    version: int
    unreadable: str = ""
    refused: bool = False
    recent: RecentTransactions = RecentTransactions()


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointWay:
    """The way of a savepoint that is taken now. ``missing`` is the first condition of one by names that is not met, None if only the mode decides."""

    way: CaptureWay
    missing: Missing | None

    @property
    def text(self) -> str:
        """The way, and why it is not the better one, as a sentence without a full stop."""
        return f"{_WAYS[self.way]}{self._why_not}"

    @property
    def shown(self) -> dict[str, str | None]:
        """The way for scripts."""
        return {"way": self.way.value, "missing": None if self.missing is None else self.missing.condition.value, "text": self.text}

    @property
    def _why_not(self) -> str:
        if self.way in (CaptureWay.NAMES, CaptureWay.DOWN):
            return ""
        if self.missing is None:
            return ". With mode live nothing would be held: its transactions have names"
        return f". Not by the names of its transactions, because {self.missing.text}"


_WAYS: Final = {
    CaptureWay.NAMES: "While the application works, by the names of its transactions: exact, and nothing is held",
    CaptureWay.LIVE: "While the application works, exact only if all its logs stand still while they are read",
    CaptureWay.PAUSE: "The application is paused for it",
    CaptureWay.STOP: "The application is stopped for it, and started again",
    CaptureWay.DOWN: "The application does not run, so nothing is held",
}


def way_of(mode: QuiesceMode, *, running: bool, missing: Missing | None) -> SavepointWay:
    """The way of a savepoint in this mode, of an application that is ``running`` or not."""
    if not running:
        return SavepointWay(way=CaptureWay.DOWN, missing=missing)
    if mode is QuiesceMode.LIVE and missing is None:
        return SavepointWay(way=CaptureWay.NAMES, missing=None)
    return SavepointWay(way=CaptureWay(mode.value), missing=missing)


def modes_text(refused: Mapping[QuiesceMode, str], no_pause_because: str | None, missing: Missing | None) -> str:
    """The modes that an application can be saved in, and why not in the others. ``refused`` are modes that its kind cannot have."""
    why_not = {QuiesceMode.PAUSE: no_pause_because or "", **refused}
    able = [f"{mode} ({_EXACT[mode](missing)})" for mode in QuiesceMode if not why_not.get(mode)]
    unable = [f"not {mode}, because {why}" for mode, why in why_not.items() if why]
    return "; ".join((", ".join(able), *unable))


_EXACT: Final[Mapping[QuiesceMode, Callable[[Missing | None], str]]] = {
    QuiesceMode.PAUSE: lambda _: "paused meanwhile",
    QuiesceMode.STOP: lambda _: "closed and started again",
    QuiesceMode.LIVE: lambda missing: (
        "exact, nothing is held" if missing is None else "nothing is held; exact only if its logs stand still"
    ),
}


def missing_guarantee(guarantee: Guarantee) -> Missing | None:
    """The first condition, which asks nothing of the cluster."""
    if guarantee is Guarantee.EXACTLY_ONCE_V2:
        return None
    return Missing(condition=Condition.GUARANTEE, text=f"{guarantee} has no transactions")


def missing_of_loops(read: Iterable[str], written: Collection[str]) -> Missing | None:
    """``read`` are topics that the application reads in whichever way, its configuration says so or its committed offsets, and ``written`` its outputs."""
    names = sorted({*read}.intersection(written))
    return Missing(condition=Condition.LOOPS, text=f"it reads {first_names(names)}, which it writes too") if names else None


def missing_writers() -> Missing:
    """An application that works at least once writes without transactions, and so does any other producer without a transactional id."""
    text = (
        "its internal topics do not show that all of their writers use transactions. Brokers remember one that does not for a day. A restore's counts only "
        "if that was one of an older release"
    )
    return Missing(condition=Condition.WRITERS, text=text)


def missing_in(facts: NamesFacts) -> Missing | None:
    """The first of the other conditions that is not met."""
    if facts.version < NEEDED_VERSION:
        return Missing(
            condition=Condition.VERSION,
            text=f"the cluster's transaction.version is {facts.version}: {VersionTooLow.because}",
            remedy=name_transactions(facts.tools),
        )
    if facts.unreadable:
        grant = read_offsets_topic(facts.tools, facts.principal) if facts.refused else None
        what = f"{facts.principal} may not read it" if facts.refused else facts.unreadable
        return Missing(condition=Condition.READABLE, text=f"{OFFSETS_TOPIC} orders them, and {what}", remedy=grant)
    recent = facts.recent
    if recent.kept is not None:
        text = f"producer {recent.kept.producer_id} has kept its epoch: {EpochsStay.because}"
        return Missing(condition=Condition.CLIENTS, text=text, remedy=renew_client())
    if recent.outside is not None:
        text = f"the offset of {recent.outside} was committed or deleted outside a transaction: {OffsetsByHand.because}"
        return Missing(condition=Condition.ONLY_TRANSACTIONS, text=text)
    return None
