"""`make bench`: how fast savepoints and restores are, and how far that is from what librdkafka, zstd and the machine allow.

    make bench                                        everything: hours
    make bench BENCH="--quick"                        a first look: minutes
    make bench BENCH="--case 150b --case 1kb --rival ~/bin/kafka-backup"

One broker, topics of generated records, and in turn: this software's commands as a user calls them, bare librdkafka, zstd alone, and OSO kafka-backup where
``--rival`` names its program. Nothing of the generator is measured. Every round asks for all in the same order, and medians are shown. It writes
``build/bench.json``, whose tables ``--read`` shows again. It asserts nothing about time. docs/performance.md says what the figures mean.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import confluent_kafka
import psutil
from rich.console import Console
from rich.table import Table

from bench import bare, figures
from bench.bare import CASES, Case, Work, Worked
from bench.figures import BACKUP, LIMIT, RESTORE, RIVAL, ZSTD, Run, core_seconds
from bench.rival import Rival, version
from embedded import spark_start
from embedded.broker import BrokerExtras, start_broker
from embedded.ports import free_ports
from embedded.processes import Processes
from streams_recovery.core import codec
from streams_recovery.core.jobs.spec import BackupResult, RestoreResult
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.topic_holds.log import restore_hold
from streams_recovery.core.version import VERSION
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.groups import ConsumerGroups
from streams_recovery.kafka.native.library import SWITCH
from streams_recovery.kafka.native.librdkafka import native
from streams_recovery.operations.restore.load import LOAD_RESULT
from streams_recovery.operations.savepoint.values import RESULT as COPY_RESULT

PROJECT: Final = Path(__file__).resolve().parents[1]
PARTITIONS, WORKERS = 4, 2
WAYS: Final[Mapping[str, Mapping[str, str]]] = {"native": {}, "plain": {SWITCH: "off"}}
_NOT_INHERITED: Final = ("AIRFLOW", "STREAMS_RECOVERY", "PYTHONDONTWRITEBYTECODE")
_LOOK_SECONDS: Final = 0.2
_WIDTH: Final = 150
# The application: a file says whether it runs. {"verb": ...} is what it prints.
PROGRAM: Final = """
import json, pathlib, sys
file, verb = pathlib.Path(sys.argv[1]), sys.argv[2]
if verb == "start":
    file.touch()
if verb == "stop":
    file.unlink(missing_ok=True)
