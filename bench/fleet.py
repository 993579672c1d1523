"""What a fleet costs on one Airflow: a savepoint of each of many applications, all due at once, in seconds of processors, and how late the last one is.

    PYTHONPATH=plugins:. .venv/bin/python bench/fleet.py [--applications 20] [--records 100000] [--database URL] [--monitor] [--restore] [--tasks]

One broker and one Airflow, with its services started as `make up` starts them. With SQLite the scheduler is turned away, and ends, where many runs are due at
once. ``--database postgresql://user@127.0.0.1/name`` is an empty database of PostgreSQL on this machine, for whose drivers PYTHONPATH is looked through; its
processes count too, and its transactions are told.

Each application has a changelog of four partitions and takes a first savepoint, then one of so many new records. Processor time is read in /proc: of Airflow's
services, of each task by its name, of jobs, and the broker's apart. ``--monitor`` measures one look of the monitor at all of them too, ``--restore`` the
restore of the first one, ``--tasks`` shows the seconds of each task. It asserts nothing about time.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import statistics
import subprocess
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from bench.speed import PROGRAM, bench
from bench.starts import App
from embedded.airflow import SERVICES, Airflow
from embedded.airflow_client import AirflowClient
from embedded.airflow_database import migrate
from embedded.processes import Processes
from embedded.stack import Plain, Ports, Stack

PARTITIONS: Final = 4
FEW: Final = 20
_LOOK_SECONDS: Final = 0.1
_IDLE_SECONDS: Final = 20.0
_PATIENCE: Final = 3600.0
_TICK: Final = os.sysconf("SC_CLK_TCK")
_TASK: Final = re.compile(r"airflow worker -- ([0-9a-f-]{36})")
_REQUEST: Final = re.compile(r"/execution/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet(Stack):
    """A stack whose configuration files are those of other applications than the example."""

    applications: Mapping[str, Plain]

    def _configurations(self, _first: Plain) -> dict[str, Plain]:
        return dict(self.applications)


class AirflowOn(Airflow):
    """An Airflow on another database than SQLite."""

    def __init__(self, stack: Stack, services: Processes, url: str) -> None:
        super().__init__(stack, services)
        self._url = url

    def prepare(self, environment: dict[str, str]) -> None:
        migrate(environment)

    def environment(self) -> dict[str, str]:
        found = super().environment()
        return {
            **found,
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": self._url.replace("postgresql:", "postgresql+psycopg2:", 1),
            "PYTHONPATH": os.pathsep.join([found["PYTHONPATH"], os.environ.get("PYTHONPATH", "")]),
        }


def asked_of(database: str, query: str) -> int:
    """A number that PostgreSQL answers."""
    return int(subprocess.run(["psql", database, "-Atc", query], capture_output=True, text=True, check=True).stdout.split()[0])


@dataclass(frozen=True, slots=True)
class Seen:
    """A process as it was seen last: seconds of its own, and those of its children that have ended."""

    parent: int
    own: float
    ended: float


def processes() -> dict[int, Seen]:
    """All that run now."""
    found = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError):
                fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
                times = [int(ticks) / _TICK for ticks in fields[11:15]]
                found[int(entry.name)] = Seen(int(fields[1]), sum(times[:2]), sum(times[2:]))
    return found


class Watch:
    """The processor time of trees of processes, by what each process does. ``roots`` are the first of them, by name. What lived shorter than the time between
    two looks is in the whole, which the kernel adds up.
    """

    def __init__(self, roots: Mapping[str, int]) -> None:
        self._roots = dict(roots)
        self._used: dict[tuple[str, int], float] = {}
        self._first: dict[int, float] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._go_on, daemon=True)
        self._before = self._after = 0.0

    def __enter__(self) -> Watch:
        now = processes()
        self._first = {pid: seen.own for pid, seen in now.items()}
        self._before = self._whole(now)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._after = self._whole(processes())

    @property
    def whole(self) -> float:
        """Seconds of all of them."""
        return self._after - self._before

    def by(self, name: Callable[[str], str]) -> dict[str, float]:
        """Seconds by what a process does; ``name`` gives the task of a task instance's id. What was too short to be seen is the last one."""
        found: dict[str, float] = defaultdict(float)
        for (does, _), used in self._used.items():
            task = _TASK.match(does)
            found[name(task[1]) if task else does] += used
        return {**found, "too short to be seen": self.whole - sum(found.values())}

    def _members(self, now: Mapping[int, Seen]) -> dict[int, str]:
        """The processes of the trees, each with the name of its root."""
        roots = {pid: name for name, pid in self._roots.items()}

        def root(pid: int) -> str | None:
            while pid in now:
                if pid in roots:
                    return roots[pid]
                pid = now[pid].parent
            return None

        return {pid: name for pid in now if (name := root(pid)) is not None}

    def _whole(self, now: Mapping[int, Seen]) -> float:
        return sum(now[pid].own + now[pid].ended for pid in self._members(now))

    def _go_on(self) -> None:
        while not self._done.wait(_LOOK_SECONDS):
            now = processes()
            for pid, root in self._members(now).items():
                # A process that becomes another thing, as an idle worker a task's, gives what it has used since to that.
                does = _does(pid, root)
                if does is not None:
                    before = self._first.get(pid, 0.0) + sum(used for (_, one), used in self._used.items() if one == pid)
                    self._used[does, pid] = self._used.get((does, pid), 0.0) + max(0.0, now[pid].own - before)


