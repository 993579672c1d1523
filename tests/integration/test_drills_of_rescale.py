"""A drill that tries other numbers of partitions: it proves, places, loads and starts, and neither the application nor its part of the repository notice."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.cli import runs
from streams_recovery.cli.runner import Runner
from streams_recovery.config.sandbox_application import drill_name
from streams_recovery.core.errors import Refused
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.restore.parts.rescale import RescalePart
from streams_recovery.core.restore.report import RestoreReport
from streams_recovery.core.sandbox.drill import DrillEntry
from streams_recovery.core.state.edit import default_partition
from streams_recovery.engine.submitter import Submitter
from streams_recovery.operations.maintenance.contents import leftovers
from streams_recovery.storage.json_object import read_value
from tests.support.applications.counting import Counting

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(300)]
# Of two partitions the program knows the first: letters that lie there, and one that does not.
HERE = [letter for letter in "abcdefghijklmnopqrstuvwxyz" if default_partition(letter.encode(), 2) == 0]
ELSEWHERE = next(letter for letter in "abcdefghijklmnopqrstuvwxyz" if letter not in HERE)


@pytest.fixture
def app(bootstrap: str, tmp_path: Path) -> Iterator[Counting]:
    """An application with two partitions of everything, a savepoint, and a drill that gives it three."""
    found = Counting(bootstrap=bootstrap, directory=tmp_path)
    configured(found, {found.input.topic: 3})
    with found.recovery() as recovery:
        for topic, policy in ((found.input.topic, "delete"), (found.output.topic, "delete"), (found.changelog.topic, "compact")):
            recovery.cluster.create_topic(
                topic, partitions=2, replication_factor=1, config={"cleanup.policy": policy, "retention.ms": "-1"}
            )
    yield found
    found.tidy()


def configured(app: Counting, numbers: dict[str, int], *, copied: bool = True) -> None:
    scratch, source, output = f"drill-{app.id}", f"drill.{app.input.topic}", f"drill.{app.output.topic}"
    app.configure(
        topics={"inputs": [app.input.topic], "outputs": [app.output.topic], "include": [app.input.topic]},
        restore={"catch_up_timeout_seconds": 30},
        drill={
            "schedule": "none",
            "application_id": scratch,
            "topic_map": {app.output.topic: output, **({app.input.topic: source} if copied else {})},
            "partitions": numbers,
            "command": app.programs("drill", group=scratch, source=source if copied else None, output=output),
        },
    )


def drilled(app: Counting, submitter: Submitter) -> tuple[DrillEntry, BaseException | None, RestoreReport | None]:
    with app.recovery() as own, app.recovery(drill_name(app.name)) as scratch:
        done = runs.drill(
            own,
            Runner(recovery=scratch, submitter=submitter, say=print),
            runs.Requester(run_id=uuid.uuid4().hex, requested_by="test"),
            savepoint_id="latest",
        )
        entry, layout = done.entry, scratch.layout
        report = (
            read_value(own.repository, RestoreReport, layout.report(entry.restore_id)) if entry.succeeded and entry.restore_id else None
        )
        assert scratch.application_id not in own.cluster.groups()
        assert own.lock.holder() is None
    return entry, done.error, report


def test_a_drill_tries_other_numbers_and_leaves_the_application_as_it_was(app: Counting, in_session: Submitter) -> None:
    app.worked("".join(HERE[:3] + HERE[:2]))
    savepoint = app.savepoint(in_session)
    before, committed = app.topics(), app.committed()
    entry, error, report = drilled(app, in_session)
    assert (error, entry.succeeded, entry.savepoint_id) == (None, True, savepoint)
    assert report is not None
    assert isinstance(report.part, RescalePart)
    [log] = [one for one in report.part.rescaled.logs if one.topic == app.changelog.topic]
    assert (log.old, log.new, log.keys_before, log.keys_after) == (2, 3, 3, 3)
    assert log.digest_before == log.digest_after
    assert report.rows == 5, "every record of the changelog was compared"
    assert (app.topics(), app.committed(), app.running) == (before, committed, False), "the application was not touched"
    with app.recovery() as own:
        assert own.savepoints.ids() == [savepoint], "nothing was published"
        assert leftovers(own).staged == ()
        days = own.config.retention.grace_days + 1
        old = leftovers(replace(own, clock=lambda: entry.began_at + days * 86_400_000 + 600_000)).staged
        assert {file.key.split("/")[0] for file in old} == {f"drill-{app.id}"}, (
            "expiry takes what was placed, and nothing of the application"
        )


def test_records_that_obey_no_form_are_told_before_anything_is_made(app: Counting, in_session: Submitter) -> None:
    app.worked(HERE[0] + ELSEWHERE)
    app.savepoint(in_session)
    before = app.topics()
    entry, error, _ = drilled(app, in_session)
    assert not entry.succeeded
    assert app.changelog.topic in str(error)
    assert (app.topics(), entry.left, entry.reached) == (before, (), Phase.SAVED)


def test_an_input_that_a_drill_would_read_as_it_is_keeps_its_number(app: Counting, in_session: Submitter) -> None:
    app.worked(HERE[0])
    app.savepoint(in_session)
    before = app.topics()
    for numbers, copied, why in (({app.input.topic: 3}, False, "cannot be copied"), ({app.output.topic: 3}, True, "neither an input")):
        configured(app, numbers, copied=copied)
        entry, error, _ = drilled(app, in_session)
        assert isinstance(error, Refused)
        assert why in str(error)
        assert (entry.succeeded, entry.restore_id, app.topics()) == (False, None, before)
