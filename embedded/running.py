"""The stack left running: started by ``up``, stopped by ``down``."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from pathlib import Path

from embedded.airflow import ROLES, Airflow
from embedded.applications import NEXT, PAST, Applications
from embedded.ports import answers
from embedded.processes import Processes
from embedded.showing import Shown, show
from embedded.stack import APPLICATION, CONFIGURATIONS, PROJECT, Ports, Stack
from examples.order_processing.generator import create_topics
from streams_recovery.application.factory import open_application
from streams_recovery.core.errors import Refused

ORDERS_A_SECOND = 100
SCHEDULE = "0 * * * *"
_FILE = "stack.json"


def up(directory: Path, guarantee: str, *, everything: bool = False) -> int:
    """Start all of it in ``directory`` and leave it running; with ``everything`` also make what there is to look at. Raises ``Refused`` when it runs already.
    What a failed start left is stopped.
    """
    known = _known(directory)
    if known is not None and answers(known.ports.broker):
        raise Refused("the stack is up already", next_step="run `make down` first, or use the one that runs")
    directory.mkdir(parents=True, exist_ok=True)
    # They are made anew from the example's configuration, which may have changed since.
    shutil.rmtree(directory / CONFIGURATIONS, ignore_errors=True)
    stack = Applications(directory=directory, ports=Ports.free(), guarantee=guarantee, schedule=SCHEDULE)
    _remember(stack)
    processes = Processes(directory / "processes")
    try:
        processes.__enter__()
        airflow, shown = _start(stack, processes, everything=everything)
    except BaseException:
        stack.stop_application()
        processes.stop_all()
        raise
    first, second = stack.ports.instances
    sys.stdout.write(
        f"""
Airflow      {airflow.url}   users {", ".join(ROLES)}, passwords in {airflow.password_file}
Application  http://127.0.0.1:{first}/state/order-totals and http://127.0.0.1:{second}/state/order-totals
Kafka        {stack.bootstrap}, {ORDERS_A_SECOND} orders a second are coming in
Savepoints   {directory / "repository"}, one every hour, inputs included; trigger streams_backup_{APPLICATION} for one now
{_to_look_at(shown)}Clone        {NEXT} is configured: trigger streams_clone with step clone, later with step cut_over
Command line set -a; . {_variables_file(stack)}; set +a; .venv/bin/streams-recovery savepoints list {APPLICATION}
Stop         make down
"""
    )
    return 0


def _to_look_at(shown: Shown | None) -> str:
    if shown is None:
        return f"Past         {PAST} is configured: trigger streams_restore_pitr, once there are savepoints (make up SHOW=all makes some)\n"
    return (
        f"Past         {shown.moment} lies between savepoints {shown.before} and {shown.after}:\n"
        f"             trigger streams_restore_pitr with application {PAST}, source {APPLICATION} and this moment\n"
        f"Drill        {shown.drill}: streams-recovery drills {APPLICATION}\n"
    )


def _variables_file(stack: Stack) -> Path:
    """The variables that a terminal needs, as lines that a shell reads. Its owner's alone."""
    file = stack.directory / "variables.sh"
    file.touch(mode=0o600)
    file.write_text("".join(f"{name}={shlex.quote(value)}\n" for name, value in sorted(stack.variables.items())))
    return file


def _start(stack: Stack, processes: Processes, *, everything: bool) -> tuple[Airflow, Shown | None]:
    stack.start_broker(processes)
    create_topics(stack.bootstrap)
    open_application(stack.config().runs, stack.config().application.id).start()
    command = [sys.executable, "-m", "examples.order_processing.generator", "--bootstrap", stack.bootstrap, "--rate", str(ORDERS_A_SECOND)]
    processes.start("generator", command, environment=stack.environment, cwd=PROJECT)
    airflow = Airflow(stack, processes)
    client = airflow.start()
    try:
        return airflow, show(client) if everything else None
    finally:
        client.close()


def down(directory: Path) -> int:
    """Stop what ``up`` started, by recorded pids. Harmless when nothing runs. State and savepoints stay in ``directory``."""
    known = _known(directory)
    if known is None:
        sys.stdout.write("nothing to stop\n")
        return 0
    instances = known.stop_application()
    stopped = Processes(directory / "processes").stop_all()
    sys.stdout.write(f"stopped: {', '.join((*stopped, *instances)) or 'nothing was running'}\n")
    return 0


def _remember(stack: Stack) -> None:
    (stack.directory / _FILE).write_text(json.dumps({"ports": stack.ports.numbers, "guarantee": stack.guarantee}))


def _known(directory: Path) -> Applications | None:
    try:
        found = json.loads((directory / _FILE).read_text())
    except FileNotFoundError:
        return None
    return Applications(directory=directory, ports=Ports.of(found["ports"]), guarantee=found["guarantee"], schedule=SCHEDULE, starts=False)
