"""The stack left running: started by ``up``, stopped by ``down``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from embedded.airflow import USER, Airflow
from embedded.ports import answers
from embedded.processes import Processes
from embedded.stack import PROJECT, Ports, Stack
from examples.order_processing.generator import create_topics
from streams_recovery.application.factory import open_application
from streams_recovery.core.errors import Refused

ORDERS_A_SECOND = 100
SCHEDULE = "0 * * * *"
_FILE = "stack.json"


def up(directory: Path, guarantee: str) -> int:
    """Start everything in ``directory`` and leave it running. Raises ``Refused`` when it runs already. What a failed start left is stopped."""
    known = _known(directory)
    if known is not None and answers(known.ports.broker):
        raise Refused("the stack is up already", next_step="run `make down` first, or use the one that runs")
    directory.mkdir(parents=True, exist_ok=True)
    stack = Stack(directory=directory, ports=Ports.free(), guarantee=guarantee, schedule=SCHEDULE)
    _remember(stack)
    processes = Processes(directory / "processes")
    try:
        processes.__enter__()
        airflow = _start(stack, processes)
    except BaseException:
        stack.stop_application()
        processes.stop_all()
        raise
    first, second = stack.ports.instances
    sys.stdout.write(
        f"""
Airflow      {airflow.url}   user {USER}, password in {airflow.password_file}
Application  http://127.0.0.1:{first}/state/order-totals and http://127.0.0.1:{second}/state/order-totals
Kafka        {stack.bootstrap}, {ORDERS_A_SECOND} orders a second are coming in
Savepoints   {directory / "repository"}, one every hour; trigger streams_backup_order-processing for one now
Stop         make down
"""
    )
    return 0


def _start(stack: Stack, processes: Processes) -> Airflow:
    stack.start_broker(processes)
    create_topics(stack.bootstrap)
    open_application(stack.config().runs, stack.config().application.id).start()
    command = [sys.executable, "-m", "examples.order_processing.generator", "--bootstrap", stack.bootstrap, "--rate", str(ORDERS_A_SECOND)]
    processes.start("generator", command, environment=stack.environment, cwd=PROJECT)
    airflow = Airflow(stack, processes)
    airflow.start().close()
    return airflow


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


def _known(directory: Path) -> Stack | None:
    try:
        found = json.loads((directory / _FILE).read_text())
    except FileNotFoundError:
        return None
    return Stack(directory=directory, ports=Ports.of(found["ports"]), guarantee=found["guarantee"], schedule=SCHEDULE, starts=False)
