"""What is said of an application's first savepoint."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.restore.estimate import Estimate
from streams_recovery.core.status.first_savepoint import FirstSavepoint, first_lines
from streams_recovery.core.status.savepoint_detail import savepoint_detail
from tests.support.examples.manifests import copied, manifest_with, partition

MANIFEST = manifest_with(partition([copied(0, 5)], [], end=5))
OUTPUT = replace(MANIFEST.topics[0], name="totals", role=TopicRole.OUTPUT, archived=False)
INPUT = replace(MANIFEST.topics[0], name="orders", role=TopicRole.INPUT, archived=False)


def taking(measured: int) -> Estimate:
    return Estimate(seconds={"load": 42.0}, measured=measured)


def first(**of: object) -> FirstSavepoint:
    found = FirstSavepoint(name="shop", detail=savepoint_detail(MANIFEST), estimate=taking(0), drills=None, can_drill=True)
    return replace(found, **of)  # type: ignore[arg-type]


def said(about: str, **of: object) -> list[str]:
    return [line.removeprefix(f"{about}: ") for line in first_lines(first(**of)) if line.startswith(f"{about}: ")]


def test_what_it_has_is_counted_by_role() -> None:
    (text,) = said("it has")
    assert text == "exact state, the committed offsets, the settings of 1 topics, and the records of 1 changelog"


def test_what_it_has_not_is_named() -> None:
    lacks = said("it has not", detail=savepoint_detail(replace(MANIFEST, topics=(*MANIFEST.topics, OUTPUT, INPUT))))
    assert lacks[0].startswith("the records of outputs (totals)")
    assert any("survive the loss of the cluster: the records of orders are not archived" in one for one in lacks)
    assert lacks[-1].startswith("schemas of a registry")
    assert len(said("it has not")) == 1, "what is outside Kafka is always missing"


@pytest.mark.parametrize(
    ("of", "told"),
    [
        ({}, "about 42 s, by default rates"),
        ({"estimate": taking(3)}, "about 42 s, measured by 3 restores"),
        ({"estimate": None}, "not known before the cluster is looked at again: streams-recovery monitor shop"),
    ],
)
def test_how_long_a_restore_takes(of: dict[str, object], told: str) -> None:
    assert said("a restore takes", **of)[0].startswith(told)


@pytest.mark.parametrize(
    ("of", "told"),
    [
        ({"drills": "on Saturdays"}, ["streams-recovery drill shop, or a run of streams_drill, on Saturdays"]),
        (
            {},
            [
                "streams-recovery drill shop, or a run of streams_drill, once a week",
                "the section `drill`",
                "streams-recovery restore shop --replace --plan",
            ],
        ),
        (
            {"can_drill": False},
            ["streams-recovery restore shop --replace --plan", "streams-recovery verify shop --level full", "once a week"],
        ),
    ],
)
def test_how_it_is_tried(of: dict[str, object], told: list[str]) -> None:
    (text,) = said("try that without touching anything", **of)
    assert all(one in text for one in told)
