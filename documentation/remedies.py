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
# Tests that start nothing: they show when a remedy is given, and not that it helps.
_ONLY_SHOWN: Final = "tests/unit/"
# Kinds that no test carries out, each with the reason. Whoever adds a kind carries it out, or says here why nobody does.
NOT_FOLLOWED: Final[Mapping[str, str]] = {}
_HEAD: Final = f"""\
# Every remedy

<!-- Made with the site from plugins/streams_recovery/core/remedies. Change the texts there. -->

What commands, checks, advice and alerts tell people to do.
Each is made by a function that is given what its condition needs, so it is not shown where it would do harm.
The texts and commands below are made by the same functions, for an example.
The tests that are named carry it out. Unit tests only show when it is given; where there are no others, the page says why.

Commands of Kafka's own tools have `--command-config {ADMIN_PROPERTIES}` where the connection is secured.
That file has what a client of an administrator needs to connect: `security.protocol`, and the settings that begin with `sasl.` and `ssl.`.

"""


def problems(examples: Iterable[Remedy], marks: Mapping[str, list[str]], not_followed: Mapping[str, str] = NOT_FOLLOWED) -> list[str]:
    """What is wrong with the remedies, by the marks. Empty when nothing is. A unit test only shows when a remedy is given: each has to be carried out by
    another one, or is in ``not_followed``, with the reason, for as long as nobody carries it out.
    """
    kinds = list(dict.fromkeys(one.kind for one in examples))
    ids = [kind.id for kind in kinds]
    found = [f"two kinds of remedies have the id {name}" for name in sorted({name for name in ids if ids.count(name) > 1})]
    found += [f"{name} is no kind of remedy" for name in sorted(marks.keys() - {*ids})]
    found += [f"{name} is excused, and no kind of remedy" for name in sorted(not_followed.keys() - {*ids})]
    found += [f"{name} is excused without a reason" for name, reason in sorted(not_followed.items()) if not reason.strip()]
    for name in dict.fromkeys(ids):
        tests = marks.get(name, [])
        followed = any(not test.startswith(_ONLY_SHOWN) for test in tests)
        if not tests or not (followed or name in not_followed):
            found.append(f"no test carries out {name}" + (", those that are marked are unit tests" if tests else ""))
        if followed and name in not_followed:
            found.append(f"{name} is excused, and a test carries it out")
    return found


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
            mark = "    # not run here\n" if any(command.startswith(("kafka-", "kubectl ")) for command in one.commands) else ""
            commands = mark + "".join(f"    {line}\n" for command in one.commands for line in command.splitlines())
            yield f"\n    ```sh\n{commands}    ```\n"
    named = ", ".join(f"`{test}`" for test in tests)
    if all(test.startswith(_ONLY_SHOWN) for test in tests) and kind.id in NOT_FOLLOWED:
        yield f"\nNot carried out: {NOT_FOLLOWED[kind.id]} Shown by {named}.\n"
    else:
        yield f"\nCarried out by {named}.\n"
