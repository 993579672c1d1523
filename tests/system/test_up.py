"""`make up SHOW=all`: what it says there is to look at is there, and `make down` leaves nothing running."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from embedded.applications import NEXT, PAST
from embedded.ports import answers
from embedded.running import _known, down, up
from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.core.jobs.spec import CutBy
from streams_recovery.core.restore.point_in_time import AsOf
from streams_recovery.core.status.report import Health
from streams_recovery.core.words import parse_moment
from streams_recovery.operations import restore
from streams_recovery.operations.context import open_context
from streams_recovery.operations.restore.strategies import AsOfMoment
from streams_recovery.operations.status import look as status_look

pytestmark = [pytest.mark.system, pytest.mark.deep, pytest.mark.timeout(1800)]


def test_everything_that_up_shows_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        assert up(tmp_path, "exactly_once_v2", everything=True) == 0
        said = capsys.readouterr().out
        [(moment, before, after)] = re.findall(r"(\S+Z) lies between savepoints (\S+) and (\S+):", said)
        assert "succeeded: streams-recovery drills" in said
        stack = _known(tmp_path)
        assert stack is not None
        connections = EnvironmentConnections({**os.environ, **stack.variables})
        with open_context(stack.config(), connections) as first:
            assert {before, after} <= set(first.savepoints.ids())
            source = first.application_id
        asked = AsOfMoment(reason="test", source=source, as_of=AsOf(moment=parse_moment(moment), by=CutBy.TIMESTAMP), savepoint="latest")
        with open_context(stack.named(PAST), connections) as past:
            assert restore.plan(past, asked).savepoint_id == before
            assert status_look.observe(past, None).health is Health.UNUSED
        with open_context(stack.named(NEXT), connections) as clone:
            assert status_look.observe(clone, None).health is Health.UNUSED
    finally:
        down(tmp_path)
    assert not answers(stack.ports.broker)
