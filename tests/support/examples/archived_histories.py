"""What may happen to the logs, the archiver and the savepoints of ``archived_logs``, in any order: a history for each seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from streams_recovery.core.archive.log import ArchiveEvent, extended
from tests.support.examples.archived_logs import PARTITIONS, World

Step = Callable[[World, random.Random], object]


def _number(chance: random.Random) -> int:
    return chance.randrange(PARTITIONS)


def _count(chance: random.Random) -> int:
    return chance.randint(1, 30)


STEPS: Final[dict[str, Step]] = {
    "write": lambda world, chance: world.write(_number(chance), _count(chance)),
    "write much": lambda world, chance: world.write(_number(chance), 3 * _count(chance)),
    "open a transaction": lambda world, chance: world.write(_number(chance), _count(chance), opened=True),
    "commit": lambda world, chance: world.commit(_number(chance)),
    "expire": lambda world, chance: world.expire(_number(chance), _count(chance)),
    "expire to an exact end": lambda world, chance: world.expire_to(_number(chance), chance.randrange(3)),
    "elect another leader": lambda world, chance: world.elect(_number(chance)),
    "elect one without the newest records": lambda world, chance: world.truncate(_number(chance), _count(chance)),
    "make the topic again": lambda world, _: world.recreate() if world.savepoint is not None else None,
    "look": lambda world, _: world.look(),
    "look again": lambda world, _: world.look(),
    "look while retention deletes": lambda world, chance: world.look(lose=chance.randint(0, 8)),
    "look and die": lambda world, _: world.look(crash=True),
    "look and have nothing stored": lambda world, _: world.look(fail=True),
    "go on behind the newest savepoint": lambda world, _: world.go_on() if world.entries else None,
    "join": lambda world, _: world.join() if world.entries else None,
    "save what is archived": lambda world, _: world.save(takes=True),
    "save": lambda world, _: world.save(takes=False),
    "begin": lambda world, _: world.begin(),
}
# One in so many is a topic that is made again: most histories are of one log.
_RARE: Final = {"make the topic again": 4}


def live_through(seed: int) -> None:
    """The history of this seed. Raises ``AssertionError`` with all of its steps where something does not hold that must."""
    chance = random.Random(seed)
    world = World()
    world.write(0, 3)
    world.save(takes=False)
    names: list[str] = []
    try:
        for _ in range(chance.randint(15, 60)):
            name = chance.choice(list(STEPS))
            if chance.randrange(_RARE.get(name, 1)):
                continue
            names.append(name)
            world.now += 10
            STEPS[name](world, chance)
            world.check()
        names.append("at last")
        settled(world)
    except AssertionError as error:
        raise AssertionError(f"history {seed}: {', '.join(names)}: {error}") from error


def settled(world: World) -> None:
    """An archiver that begins, and has looked at all there is. What is there already is not copied once more each minute."""
    world.begin()
    look_at_all(world)
    copies = world.copies
    for minute in range(4):
        # Once it may find that a savepoint goes on where the archive does not.
        copies = world.copies if minute == 1 else copies
        world.now += 60
        world.go_on()
        look_at_all(world)
        world.check()
    assert world.copies == copies, "nothing is copied again while nothing happens"
    if world.savepoint is None or world.savepoint.topics[0].topic_id != world.logs[0].topic_id:
        return
    if any(image.leader_epoch != log.epoch for image, log in zip(world.savepoint.topics[0].partitions, world.logs, strict=True)):
        return
    found = extended(world.savepoint, world.archive)
    assert found is None or found.left == (), "the archive goes on behind every savepoint"


def look_at_all(world: World) -> None:
    """As many looks as it takes: one copies no more than its limit."""
    for _ in range(40):
        world.now += 10
        world.look()
        if world.entries[-1].event is ArchiveEvent.STILL:
            break
