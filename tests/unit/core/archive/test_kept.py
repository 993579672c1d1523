"""Files that somebody uses: what there was when a restore was opened stays, whatever an archiver makes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streams_recovery.core.archive.log import ArchiveEntry, ArchiveEvent, kept_files
from tests.support.examples.archived_logs import World


def entries(world: World) -> list[tuple[int, ArchiveEntry]]:
    return list(reversed(list(enumerate(world.entries, 1))))


def looked(world: World, times: int) -> World:
    for _ in range(times):
        world.now += 10
        world.write(0, 5)
        world.look()
    return world


@pytest.mark.fault("F98")
def test_what_was_there_when_a_restore_was_opened_stays_when_small_files_are_joined() -> None:
    world = World()
    world.save(takes=False)
    used = looked(world, 3).archive.keys
    world.add(ArchiveEvent.KEPT)
    # A join that was at work then, and did not know.
    world.archive = replace(world.archive, boundaries={})
    world.join()
    assert not used & world.archive.keys
    assert kept_files(entries(world), since=0) == used
    later = looked(world, 3).archive.keys
    world.now += 10
    world.join()
    assert used <= kept_files(entries(world), since=0)
    assert not (later - used) & kept_files(entries(world), since=0), "what nobody said to use goes"


def test_after_its_time_what_was_used_goes() -> None:
    world = World()
    world.save(takes=False)
    looked(world, 3).add(ArchiveEvent.KEPT)
    at = world.now
    looked(world, 2).join()
    assert kept_files(entries(world), since=at)
    assert kept_files(entries(world), since=at + 1) == frozenset()