def _does(pid: int, root: str) -> str | None:
    with suppress(OSError):
        line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        if task := _TASK.match(line):
            return task[0]
        if "LocalExecutor" in line:
            return "executor's supervisors"
        if "spark_jobs." in line:
            return "jobs without Spark"
        if "program.py" in line:
            return "the applications' programs"
        return root
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Runs that were due at once: seconds of processors by what used them, and of the clock, for each run, from then to its savepoint and to its end. ``steps``
    has for each task how long it waited behind what ended before it, and how long it took, in each run.
    """

    name: str
    runs: int
    steps: Mapping[str, Sequence[tuple[float, float]]]
    cpu: Mapping[str, float]
    whole: float
    broker: float
    published: Sequence[float]
    ended: Sequence[float]
    held: Sequence[float]
    tasks: int
    requests: int
    transactions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """A fleet on its Airflow."""

    client: AirflowClient
    roots: Mapping[str, int]
    broker: int
    log: Path
    database: str | None

    def round(self, name: str, wanted: Mapping[str, Mapping[str, Any]]) -> Round:
        """A run of each of these DAGs at once, with its params, to its end. Ends the program when one fails."""
        broker, asked, transactions = _own(self.broker), self._requests(), self._transactions()
        with Watch(self.roots) as watch:
            due = datetime.now(UTC)
            runs = {dag_id: self.client.trigger(dag_id, dict(conf)) for dag_id, conf in wanted.items()}
            self._wait(runs)
        asked, broker, transactions = self._requests() - asked, _own(self.broker) - broker, self._transactions() - transactions
        found = {dag_id: self._tasks(dag_id, run_id) for dag_id, run_id in runs.items()}
        names = {one["id"]: one["task_id"] for tasks in found.values() for one in tasks}
        at = [{one["task_id"]: one for one in tasks if one["end_date"]} for tasks in found.values()]
        return Round(
            name=name,
            runs=len(runs),
            steps=_steps(at),
            cpu=watch.by(lambda instance: f"task {names.get(instance, 'of another run')}"),
            whole=watch.whole,
            broker=broker,
            published=[(_moment(tasks["publish"], "end_date") - due).total_seconds() for tasks in at if "publish" in tasks],
            ended=[max((_moment(one, "end_date") - due).total_seconds() for one in tasks.values()) for tasks in at],
            held=[_held(tasks) for tasks in at if "resume" in tasks],
            tasks=len(names),
            requests=asked,
            transactions=transactions,
        )

    def idle(self) -> float:
        """Processor seconds of a second in which nothing is due."""
        with Watch(self.roots) as watch:
            time.sleep(_IDLE_SECONDS)
        return watch.whole / _IDLE_SECONDS

    def _wait(self, runs: Mapping[str, str]) -> None:
        """To their ends; one alone is approved when it asks."""
        if len(runs) == 1:
            [(dag_id, run_id)] = runs.items()
            self.client.wait(dag_id, run_id, seconds=_PATIENCE, on_change=lambda *_: None, approve=lambda _: True)
        deadline = time.monotonic() + _PATIENCE
        left = dict(runs)
        while left:
            time.sleep(2)
            going = {
                (one["dag_id"], one["dag_run_id"])
                for state in ("queued", "running")
                for one in self.client.get(f"/dags/~/dagRuns?state={state}&limit=100")["dag_runs"]
            }
            for dag_id, run_id in list(left.items()):
                if (dag_id, run_id) not in going:
                    del left[dag_id]
                    state = self.client.get(f"/dags/{dag_id}/dagRuns/{run_id}")["state"]
                    if state in ("queued", "running"):
                        left[dag_id] = run_id
                    elif state != "success":
                        raise SystemExit(f"{dag_id}: {state}, so the time means nothing\n{self.client.failures(dag_id, run_id)}")
            if time.monotonic() > deadline:
                raise SystemExit(f"{len(left)} runs did not end")

    def _tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.client.get(f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances")["task_instances"]
        return found

    def _transactions(self) -> int:
        of_this = "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()"
        return 0 if self.database is None else asked_of(self.database, of_this)

    def _requests(self) -> int:
        return len(_REQUEST.findall(self.log.read_text(errors="replace")))


def _held(tasks: Mapping[str, Mapping[str, Any]]) -> float:
    first = next(name for name in ("quiesce", "capture_cut") if name in tasks)
    return (_moment(tasks["resume"], "end_date") - _moment(tasks[first], "start_date")).total_seconds()


def _steps(runs: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, list[tuple[float, float]]]:
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for tasks in runs:
        ends = sorted(_moment(one, "end_date") for one in tasks.values())
        for name, one in sorted(tasks.items(), key=lambda item: _moment(item[1], "start_date")):
            start = _moment(one, "start_date")
            before = [end for end in ends if end <= start]
            waited = (start - before[-1]).total_seconds() if before else 0.0
            found[name].append((waited, (_moment(one, "end_date") - start).total_seconds()))
    return dict(found)


def _own(pid: int) -> float:
    return processes()[pid].own


def _moment(task: Mapping[str, Any], of: str) -> datetime:
    return datetime.fromisoformat(task[of].replace("Z", "+00:00"))


@contextmanager
def ground(directory: Path, count: int, database: str | None) -> Iterator[tuple[Ground, list[App]]]:
    """The broker, the applications and Airflow, gone at the end."""
    with bench(directory) as on, Processes(directory / "airflow-processes") as services:
        (directory / "program.py").write_text(PROGRAM)
        apps = [App(bench=on, id=f"fleet-{number:03}", partitions=PARTITIONS) for number in range(count)]
        for app in apps:
            app.build()
            app.produce(PARTITIONS, FEW)
        nothing_else = {name: {"schedule": None} for name in ("monitor", "retention", "check")}
        configurations = {app.id: app.config(app.id) | nothing_else for app in apps}
        for config in configurations.values():
            config["backup"]["schedule"] = None
        ports = replace(Ports.free(), broker=int(on.bootstrap.rpartition(":")[2]))
        stack = Fleet(directory=directory / "stack", ports=ports, guarantee="exactly_once_v2", starts=False, applications=configurations)
        airflow = Airflow(stack, services) if database is None else AirflowOn(stack, services, database)
        client = airflow.start()
        try:
            roots = {name: services.recorded()[f"airflow-{name}"][0] for name in SERVICES}
            if database is not None:
                roots["database"] = asked_of(database, "select pg_read_file('postmaster.pid')")
            yield Ground(client=client, roots=roots, broker=on.broker.pid, log=services.log("airflow-api-server"), database=database), apps
        finally:
            client.close()


def parsed(client: AirflowClient, apps: Sequence[App]) -> None:
    """Wait until each application has its DAG, and tell what parsing costs."""
    wanted = {f"streams_backup_{app.id}" for app in apps}
    deadline = time.monotonic() + _PATIENCE
    found: dict[str, float | None] = {}
    while not wanted <= set(found):
        time.sleep(2)
        page: list[dict[str, Any]] = []
        while more := client.get(f"/dags?limit=100&offset={len(page)}")["dags"]:
            page += more
        found = {one["dag_id"]: one.get("last_parse_duration") for one in page}
        if time.monotonic() > deadline:
            raise SystemExit("the DAGs were not parsed")
    took = found[min(wanted)]
    print(f"{len(found)} DAGs; the file of savepoints is parsed in {'?' if took is None else f'{took:.2f}'} s")  # noqa: T201


def show(rounds: Sequence[Round], idle: float, *, tasks: bool) -> None:
    """Print the tables."""
    console = Console(width=120)
    for one in rounds:
        if tasks:
            table = Table("task", "waited, s", "took, s", "processor s", title=f"{one.name}: medians of {one.runs} runs")
            for name, times in one.steps.items():
                waited, took = (statistics.median(column) for column in zip(*times, strict=True))
                table.add_row(name, f"{waited:.1f}", f"{took:.1f}", f"{one.cpu.get(f'task {name}', 0.0) / one.runs:.2f}")
            console.print(table)
        table = Table("processor s", "all", "a run", title=f"{one.name}: {one.runs} runs")
        for name, used in sorted(one.cpu.items(), key=lambda item: -item[1]):
            table.add_row(name, f"{used:.1f}", f"{used / one.runs:.2f}")
        table.add_row("all", f"{one.whole:.1f}", f"{one.whole / one.runs:.2f}")
        table.add_row("the broker beside", f"{one.broker:.1f}", f"{one.broker / one.runs:.2f}")
        console.print(table)
        late = f"the last run was over {max(one.ended):.0f} s after it was due, the median {statistics.median(one.ended):.0f} s"
        if one.published:
            late += f"; the last savepoint was there after {max(one.published):.0f} s"
        if one.held:
            late += f"; held {statistics.median(one.held):.1f} s, at most {max(one.held):.1f} s"
        console.print(f"{late}; {one.tasks} task instances, {one.requests} requests of tasks, {one.transactions} transactions")
    console.print(f"Airflow at rest: {idle:.3f} processor seconds a second, {idle * 3600:.0f} an hour")


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--applications", type=int, default=20)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--database")
    for name in ("--monitor", "--restore", "--tasks"):
        parser.add_argument(name, action="store_true")
    asked = parser.parse_args()
    # SIGTERM unwinds like Ctrl-C, so that everything started is stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as directory,
        ground(Path(directory), asked.applications, asked.database) as (on, apps),
    ):
        parsed(on.client, apps)
        wanted = {f"streams_backup_{app.id}": {"reason": "bench"} for app in apps}
        rounds = [on.round("first savepoints", wanted)]
        for app in apps:
            app.produce(PARTITIONS, asked.records // PARTITIONS)
        idle = on.idle()
        rounds.append(on.round(f"savepoints of {asked.records:,} new records", wanted))
        if asked.monitor:
            rounds.append(on.round("a look of the monitor", {"streams_monitor": {}}))
        if asked.restore:
            apps[0].lose()
            rounds.append(on.round("a restore", {"streams_restore_full": {"application": apps[0].id, "reason": "bench"}}))
        show(rounds, idle, tasks=asked.tasks)


if __name__ == "__main__":
    main()