up = file.exists()
state = {"state": "running" if up else "gone", "streams_state": "RUNNING" if up else None, "closed_cleanly": None if up else True}
print(json.dumps({"removed": [], "remaining": []} if verb == "wipe" else [{"name": "one", "detail": "a file", **state}]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The measurements that are wanted."""

    cases: tuple[Case, ...]
    sizes: tuple[int, ...]
    ways: tuple[str, ...]
    rounds: int
    rival: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command as it ran. Seconds are of the clock and of the processors, the broker's apart; ``memory`` is the peak of a Python worker in MiB."""

    began: float
    whole: float
    cpu: float
    broker_cpu: float
    memory: int | None
    printed: str


class Watch:
    """The processor time and memory of a command's processes. Of a process that nobody waits for, the kernel adds nothing to its parent's time."""

    def __init__(self, pid: int) -> None:
        self.worker: int | None = None
        self._process = psutil.Process(pid)
        self._used: dict[tuple[int, float], float] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    @property
    def cpu(self) -> float:
        """Seconds of all processes that were seen, as of when they were seen last."""
        return sum(self._used.values())

    def _look(self) -> None:
        while not self._done.wait(_LOOK_SECONDS):
            processes = [self._process]
            with contextlib.suppress(psutil.Error):
                processes += self._process.children(recursive=True)
            for process in processes:
                with contextlib.suppress(psutil.Error):
                    times = process.cpu_times()
                    self._used[process.pid, process.create_time()] = times.user + times.system
                    if "pyspark.daemon" in process.cmdline():
                        self.worker = max(self.worker or 0, _peak(process.pid))


def _peak(pid: int) -> int:
    with contextlib.suppress(OSError):
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        return int(found[1]) // 1024 if found else 0
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A broker, and a directory for everything else."""

    directory: Path
    bootstrap: str
    broker: psutil.Process
    environment: Mapping[str, str]
    pool: ProcessPoolExecutor

    def command(self, argv: Sequence[str], more: Mapping[str, str]) -> Command:
        """Run it to its end. Ends the program when it fails: its time would mean nothing."""
        broker, children = _used(self.broker), core_seconds()
        began, at = time.monotonic(), time.time()
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                argv,
                env={**self.environment, **more},
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            with Watch(process.pid) as watch:
                code = process.wait()
                whole = time.monotonic() - began
            output.seek(0)
            printed = output.read()
        if code:
            raise SystemExit(f"{' '.join(argv)} ended with {code}:\n{printed[-3000:]}")
        return Command(
            began=at,
            whole=whole,
            cpu=max(core_seconds() - children, watch.cpu),
            broker_cpu=_used(self.broker) - broker,
            memory=watch.worker,
            printed=printed,
        )

    def workers(self, function: Callable[[Work], Worked], work: Work) -> tuple[float, float, float]:
        """The work divided among as many processes as a job has tasks at once: seconds from first to last, of processors, and of the broker's."""
        broker = _used(self.broker)
        parts = [replace(work, partitions=work.partitions[number::WORKERS]) for number in range(WORKERS)]
        done = list(self.pool.map(function, parts))
        whole = max(one.ended for one in done) - min(one.began for one in done)
        return whole, sum(one.cpu for one in done), _used(self.broker) - broker


def _used(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The records of one case in one size: the changelog of an application whose only input has been read."""

    bench: Bench
    case: Case
    records: int

    @property
    def id(self) -> str:
        """Of the application."""
        return f"bench-{self.case.name}-{self.records}"

    @property
    def topic(self) -> str:
        """Its changelog."""
        return f"{self.id}-data-changelog"

    @property
    def input(self) -> TopicPartition:
        """All of its input."""
        return TopicPartition(f"{self.id}.in", 0)

    @property
    def running(self) -> Path:
        """A file that is there while the application runs."""
        return self.bench.directory / f"{self.id}.running"

    def work(self, topic: str) -> Work:
        """All its records."""
        each = self.records // PARTITIONS
        return Work(bootstrap=self.bench.bootstrap, topic=topic, partitions=tuple(range(PARTITIONS)), each=each, case=self.case)

    def build(self) -> None:
        """Topics, records and the group's offset."""
        self.create(self.topic)
        connection = KafkaConnection(bootstrap_servers=self.bench.bootstrap, properties={})
        with KafkaCluster(connection) as cluster, ConsumerGroups(connection) as groups:
            cluster.create_topic(self.input.topic, partitions=1, replication_factor=1, config={"retention.ms": "-1"})
            committed = CommittedOffset(offset=0, metadata="", leader_epoch=None)
            groups.set_offsets(self.id, {self.input: committed})
        self.running.touch()
        self.bench.workers(bare.generate, self.work(self.topic))

    def create(self, topic: str) -> None:
        """An empty topic that the cleaner leaves alone."""
        with self.cluster() as cluster:
            cluster.create_topic(topic, partitions=PARTITIONS, replication_factor=1, config=restore_hold({"cleanup.policy": "compact"}))

    def drop(self, *topics: str) -> None:
        """Make room."""
        with self.cluster() as cluster:
            there = set(cluster.topic_names())
            cluster.delete_topics([topic for topic in topics if topic in there])

    def lose(self) -> None:
        """Lose what a restore is for: changelog and group are gone, and the application with them."""
        self.drop(self.topic)
        with ConsumerGroups(KafkaConnection(bootstrap_servers=self.bench.bootstrap, properties={})) as groups:
            groups.delete(self.id)
        self.running.unlink(missing_ok=True)

    def configure(self, repository: Path) -> None:
        """The application's configuration with this repository."""
        program = self.bench.directory / "program.py"
        program.write_text(PROGRAM)
        verbs = {verb: [sys.executable, "-I", "-S", str(program), str(self.running), verb] for verb in ("status", "stop", "start", "wipe")}
        config = {
            "version": 1,
            "name": "bench",
            "application": {"id": self.id, "guarantee": "exactly_once_v2"},
            "topics": {"inputs": [self.input.topic]},
            "storage": {"backend": "filesystem", "path": str(repository)},
            "backup": {"survive_cluster_loss": False, "consistency": {"mode": "stop"}},
            "runs": {"kind": "command", "command": verbs},
            # Slopes are those of one way to work: bench/starts.py has small jobs.
            "spark": {"always": True},
        }
        (self.bench.directory / "configs").mkdir(exist_ok=True)
        (self.bench.directory / "configs" / "bench.yaml").write_text(json.dumps(config))

    @contextlib.contextmanager
    def cluster(self) -> Iterator[KafkaCluster]:
        """The cluster, for as long as the block lasts."""
        with KafkaCluster(KafkaConnection(bootstrap_servers=self.bench.bootstrap, properties={}), timeout=120) as cluster:
            yield cluster

    def run(self, what: str, by: str, **figures: Any) -> Run:
        """A run of this subject."""
        return Run(case=self.case.name, records=self.records, what=what, by=by, **figures)


def ours_out(on: Subject, way: str, repository: Path) -> Run:
    """A savepoint of everything, into a repository of its own."""
    shutil.rmtree(repository, ignore_errors=True)
    repository.mkdir()
    on.configure(repository)
    on.running.touch()
    done = on.bench.command([sys.executable, "-m", "streams_recovery", "backup", "bench"], WAYS[way])
    result = _result(BackupResult, repository / on.id)
    copied = sum(one.copied.file.rows for one in result.ranges if one.copied.file is not None)
    if copied != on.records:
        raise SystemExit(f"{copied} of {on.records} records were copied, so the time means nothing")
    stored = sum(path.stat().st_size for path in repository.rglob("*.parquet"))
    return on.run(BACKUP, way, **_command_figures(done), inside=result.seconds, stored=stored)


def ours_back(on: Subject, way: str, repository: Path) -> Run:
    """The restore of that savepoint after the loss of everything, all of it compared."""
    on.configure(repository)
    on.lose()
    command = [sys.executable, "-m", "streams_recovery", "restore", "bench"]
    plan = on.bench.command([*command, "--plan", "--json"], WAYS[way])
    approved = json.loads(plan.printed[plan.printed.index("{") :])["hash"]
    done = on.bench.command([*command, "--reason", "bench", "--approve", approved], WAYS[way])
    result = _result(RestoreResult, repository / on.id)
    loaded = sum(one.rows for one in result.partitions)
    if loaded != on.records:
        raise SystemExit(f"{loaded} of {on.records} records were loaded, so the time means nothing")
    inside = result.seconds + result.read_seconds
    started = on.running.stat().st_mtime - done.began
    return on.run(RESTORE, way, **_command_figures(done), inside=inside, read_back=result.read_seconds, started=started)


def _command_figures(done: Command) -> dict[str, Any]:
    return {"whole": done.whole, "cpu": done.cpu, "broker_cpu": done.broker_cpu, "memory": done.memory}


def _result(kind: type[Any], application: Path) -> Any:
    """The result of the newest job of this kind."""
    name = COPY_RESULT if kind is BackupResult else LOAD_RESULT
    found = max((application / "work").rglob(f"{name}.*.json"), key=lambda path: path.stat().st_mtime)
    return codec.loads(kind, found.read_bytes(), where=str(found))


def limit_out(on: Subject) -> Iterator[Run]:
    """A consumer that counts, and zstd on as much data."""
    for by, function in ((LIMIT, bare.consume), (ZSTD, bare.compress)):
        whole, cpu, broker = on.bench.workers(function, on.work(on.topic))
        yield on.run(BACKUP, by, whole=whole, cpu=cpu, broker_cpu=broker)


def limit_back(on: Subject) -> Run:
    """A producer that has one block of records."""
    target = f"{on.id}-limit"
    on.create(target)
    whole, cpu, broker = on.bench.workers(bare.produce, on.work(target))
    on.drop(target)
    return on.run(RESTORE, LIMIT, whole=whole, cpu=cpu, broker_cpu=broker)


def rival_out(on: Subject, rival: Rival, number: int) -> Run:
    """The other program's copy."""
    done = on.bench.command(rival.backup(on.topic, f"{on.id}-{number}"), {})
    return on.run(BACKUP, RIVAL, **_command_figures(done), stored=rival.stored(f"{on.id}-{number}"))


def rival_back(on: Subject, rival: Rival, number: int) -> Run:
    """The other program's load."""
    target = f"{on.id}-rival"
    on.create(target)
    done = on.bench.command(rival.restore(on.topic, f"{on.id}-{number}", target), {})
    with on.cluster() as cluster:
        ends = cluster.high_watermarks([TopicPartition(target, number) for number in range(PARTITIONS)])
    on.drop(target)
    if sum(ends.values()) < on.records:
        raise SystemExit(f"the rival loaded {sum(ends.values())} of {on.records} records, so its time means nothing")
    return on.run(RESTORE, RIVAL, **_command_figures(done))


def measured(on: Subject, asked: Asked, say: Callable[[Run], None]) -> None:
    """All rounds of one case in one size. Every copy is of the records as they were generated, so it comes before the first restore."""
    rival = (
        None if asked.rival is None else Rival(program=asked.rival, bootstrap=on.bench.bootstrap, directory=on.bench.directory / "rival")
    )
    repositories = {way: on.bench.directory / f"repository-{way}" for way in asked.ways}
    on.build()
    for number in range(asked.rounds):
        for way in asked.ways:
            say(ours_out(on, way, repositories[way]))
        for run in limit_out(on):
            say(run)
        if rival is not None:
            say(rival_out(on, rival, number))
    for number in range(asked.rounds):
        for way in asked.ways:
            say(ours_back(on, way, repositories[way]))
        say(limit_back(on))
        if rival is not None:
            say(rival_back(on, rival, number))
    on.drop(on.topic, on.input.topic)
    for directory in (*repositories.values(), on.bench.directory / "rival"):
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def bench(directory: Path) -> Iterator[Bench]:
    """A broker and what goes with it, gone at the end."""
    port, controller = free_ports(2)
    spawn = multiprocessing.get_context("spawn")
    with Processes(directory / "processes") as processes, ProcessPoolExecutor(WORKERS, mp_context=spawn) as pool:
        # What was deleted must not stay on the disk for the next case.
        extras = BrokerExtras(settings={"log.segment.delete.delay.ms": "1000"})
        bootstrap = start_broker(processes, directory / "broker", port=port, controller_port=controller, extras=extras)
        pid, _ = processes.recorded()["broker"]
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)},
            "PYTHONPATH": os.pathsep.join([str(PROJECT / "plugins"), str(PROJECT)]),
            "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": bootstrap}}),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": f"local[{WORKERS}]"}),
            "STREAMS_RECOVERY_CONFIG_DIR": str(directory / "configs"),
            **spark_start.environment(),
        }
        yield Bench(directory=directory, bootstrap=bootstrap, broker=psutil.Process(pid), environment=environment, pool=pool)


