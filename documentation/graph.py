"""Tasks and their order as a picture: from top to bottom, one row for tasks that may run at the same time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from documentation.picture import picture

_BOX, _HEIGHT, _GAP, _SIDE, _EDGE = 172, 28, 18, 14, 30
_LEGEND: Final = (("a", "task"), ("b", "Spark job"), ("e", "waits for a person"), ("c", "always runs"), ("d", "application held or down"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A task: its name, and the class of its colour (a key of the legend). ``edge`` is the one of a stripe, where two things are true of it."""

    name: str
    colour: str = "a"
    edge: str = ""


def rows(after: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Tasks by the length of the longest way to them. ``after`` has for each task those that follow it at once, and lists tasks in their order."""
    depth = dict.fromkeys(after, 0)
    for task in after:
        for later in after[task]:
            depth[later] = max(depth[later], depth[task] + 1)
    return [[task for task in after if depth[task] == row] for row in range(max(depth.values()) + 1)]


def direct(after: Mapping[str, Collection[str]]) -> list[tuple[str, str]]:
    """The arrows that are needed: none from a task to one that another way leads to too."""
    reached: dict[str, set[str]] = {}
    for task in reversed(list(after)):
        reached[task] = set(after[task]).union(*(reached[later] for later in after[task]))
    return [
        (task, later)
        for task in after
        for later in after[task]
        if not any(later in reached[other] for other in after[task] if other != later)
    ]


def drawn(title: str, nodes: Sequence[Node], after: Mapping[str, Collection[str]]) -> str:
    """The picture. ``nodes`` are in an order in which each comes behind all that it follows."""
    lines = rows({node.name: sorted(after[node.name]) for node in nodes})
    wide = max(len(line) for line in lines)
    width = max(2, wide) * (_BOX + _SIDE) + _SIDE
    top = _EDGE * 2 + 6
    places = {
        name: ((width - len(line) * (_BOX + _SIDE) + _SIDE) / 2 + column * (_BOX + _SIDE), top + row * (_HEIGHT + _GAP))
        for row, line in enumerate(lines)
        for column, name in enumerate(line)
    }
    arrows = [_arrow(places[one], places[other], width) for one, other in direct({node.name: sorted(after[node.name]) for node in nodes})]
    boxes = [_box(node, *places[node.name]) for node in nodes]
    height = top + len(lines) * (_HEIGHT + _GAP)
    return picture(
        width, height, title, "".join([*_legend({colour for node in nodes for colour in (node.colour, node.edge)}), *arrows, *boxes])
    )


def _box(node: Node, x: float, y: float) -> str:
    edge = f'<rect class="{node.edge}" x="{x:g}" y="{y:g}" width="9" height="{_HEIGHT}" rx="3"/>' if node.edge else ""
    return (
        f'<rect class="{node.colour}" x="{x:g}" y="{y:g}" width="{_BOX}" height="{_HEIGHT}" rx="5"/>{edge}'
        f'<text class="code mid" x="{x + _BOX / 2:g}" y="{y + 18:g}">{node.name}</text>\n'
    )


def _arrow(start: tuple[float, float], end: tuple[float, float], width: int) -> str:
    x1, y1, x2, y2 = start[0] + _BOX / 2, start[1] + _HEIGHT, end[0] + _BOX / 2, end[1]
    tip = f'<path class="tip" d="M{x2:g} {y2:g}l-4 -7h8z"/>\n'
    if end[1] - start[1] <= _HEIGHT + _GAP:
        return f'<path class="flow" d="M{x1:g} {y1:g}L{x2:g} {y2 - 6:g}"/>{tip}'
    side = width - 6
    return f'<path class="flow" d="M{x1:g} {y1:g}C{side} {y1 + 12:g} {side} {y2 - 18:g} {x2:g} {y2 - 6:g}"/>{tip}'


def _legend(colours: Collection[str]) -> list[str]:
    shown = [(colour, meaning) for colour, meaning in _LEGEND if colour in colours]
    return [
        f'<rect class="{colour}" x="{8 + (number % 2) * 150}" y="{6 + number // 2 * 20}" width="12" height="12" rx="2"/>'
        f'<text class="soft" x="{26 + (number % 2) * 150}" y="{16 + number // 2 * 20}">{meaning}</text>\n'
        for number, (colour, meaning) in enumerate(shown)
    ]
