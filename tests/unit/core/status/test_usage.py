"""An application that is only a target is not in use, and nothing that existed is ever taken for one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streams_recovery.core.kafka_types import GroupDescription
from streams_recovery.core.status.facts import InstanceFacts, LockState, ObservedApplication
from streams_recovery.core.status.usage import seen_in_use, unused
from tests.support.examples.observed import CLUSTER, NOW, observed, summary
from tests.support.examples.status_causes import EMPTY, FAILED_RUN, QUARANTINE, QUIESCED, hold, restore

ABSENT = GroupDescription(group_id="orders", kind="absent", state="Dead", members=())
INPUTS = tuple(topic for topic in CLUSTER.topics if not topic.role.internal)
GONE = (InstanceFacts(name="one", state="gone", streams_state=None),)
NOTHING: dict[str, Any] = {
    "newest": None,
    "newest_exact": None,
    "damaged": (),
    "last_run": None,
    "lock": None,
    "restores": (),
    "quarantines": (),
    "holds": (),
    "quiesce": None,
}


def target(**changes: Any) -> ObservedApplication:
    """A target of which nothing exists, with these changes; those of ``repository`` and ``cluster`` may be mappings."""
    base = observed()
    assert base.repository is not None
    assert base.cluster is not None
    empty = replace(
        base,
        used_before=False,
        schedules=replace(base.schedules, savepoints=None),
        newest=None,
        newest_exact=None,
        repository=replace(base.repository, **NOTHING),
        cluster=replace(base.cluster, group=ABSENT, topics=INPUTS, missing=("orders-totals",)),
        application=GONE,
    )
    parts = {name: replace(getattr(empty, name), **value) for name, value in changes.items() if isinstance(value, dict)}
    return replace(empty, **changes | parts)


def test_a_target_of_which_nothing_exists_is_not_in_use() -> None:
    assert unused(target())
    assert not seen_in_use(target())
    assert unused(target(application=()))


SIGNS: dict[str, dict[str, Any]] = {
    "scheduled": {"schedules": observed().schedules},
    "a savepoint": {"newest": summary()},
    "a savepoint that cannot be read": {"repository": {"damaged": ("x",)}},
    "a run that published nothing": {"repository": {"last_run": FAILED_RUN}},
    "a run that works": {"repository": {"lock": LockState(owner="x", purpose="y", since=NOW)}},
    "a restore that is not over": {"repository": restore()["repository"]},
    "later input set aside": {"repository": {"quarantines": (QUARANTINE,)}},
    "settings held": {"repository": hold()["repository"]},
    "instances held": {"repository": {"quiesce": QUIESCED}},
    "a group without members": {"cluster": {"group": EMPTY}},
    "an internal topic": {"cluster": {"topics": CLUSTER.topics}},
    "an instance": {"application": (InstanceFacts(name="one", state="running", streams_state=None),)},
}


@pytest.mark.parametrize("sign", SIGNS.values(), ids=SIGNS)
def test_any_sign_of_it_is_enough(sign: dict[str, Any]) -> None:
    assert seen_in_use(target(**sign))
    assert not unused(target(**sign))


UNSEEN: dict[str, dict[str, Any]] = {
    **{f"no {part}": {part: None} for part in ("repository", "cluster", "application")},
    "an instance that may run": {"application": (InstanceFacts(name="one", state="unknown", streams_state=None),)},
    "seen before": {"used_before": True},
}


@pytest.mark.parametrize("doubt", UNSEEN.values(), ids=UNSEEN)
def test_in_doubt_it_is_neither(doubt: dict[str, Any]) -> None:
    assert not seen_in_use(target(**doubt))
    assert not unused(target(**doubt))
