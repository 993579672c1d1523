"""A savepoint that cannot be restored is refused with the commands that show another one. Only the application's own savepoints have such commands."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streams_recovery.core.errors import Damaged, Refused
from streams_recovery.operations.restore.savepoint_checks import check_files, pieces_of, require_state
from tests.support.repository.golden import SECOND, OpenGolden


@pytest.mark.parametrize(("savepoint", "named"), [(SECOND, 2), ("20261121T020000Z-0123456789", 0)])
def test_one_without_state(golden: OpenGolden, savepoint: str, named: int) -> None:
    recovery = golden("good")
    full = recovery.savepoints.read(SECOND)
    topics = tuple(
        replace(topic, archived=False, partitions=tuple(replace(one, ranges=()) for one in topic.partitions)) for topic in full.topics
    )
    minimal = replace(full, topics=topics, savepoint_id=savepoint)
    with pytest.raises(Refused) as caught:
        require_state(recovery, minimal)
    assert caught.value.facts == {"savepoint": savepoint}
    assert len(caught.value.commands) == named


@pytest.mark.parametrize(("application_id", "commands"), [("golden", ("streams-recovery verify golden",)), ("another", ())])
def test_one_whose_files_are_missing(golden: OpenGolden, application_id: str, commands: tuple[str, ...]) -> None:
    recovery = golden("missing-segment")
    manifest = replace(recovery.savepoints.read(SECOND), application_id=application_id)
    with pytest.raises(Damaged) as caught:
        check_files(recovery, manifest, pieces_of(manifest.topics))
    assert (caught.value.facts["savepoint"], caught.value.commands, caught.value.exit_code) == (SECOND, commands, 6)
