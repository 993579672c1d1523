"""Advice as a task, on a real broker."""

from __future__ import annotations

import pytest

from streams_recovery.core import codec
from streams_recovery.core.status.report import StatusFinding
from streams_recovery.operators.monitor import AdviseOperator
from tests.support.applications.counting import Counting

pytestmark = [pytest.mark.airflow, pytest.mark.kafka]


@pytest.mark.deep
def test_the_task_returns_findings_as_json_and_succeeds_whatever_it_finds(counting: Counting) -> None:
    found = AdviseOperator(task_id="advise", application_name=counting.name).execute({})  # type: ignore[typeddict-item]
    assert "settings-not-known" in {one["kind"] for one in found}
    assert [codec.decode(StatusFinding, one, where="the task's result").kind for one in found] == [one["kind"] for one in found]