def machine(asked: Asked) -> dict[str, object]:
    """The machine and the versions that it was measured with."""
    found: dict[str, object] = {
        "on": time.strftime("%d %B %Y", time.gmtime()),
        "cores:": os.cpu_count(),
        "GB of memory:": round(psutil.virtual_memory().total / 1e9),
        "load before:": round(os.getloadavg()[0], 1),
        "version": f"{VERSION} {_commit()}".strip(),
        "Python": platform.python_version(),
        "librdkafka": confluent_kafka.libversion()[0],
        "rounds:": asked.rounds,
    }
    return found if asked.rival is None else {**found, "rival": version(asked.rival)}


def _commit() -> str:
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=PROJECT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def show(document: Mapping[str, Any], *, as_markdown: bool) -> None:
    """The medians of both directions, and their slopes."""
    runs = figures.medians(Run(**run) for run in document["runs"])
    line = figures.machine_line(document["machine"])
    tables = {
        "Backup": figures.runs_table(runs, BACKUP),
        "Restore": figures.runs_table(runs, RESTORE),
        "Slopes": figures.slopes_table(figures.slopes(runs)),
    }
    if as_markdown:
        sys.stdout.write(f"Measured {line}.\n")
        for title, table in tables.items():
            sys.stdout.write(f"\n{title}:\n\n{figures.markdown(table)}" if table[1] else "")
        return
    for title, table in tables.items():
        head, rows = figures.without_empty_columns(table)
        shown = Table(*head, title=title)
        for row in rows:
            shown.add_row(*row)
        if rows:
            Console(width=max(Console().width, _WIDTH)).print(shown)
    sys.stdout.write(f"Measured {line}.\n")


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options, with what ``--quick`` means put in."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=[case.name for case in CASES], help="repeatable; default: all")
    parser.add_argument(
        "--records", type=_sizes, help="sizes with commas between them; default 2000000,20000000. Cases of 1 KB have 3 of 10 of it"
    )
    parser.add_argument("--rounds", type=int, help="default 3")
    parser.add_argument("--ways", default="native,plain", help="native, plain, or both with a comma (default)")
    parser.add_argument("--rival", type=Path, help="the program kafka-backup of OSO, which is measured beside")
    parser.add_argument("--quick", action="store_true", help="one round of three cases with 100,000 and 400,000 records")
    parser.add_argument("--json", type=Path, default=PROJECT / "build" / "bench.json", help="where the figures go")
    parser.add_argument("--read", type=Path, help="show the tables of such a file, and measure nothing")
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    asked = parser.parse_args(arguments)
    asked.case = asked.case or (["150b", "1kb", "aborts"] if asked.quick else [case.name for case in CASES])
    asked.records = asked.records or ((100_000, 400_000) if asked.quick else (2_000_000, 20_000_000))
    asked.rounds = asked.rounds or (1 if asked.quick else 3)
    asked.ways = tuple(asked.ways.split(","))
    if unknown := set(asked.ways) - set(WAYS):
        parser.error(f"there is no way {', '.join(sorted(unknown))}")
    return asked


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(part.replace("_", "")) for part in text.split(","))


