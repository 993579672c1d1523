"""A page for each DAG, made from the DAG as Airflow reads it: what it does, what it stops, its form, its graph and its tasks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from documentation.dag_facts import FACTS, DagFacts
from documentation.graph import Node, drawn

EXAMPLE: Final = "order-processing"
_MADE: Final = "<!-- Made by `make pages` from dags/{name}.py and documentation/dag_facts.py. -->\n"
# What several DAGs have alike is on the page of all of them.
_PARAMS: Final = "Params of several DAGs"
_TASKS: Final = "Tasks of several DAGs"
_FORM_HEAD: Final = "| param | title | value | default | |\n|---|---|---|---|---|\n"
_TASKS_HEAD: Final = "| task | what it does | tried again | limit of one attempt |\n|---|---|---|---|\n"
_TYPES: Final = {"boolean": "yes or no", "integer": "a number", "array": "a list", "string": "text"}


def dags_in(folder: Path) -> dict[str, Any]:
    """The DAGs of a folder by the names of their files. Airflow must have a home before this is called."""
    from airflow.dag_processing.dagbag import DagBag  # noqa: PLC0415 - it makes its home when it is imported

    bag = DagBag(str(folder))
    if bag.import_errors:
        raise ValueError(f"DAGs cannot be read: {bag.import_errors}")
    return {dag_id.removesuffix(f"_{EXAMPLE}"): dag for dag_id, dag in sorted(bag.dags.items())}


def dag_files(dags: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every file below docs/dags, with its text."""
    params, tasks = _of_several([_params(dags[name]) for name in FACTS]), _of_several([_tasks(dags[name]) for name in FACTS])
    yield "index.md", _index(dags, params, tasks)
    for name in FACTS:
        yield f"{name}.md", _page(name, dags[name], FACTS[name], params, tasks)
        for group, svg in _graphs(name, dags[name], FACTS[name]):
            yield f"{picture_of(name, group)}", svg


def picture_of(name: str, group: str) -> str:
    """The file name of a graph."""
    return f"{name}{'-' if group else ''}{group}.svg"


