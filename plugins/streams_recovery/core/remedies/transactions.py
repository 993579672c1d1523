"""What to do about transactions that have not ended.

One that is open at its coordinator ends by itself: its producer ends it, or the coordinator aborts it after the producer's ``transaction.timeout.ms``. To abort
it on one partition would tear it apart: it could still be committed on the others. Only one that its coordinator does not have open on a partition hangs there.
Nothing but an abort ends it, and its records on that partition are lost with it, also where it was committed on others.

An abort needs Read on the topic and Alter on the cluster (KIP-1037), and Cluster Action in place of Alter before Kafka 3.8.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.remedies.access import acls
from streams_recovery.core.remedies.remedy import KafkaTool, KafkaTools, Remedy, RemedyKind

WAIT: Final = RemedyKind(
    id="transaction-wait", condition="The coordinator has the transaction open: somebody still ends it, on all of its partitions."
)
ABORT: Final = RemedyKind(
    id="transaction-abort",
    condition="The coordinator was asked, and does not have the transaction open on this partition; its leader, asked before and after, has.",
)
FIND: Final = RemedyKind(
    id="transaction-find",
    condition="Nobody knows whether it hangs: this connection does not see its transactional id, or nobody has asked for it.",
)
RAISE_VERSION: Final = RemedyKind(
    id="transaction-version",
    condition="The application works exactly once, and the cluster's finalized transaction.version is below 2, so that its transactions have no names.",
)
READ_OFFSETS: Final = RemedyKind(
    id="transaction-offsets-topic",
    condition="The application works exactly once on a cluster that gives transactions names, and this user may not read the topic that orders them.",
)
RENEW_CLIENT: Final = RemedyKind(
    id="transaction-client",
    condition="The cluster gives transactions names, and a transaction of the application was seen that has kept its producer's epoch.",
)
COMMITTED: Final = "CompleteCommit"
# Where transactions commit offsets.
OFFSETS_TOPIC: Final = "__consumer_offsets"
_ACCESS: Final = " (this needs Read on the topic and Alter on the cluster, before Kafka 3.8 Cluster Action)"


@dataclass(frozen=True, slots=True, kw_only=True)
class HangingTransaction:
    """Made only where a coordinator was asked, and does not have this transaction open on the partition. ``state`` is what it says of its producer."""

    tp: TopicPartition
    start_offset: int
    state: str | None

    @property
    def proof(self) -> str:
        """Why it hangs."""
        return f"its coordinator, in state {self.state}, does not have it open there"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction that holds back one partition. ``start_offset`` is its first offset there, ``state`` what its coordinator says of its producer.
    ``age_seconds``, by this machine's clock, is known where the coordinator has it open.

    It is ``hanging`` when its coordinator does not have it open there: then it never ends, unless its producer writes there again. A transaction without a
    ``transactional_id`` is not called hanging. No coordinator lists its producer: that has expired, or the connection may not describe it.
    """

    tp: TopicPartition
    producer_id: int
    producer_epoch: int
    start_offset: int
    transactional_id: str | None
    state: str | None
    hanging: bool
    age_seconds: float | None

    @property
    def proven(self) -> HangingTransaction | None:
        """The proof that it hangs, None if it does not hang or if that is unknown."""
        return HangingTransaction(tp=self.tp, start_offset=self.start_offset, state=self.state) if self.hanging else None

    def __str__(self) -> str:
        owner = self.transactional_id or "its transactional id has expired, or this connection may not see it"
        if (hangs := self.proven) is not None:
            return f"{self.tp}: producer {self.producer_id} ({owner}) hangs from offset {self.start_offset} on: {hangs.proof}"
        age = "of unknown age" if self.age_seconds is None else f"open for {self.age_seconds:.0f} s"
        return f"{self.tp}: producer {self.producer_id} ({owner}), {age}, from offset {self.start_offset}"


