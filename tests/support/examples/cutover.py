"""Two applications as a switch finds them."""

from __future__ import annotations

from dataclasses import replace

from streams_recovery.core.kafka_types import Consistency, TopicPartition
from streams_recovery.core.repository.ownership import Role
from streams_recovery.core.rollout.cutover import Origin, Pair, Side, beyond

OLD, CLONE = "orders", "orders-next"


def side(application_id: str, **changes: object) -> Side:
    """One that runs and has read input to 10."""
    plain = Side(
        application_id=application_id,
        role=Role.STANDBY if application_id == CLONE else Role.LIVE,
        other=None,
        alive=("one (pid 1)",),
        unknown=(),
        clean=True,
        transactional=True,
        inputs=("in",),
        globals=("names",),
        outputs=("next.out",) if application_id == CLONE else ("out",),
        committed={TopicPartition("in", 0): 10},
        unread={},
        retired_offsets=None,
        unfinished=None,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def origin(**changes: object) -> Origin:
    """A restore of the old application's exact savepoint, proven."""
    plain = Origin(restore_id="r1", source=OLD, savepoint_id="s1", consistency=Consistency.EXACT, offsets="exact", proven=True)
    return replace(plain, **changes)  # type: ignore[arg-type]


def pair(*, old: dict[str, object] | None = None, clone: dict[str, object] | None = None, **changes: object) -> Pair:
    """Both, with nothing against any switch unless it is changed."""
    one, other = side(OLD, **(old or {})), side(CLONE, **(clone or {}))
    plain = Pair(
        old=one,
        clone=other,
        outputs={"next.out": "out"},
        starts={TopicPartition("in", 0): 0},
        lag=beyond({TopicPartition("in", 0): 10}, other.committed),
        old_ahead=beyond(one.committed, other.committed),
        clone_ahead=beyond(other.committed, one.committed),
        origin=origin(),
        old_has_read=False,
        same_cluster=True,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]