def main() -> None:
    """Run it."""
    options = parsed()
    if options.read:
        show(json.loads(options.read.read_text()), as_markdown=options.markdown)
        return
    if "native" in options.ways and native() is None:
        raise SystemExit(
            "there is no compiled code here that could be measured, for the reason above: run make setup, or choose --ways plain"
        )
    asked = Asked(
        cases=tuple(case for case in CASES if case.name in options.case),
        sizes=options.records,
        ways=options.ways,
        rounds=options.rounds,
        rival=options.rival and options.rival.expanduser().resolve(),
    )
    document: dict[str, Any] = {"machine": machine(asked), "runs": []}
    options.json.parent.mkdir(parents=True, exist_ok=True)

    def say(run: Run) -> None:
        document["runs"].append(asdict(run))
        options.json.write_text(json.dumps(document, indent=1))
        inside = "" if run.inside is None else f", {run.inside:.1f} s inside"
        sys.stderr.write(f"{run.case}, {run.records:,} records, {run.what} by {run.by}: {run.whole:.1f} s{inside}\n")

    with tempfile.TemporaryDirectory(prefix="bench-") as directory, bench(Path(directory)) as on:
        for case in asked.cases:
            for size in asked.sizes:
                measured(Subject(bench=on, case=case, records=case.records(size, PARTITIONS)), asked, say)
    show(document, as_markdown=options.markdown)


if __name__ == "__main__":
    main()
