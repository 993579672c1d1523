"""The repository is lost, and the application comes back from its second place alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.config.backup import Mirror
from streams_recovery.core.errors import Refused
from streams_recovery.operations import maintenance, restore, second_place
from streams_recovery.operations.unfinished import restores_of
from tests.support.applications.restore_steps import end, loaded, opened, saved, verified
from tests.support.applications.savepoint_steps import publish
from tests.support.applications.small import Small, asked, reopened
from tests.support.repository.golden import checked

pytestmark = pytest.mark.kafka


@pytest.mark.way("second place")
def test_a_restore_from_the_second_place_alone_brings_the_state_back_and_is_on_record_in_a_new_first_place(
    small: Small, tmp_path: Path
) -> None:
    savepoint, ended = publish(small), end(small)
    storage = small.recovery.config.storage.model_copy(update={"mirror": Mirror(backend="filesystem", path=str(tmp_path / "second"))})
    config = small.recovery.config.model_copy(update={"storage": storage})
    home = replace(small, recovery=replace(small.recovery, config=config))
    away = replace(small, recovery=replace(small.recovery, config=config.from_second_place))
    assert maintenance.fill_mirror(home.recovery).savepoints == (savepoint,)
    with reopened(away) as found, pytest.raises(Refused, match="is not lost"):
        second_place.require_lost(found.recovery)

    (tmp_path / "repository").rename(tmp_path / "lost")
    small.recovery.cluster.delete_topics([small.changelog.topic, small.tail.topic])
    with reopened(away) as found:
        recovery = found.recovery
        assert "is not there" in second_place.require_lost(recovery)
        ticket = opened(recovery, asked(recovery, savepoint=savepoint))
        saved(recovery, ticket)
        assert loaded(recovery, ticket) == 7
        assert verified(recovery, ticket).partitions
        restore.abandon(recovery, ticket)
        assert end(found) == ended
        assert not (tmp_path / "repository").exists()
        back = maintenance.fill_mirror(recovery, back=True)
    assert savepoint in back.savepoints
    with reopened(home) as found:
        assert restores_of(found.recovery) == {ticket.restore_id}
        assert checked(found.recovery, "full", savepoint).good