def abort(tools: KafkaTools, hanging: Sequence[HangingTransaction], *, most: int = 200) -> Remedy:
    """End those that hang, with commands for the first ``most``. A producer that writes on there begins nothing new, and its next marker ends both."""
    committed = any(one.state == COMMITTED for one in hanging)
    was = (
        "its coordinator has committed what this producer wrote on other partitions"
        if committed
        else "it may be committed on other partitions"
    )
    return Remedy(
        kind=ABORT,
        text=f"stop its producer, then abort it{_ACCESS if tools.secured else ''}. The abort takes its records from this partition, and {was}: where the "
        "application wrote it, restore a savepoint from before it afterwards; where another program did, have it write these records again",
        commands=tuple(_abort(tools, one) for one in hanging[:most]),
    )


def _abort(tools: KafkaTools, one: HangingTransaction) -> str:
    where = ("--topic", one.tp.topic, "--partition", str(one.tp.partition), "--start-offset", str(one.start_offset))
    return tools.command(KafkaTool.TRANSACTIONS, "abort", *where)


def wait(tools: KafkaTools, transactional_ids: Iterable[str], *, most: int = 20) -> Remedy:
    """Let those that are open end. The commands show the first ``most``."""
    return Remedy(
        kind=WAIT,
        text="wait until its producer ends it, or its coordinator does once the producer's transaction.timeout.ms is over; or close its producer. Do not abort "
        "it on single partitions: it may be committed on the others",
        commands=tuple(
            tools.command(KafkaTool.TRANSACTIONS, "describe", "--transactional-id", name) for name in sorted({*transactional_ids})[:most]
        ),
    )


def find(tools: KafkaTools, topics: Iterable[str], *, most: int = 20) -> Remedy:
    """Find out whether any hangs on ``topics``. Kafka's tool takes one whose transactional id the user may not see for one that hangs."""
    return Remedy(
        kind=FIND,
        text="try again in a few minutes: one that is only open ends by itself. If it stays, let an administrator who may describe every transactional id look "
        "for those that hang for more than 15 minutes: to others Kafka names open ones too. Stop the producer of one that hangs before you abort it",
        commands=tuple(tools.command(KafkaTool.TRANSACTIONS, "find-hanging", "--topic", name) for name in sorted({*topics})[:most]),
    )


def end(tools: KafkaTools, *, hanging: Sequence[HangingTransaction], open_ids: Collection[str], unseen: Collection[str]) -> Remedy:
    """The first step for a log that several transactions hold back: abort those that are proven to hang; else find the unknown ones; else wait for open
    ones.
    """
    if hanging:
        return abort(tools, hanging)
    return wait(tools, open_ids) if open_ids and not unseen else find(tools, unseen)


def name_transactions(tools: KafkaTools) -> Remedy:
    """A cluster whose producers keep their epochs. Brokers before 4.0 do not know the level, and every client goes on working with it."""
    return Remedy(
        kind=RAISE_VERSION,
        text="raise it to 2, once all brokers are at Kafka 4.0 or newer and the upgrade of the cluster is finalized",
        commands=(tools.command(KafkaTool.FEATURES, "upgrade", "--feature", "transaction.version=2"),),
    )


def read_offsets_topic(tools: KafkaTools, principal: str) -> Remedy:
    """A user without the right to read the topic with the offsets of all groups."""
    return Remedy(
        kind=READ_OFFSETS,
        text="grant it, if this user may know the offsets and the members of every group of the cluster",
        commands=(acls(tools, principal, "topic", [OFFSETS_TOPIC], ["Describe", "Read"]),),
    )


def renew_client() -> Remedy:
    """An application with a client that ends its transactions as Kafka did before 4.0."""
    return Remedy(kind=RENEW_CLIENT, text="run the application with Kafka Streams 4.0 or newer")


def examples() -> tuple[Remedy, ...]:
    """For the page of remedies, each made as people get theirs."""
    tools = KafkaTools("broker:9092", secured=True)
    tp = TopicPartition("orders-totals-changelog", 3)
    return (
        wait(tools, ["orders-6f2c0f7e-1b43-4a55-9a8e-0c3f52f0b7d1-1"]),
        *(abort(tools, [HangingTransaction(tp=tp, start_offset=1_042, state=state)]) for state in (COMMITTED, "CompleteAbort")),
        find(tools, [tp.topic]),
        name_transactions(tools),
        read_offsets_topic(tools, "User:backup"),
        renew_client(),
    )
