"""Cuts of an application that nobody holds: a transaction of a punctuation, which moves no offset, is in a cut called exact as a whole or not at all."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams_recovery.core.kafka_types import Consistency, QuiesceMode
from streams_recovery.operations.discovery import discover
from streams_recovery.operations.savepoint.capture import attempt_cut
from streams_recovery.operations.savepoint.values import Quiesced
from tests.support.applications.moving_values import Moving, Sums, moving

pytestmark = pytest.mark.kafka

KEYS = 1_000
NOT_HELD = Quiesced(
    savepoint_id="", mode=QuiesceMode.LIVE, since=0, members=(), still=False, why_not="the application was not held", assumed=()
)


@pytest.fixture
def application(bootstrap: str, tmp_path: Path) -> Iterator[Moving]:
    with moving(bootstrap, tmp_path, keys=KEYS) as found:
        yield found


@pytest.mark.deep
@pytest.mark.fault("F41")
@pytest.mark.parametrize("cuts", [40, pytest.param(1_000, marks=[pytest.mark.deep, pytest.mark.timeout(3600)])])
def test_a_live_cut_called_exact_tears_no_transaction_of_a_punctuation(application: Moving, cuts: int) -> None:
    found, sums = discover(application.recovery), Sums(application)
    labels: Counter[Consistency] = Counter()
    torn: list[int] = []
    for number in range(cuts):
        # Most cuts are made while no input comes, when no committed offset moves.
        if number % 10 == 9:
            application.feed(range(number, number + 1))
        cut = attempt_cut(application.recovery, found, NOT_HELD, number)
        labels[cut.consistency] += 1
        if cut.consistency is Consistency.EXACT and (wrong := sums.wrong(cut.readings)):
            torn.append(wrong)
    sys.stdout.write(f"of {cuts} cuts {labels[Consistency.EXACT]} were called exact, {len(torn)} of these are torn; wrong keys: {torn}\n")
    assert torn == []
    assert labels[Consistency.EXACT] > 0
