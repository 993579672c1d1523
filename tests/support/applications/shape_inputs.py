"""Records for each shape of ``Shapes.java``, in parts: some before a savepoint, some between it and the disaster, some after the restore.

A part is a list of batches. All of a batch is processed before the next one is fed: whatever has to be there first is in an earlier batch.
"""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import Final

from tests.support.applications.shape_oracles import DIFFERENCE, GRACE, MINUTE, PARTITIONS, Given

Batches = list[list[Given]]
KEYS: Final = tuple(f"k{number}" for number in range(8))
FOREIGN: Final = tuple(f"p{number}" for number in range(5))
HOUR: Final = 3_600_000
# Where the first part begins: in the past, so that no moment of the inputs is still to come.
ZERO: Final = (time.time_ns() // 1_000_000 - 3 * HOUR) // HOUR * HOUR
# A part covers so much time, and begins a little before the end of the one before: its first records meet the last ones of that.
PART, EARLIER = 5 * MINUTE, 15_000
RECORDS: Final = 60
SIDES: Final = {
    **dict.fromkeys(("inner", "left", "outer", "tables", "foreign"), ("left", "right")),
    **dict.fromkeys(("memory", "unlogged", "suppressed", "punctuated", "ahead"), ("in",)),
    "optimized": ("table", "in"),
    "globals": ("table", "store", "in"),
    "versioned": ("table", "in"),
}
# What waits in these is over when stream time says so.
TIMED: Final = ("inner", "left", "outer", "suppressed", "punctuated")
GLOBAL_SIDES: Final = {"globals": ("table", "store")}


def part(shape: str, number: int, zero: int, *, last: bool = False) -> Batches:
    """Part ``number`` of a shape's input, from 1 on. After the ``last`` part comes a record for each partition that is late enough to end all that waits."""
    chosen = random.Random(f"{shape} {number}")
    begin = zero + (number - 1) * PART

    def records(side: str, count: int = RECORDS, earlier: int = 0) -> list[Given]:
        times = sorted(chosen.randrange(begin - (earlier if number > 1 else 0), begin + PART) for _ in range(count))
        return [
            Given(side=side, key=chosen.choice(KEYS), value=f"{side[0]}{number}.{place}", at=at, trace=f"{number}.{place}")
            for place, at in enumerate(times)
        ]

    match shape:
        case "inner" | "left" | "outer":
            # In the order of their time: a record whose window is over when it comes is told to be alone at once, whatever comes later.
            found = [sorted(records("left", earlier=EARLIER) + records("right", earlier=EARLIER), key=lambda one: one.at)]
        case "tables":
            found = [_shuffled(chosen, [_gone(chosen, one) for one in records("left", 8) + records("right", 8)])]
        case "foreign":
            left = [replace(one, value=f"{chosen.choice(FOREIGN)}:{one.value}") for one in records("left", 5)]
            right = [replace(one, key=chosen.choice(FOREIGN)) for one in records("right", 3)]
            found = [_shuffled(chosen, [_gone(chosen, one) for one in left + right])]
        case "punctuated":
            # One record of a key and a millisecond.
            found = [
                [replace(one, at=one.at // RECORDS * RECORDS + place, value=str(1 + place)) for place, one in enumerate(records("in"))]
            ]
        case "optimized":
            found = [[_gone(chosen, one) for one in records("table", 20)] if number < 3 else [], records("in")]
        case "globals":
            found = [records("table", 20) + records("store", 20) if number == 1 else [], records("in")]
        case "versioned":
            # Older versions may come after newer ones.
            found = [_shuffled(chosen, [_gone(chosen, one) for one in records("table")]), records("in", 20) if number == 1 else []]
        case _:
            found = [records("in")]
    return [batch for batch in found if batch] + ([_closing(shape, zero)] if last and shape in TIMED else [])


def news(zero: int) -> list[Given]:
    """What becomes of the global topics while the application is down."""
    return [
        Given(side=side, key=key, value=f"news{side[0]}.{key}", at=zero + 2 * PART) for side in GLOBAL_SIDES["globals"] for key in KEYS[::2]
    ]


def questions(zero: int, parts: int) -> list[Given]:
    """Records of a stream that ask for the versions of each part, and of later times."""
    return [
        Given(side="in", key=key, value=f"q{place}", at=zero + place * MINUTE // 2)
        for key in KEYS
        for place in range((parts + 1) * PART * 2 // MINUTE)
    ]


def _closing(shape: str, zero: int) -> list[Given]:
    late = zero + 4 * PART + DIFFERENCE + GRACE
    side = SIDES[shape][0]
    wanted = {
        partition: next(key for key in KEYS if Given(side=side, key=key, value="", at=0).partition == partition)
        for partition in range(PARTITIONS)
    }
    return [Given(side=side, key=key, value="0", at=late, trace="closing") for key in wanted.values()]


def _gone(chosen: random.Random, record: Given) -> Given:
    return replace(record, value=None) if chosen.random() < 0.1 else record


def _shuffled(chosen: random.Random, records: list[Given]) -> list[Given]:
    chosen.shuffle(records)
    return records