def _of_several(rows: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """What at least two DAGs say alike of a param or a task, by its name without its group. Only the page of all DAGs has it."""
    found = Counter(pair for each in rows for pair in dict.fromkeys((_alone(name), cells) for name, cells in each.items()))
    most = {name: cells for (name, cells), count in reversed(found.most_common()) if count > 1 and not cells.startswith("| - |")}
    return {name: most[name] for name, _ in found if name in most}


def _alone(name: str) -> str:
    return name.rpartition(".")[2]


def _index(dags: Mapping[str, Any], params: Mapping[str, str], tasks: Mapping[str, str]) -> str:
    rows = [
        f"| [{_title(name, dags[name])}]({name}.md) | {dags[name].description.replace('order-processor', 'an application')} | {facts.when} | {facts.stops} |"
        for name, facts in FACTS.items()
    ]
    return (
        "# DAGs\n\n"
        + _MADE.format(name="*")
        + "\nThose with `<name>` exist once for each configured application, the others once for all.\n"
        "`streams_configuration_<name>` appears only while a configuration cannot be used: see [Airflow](../airflow.md#streams_configuration_name).\n\n"
        "| DAG | what it does | when it runs | what it stops |\n|---|---|---|---|\n"
        + "\n".join(rows)
        + f"\n\n## {_PARAMS}\n\n{_FORM_HEAD}"
        + "".join(f"| `{key}` {cells}\n" for key, cells in params.items())
        + f"\n## {_TASKS}\n\n{_TASKS_HEAD}"
        + "".join(f"| *{task}* {cells}\n" for task, cells in tasks.items())
    )


def _title(name: str, dag: Any) -> str:
    return f"`{name}_<name>`" if dag.dag_id != name else f"`{name}`"


def _page(name: str, dag: Any, facts: DagFacts, shared_params: Mapping[str, str], shared_tasks: Mapping[str, str]) -> str:
    approval = any(task.endswith("approve") for task in dag.task_ids)
    rows = [
        ("When", facts.when),
        ("Stops", facts.stops),
        ("For how long", facts.how_long),
        *([("Approval", "*approve* shows the plan and waits for a person")] if approval else []),
        ("More", f"[{_name_of(facts.more)}](../{facts.more})"),
    ]
    command = (
        f"The same from a terminal:\n\n```\n{facts.command}\n```\n\n" if facts.command else "The command line has no command for this.\n\n"
    )
    return "".join(
        [
            f"# {_title(name, dag)}\n\n",
            _MADE.format(name=name),
            "\n",
            _linked(dag.doc_md.strip()),
            "\n\n| its runs | |\n|---|---|\n",
            *(f"| {what} | {text} |\n" for what, text in rows),
            "\n",
            command,
            _form(_params(dag), shared_params),
            *_graph_sections(name, dag, facts),
            "## Tasks\n\n",
            _rows(_tasks(dag), shared_tasks, _TASKS, _TASKS_HEAD, "*"),
        ]
    )


def _name_of(link: str) -> str:
    file, _, part = link.partition("#")
    return (part or file.removesuffix("/README.md").removesuffix(".md").rpartition("/")[2]).replace("-", " ")


def _linked(text: str) -> str:
    return re.sub(r"docs/([\w/-]+\.md)", r"[\1](../\1)", text)


def _form(params: Mapping[str, str], shared: Mapping[str, str]) -> str:
    return f"## Form\n\n{_rows(params, shared, _PARAMS, _FORM_HEAD, '`')}\n" if params else ""


def _rows(rows: Mapping[str, str], shared: Mapping[str, str], heading: str, head: str, mark: str) -> str:
    """A table of what only this DAG has, behind the names of what several have."""
    alike = list(dict.fromkeys(_alone(name) for name, cells in rows.items() if shared.get(_alone(name)) == cells))
    own = [f"| {mark}{name}{mark} {cells}\n" for name, cells in rows.items() if shared.get(_alone(name)) != cells]
    link = f"[{heading}](index.md#{heading.lower().replace(' ', '-')}): {', '.join(f'{mark}{name}{mark}' for name in alike)}.\n"
    return "\n".join([*([link] if alike else []), *([head + "".join(own)] if own else [])])


def _params(dag: Any) -> dict[str, str]:
    params = {key: dag.params.get_param(key) for key in dag.params}
    return {
        key: f"| {param.schema.get('title', '')} | {_value(key, param)} | {_default(key, param)} | {_cell(param.description or '')} |"
        for key, param in params.items()
    }


def _value(key: str, param: Any) -> str:
    schema = param.schema
    if key in {"application", "source"} or (key == "savepoint" and "enum" in schema):
        return "a configured application"
    if labels := schema.get("values_display"):
        return "<br>".join(f"`{value or 'empty'}`: {_after_colon(label)}" for value, label in labels.items())
    if schema.get("format") == "date-time":
        return "a moment with its time zone"
    types = schema.get("type", "string")
    kind = next((one for one in ([types] if isinstance(types, str) else types) if one != "null"), "string")
    return _TYPES[kind]


def _after_colon(label: str) -> str:
    return _cell(label.partition(": ")[2] or label)


def _default(key: str, param: Any) -> str:
    value = param.value
    if key == "application" or value is None or value == "":
        return "-"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _graph_sections(name: str, dag: Any, facts: DagFacts) -> Iterator[str]:
    yield "## Graph\n\n"
    for group, _ in _graphs(name, dag, facts):
        if group:
            yield f"### {group}\n\n"
        yield f"![The tasks of {name}{' ' if group else ''}{group} and their order]({picture_of(name, group)})\n\n"


def _groups(dag: Any) -> list[str]:
    """Groups whose names begin task ids, and the tasks of no group, unless that is only the one which chooses among groups."""
    alone = [task for task in dag.task_ids if "." not in task]
    groups = list(dict.fromkeys(task.split(".")[0] for task in dag.task_ids if "." in task))
    return ["", *groups] if len(alone) > 1 or not groups else groups


def _graphs(name: str, dag: Any, facts: DagFacts) -> Iterator[tuple[str, str]]:
    down = _down(dag, facts.down)
    for group in _groups(dag):
        tasks = [task for task in dag.topological_sort() if task.task_id.rpartition(".")[0] == group]
        names = {task.task_id: task.task_id.removeprefix(f"{group}.") for task in tasks}
        after = {names[task.task_id]: [names[later] for later in task.downstream_task_ids if later in names] for task in tasks}
        nodes = [Node(name=names[task.task_id], colour=_colour(task, down), edge=_edge(task, down)) for task in tasks]
        yield group, drawn(f"Tasks of {name} {group}".strip(), nodes, after)


def _down(dag: Any, pairs: Iterable[tuple[str, str]]) -> set[str]:
    found: set[str] = set()
    for first, last in pairs:
        behind = {first} | dag.get_task(first).get_flat_relative_ids(upstream=False)
        before = {last} | dag.get_task(last).get_flat_relative_ids(upstream=True)
        found |= behind & before
    return found


def _colour(task: Any, down: set[str]) -> str:
    if task.task_id.endswith("approve"):
        return "e"
    if task.task_id in down:
        return "d"
    return _kind(task) or "a"


def _edge(task: Any, down: set[str]) -> str:
    return _kind(task) if task.task_id in down else ""


def _kind(task: Any) -> str:
    if hasattr(getattr(task, "takes", None), "job"):
        return "b"
    return "c" if task.is_teardown else ""


def _tasks(dag: Any) -> dict[str, str]:
    rows = {}
    for task in dag.topological_sort():
        does = (
            _cell((type(task).__doc__ or "").strip().split("\n\n")[0].replace("``", "`"))
            if hasattr(task, "takes") or task.task_id.endswith("approve")
            else "-"
        )
        rows[task.task_id] = f"| {does} | {task.retries or '-'} | {_limit(task.execution_timeout)} |"
    return rows


def _limit(limit: timedelta | None) -> str:
    if limit is None:
        return "-"
    minutes = int(limit.total_seconds()) // 60
    return f"{minutes // 60} h" if minutes % 60 == 0 else f"{minutes} min"
