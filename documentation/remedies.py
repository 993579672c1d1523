"""The page of remedies: everything that this program tells people to do, with the condition, the words, and the tests that carry it out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from documentation.messages import cell
from streams_recovery.core.remedies import access, groups, locks, remedy, restores, savepoints, topics, transactions
from streams_recovery.core.remedies.remedy import ADMIN_PROPERTIES, Remedy

MARK: Final = "remedy"
# Each is made by the function that people get theirs from, so the page has the words that are shown.
EXAMPLES: Final[tuple[Remedy, ...]] = tuple(
    one for room in (transactions, groups, topics, restores, locks, access, savepoints, remedy) for one in room.examples()
)
_HEAD: Final = f"""\
# Every remedy

<!-- Made with the site from plugins/streams_recovery/core/remedies. Change the texts there. -->

What commands, checks, advice and alerts tell people to do.
Each is made by a function that is given what its condition needs, so it is not shown where it would do harm.
The texts and commands below are made by the same functions, for an example.
The tests that are named carry it out. Where nothing on a cluster changes by it, they show when it is given.

Commands of Kafka's own tools have `--command-config {ADMIN_PROPERTIES}` where the connection is secured.
That file has what a client of an administrator needs to connect: `security.protocol`, and the settings that begin with `sasl.` and `ssl.`.

"""


def problems(examples: Iterable[Remedy], marks: Mapping[str, list[str]]) -> list[str]:
    """What is wrong with the remedies, by the marks. Empty when nothing is."""
    kinds = list(dict.fromkeys(one.kind for one in examples))
    ids = [kind.id for kind in kinds]
    found = [f"two kinds of remedies have the id {name}" for name in sorted({name for name in ids if ids.count(name) > 1})]
    found += [f"{name} is no kind of remedy" for name in sorted(marks.keys() - {*ids})]
    return found + [f"no test carries out {name}" for name in dict.fromkeys(ids) if not marks.get(name)]


def remedies_page(marks: Mapping[str, list[str]], examples: Iterable[Remedy] = EXAMPLES) -> str:
    """The page as Markdown."""
    by_id: dict[str, list[Remedy]] = {}
    for one in examples:
        by_id.setdefault(one.kind.id, []).append(one)
    return _HEAD.rstrip() + "\n" + "".join(line for name in sorted(by_id) for line in _section(by_id[name], marks.get(name, [])))


def _section(examples: list[Remedy], tests: list[str]) -> Iterator[str]:
    kind = examples[0].kind
    yield f"\n## {kind.id}\n\nOnly when this is true: {cell(kind.condition)}\n"
    for one in examples:
        yield f"\n- {cell(one.text)}\n"
        if one.commands:
            mark = "    # not run here\n" if any(command.startswith("kafka-") for command in one.commands) else ""
            commands = mark + "".join(f"    {line}\n" for command in one.commands for line in command.splitlines())
            yield f"\n    ```sh\n{commands}    ```\n"
    yield "\nCarried out by " + ", ".join(f"`{test}`" for test in tests) + ".\n"
