"""The parts of Airflow's REST API that a user's browser calls too, and of its commands what that API does not do here."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import httpx

from streams_recovery.core.errors import ApplicationNotReady, Refused
from streams_recovery.core.waiting import poll

_RUNNING = ("queued", "running", "restarting", "scheduled", None)
_PASSED = ("success", "skipped", "removed")
# With SQLite whoever writes what it had read is turned away at once when somebody else wrote in between, however patient it is; and
# who does wait, waits for a minute (sql_alchemy_conn in embedded/airflow.py).
_BUSY_SECONDS = 90.0
OnChange = Callable[[str, str], None]


class AirflowClient:
    """One user's view of one Airflow. Logs in when it has to. ``environment`` is that of a terminal on its machine."""

    def __init__(self, url: str, user: str, password: str, environment: Mapping[str, str]) -> None:
        self._http = httpx.Client(base_url=url, timeout=75)
        self._login = {"username": user, "password": password}
        self._environment = dict(environment)

    def close(self) -> None:
        self._http.close()

    def trigger(self, dag_id: str, conf: dict[str, Any]) -> str:
        """Start a run and return its id. The DAG may not be parsed yet: waits for it. Raises ``Refused`` for params that do not fit."""
        run_id = f"manual__{datetime.now(UTC).isoformat()}"
        answer = self._once_parsed("POST", f"/dags/{dag_id}/dagRuns", {"dag_run_id": run_id, "logical_date": None, "conf": conf})
        # The id is new, so what is in the way can only be the run of an attempt whose answer was lost.
        if answer.status_code >= httpx.codes.BAD_REQUEST and answer.status_code != httpx.codes.CONFLICT:
            raise Refused(f"{dag_id} was not triggered: {answer.text[:500]}", next_step="correct the params", dag_id=dag_id)
        return run_id

    def backfill(self, dag_id: str, start: str, end: str, *, conf: Mapping[str, Any], max_active_runs: int) -> None:
        """Create a backfill of the data intervals that begin from ``start`` to ``end``, at a terminal: the API does not with SQLite, whose lock its own
        request holds. A database that is busy, and a DAG that is not parsed yet, are tried again. The DAG is paused meanwhile: an attempt that finds
        the database busy takes its runs back, and a scheduler that has begun one of them would die of that.
        """
        self._pause(dag_id, paused=True)
        try:
            self._create_backfill(dag_id, start, end, conf=conf, max_active_runs=max_active_runs)
        finally:
            self._pause(dag_id, paused=False)

    def _create_backfill(self, dag_id: str, start: str, end: str, *, conf: Mapping[str, Any], max_active_runs: int) -> None:
        command = [sys.executable, "-m", "airflow", "backfill", "create", "--dag-id", dag_id, "--from-date", start, "--to-date", end]
        command += ["--max-active-runs", str(max_active_runs), "--dag-run-conf", json.dumps(dict(conf))]
        deadline = time.monotonic() + 120
        while (done := subprocess.run(command, env=self._environment, capture_output=True, text=True, check=False)).returncode:
            if time.monotonic() > deadline:
                raise Refused(f"no backfill of {dag_id}: {done.stderr[-800:]}", next_step="correct what it says", dag_id=dag_id)
            time.sleep(1)  # whoever holds the database is done with it by then

    def runs(self, dag_id: str, run_type: str) -> dict[str, str]:
        """Runs of this type: ids by the start of their data interval."""
        found = self._call("GET", f"/dags/{dag_id}/dagRuns?run_type={run_type}").json()["dag_runs"]
        return {str(run["data_interval_start"]): str(run["dag_run_id"]) for run in found}

    def tasks(self, dag_id: str, run_id: str) -> dict[str, str]:
        """Every task's state."""
        found = self._call("GET", f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances").json()["task_instances"]
        return {str(task["task_id"]): str(task["state"]) for task in found}

    def wait(self, dag_id: str, run_id: str, *, seconds: float, on_change: OnChange, approve: Callable[[str], bool] | None = None) -> str:
        """Wait for a run, and return its final state. ``on_change`` hears of every task's new state; ``approve`` answers approvals, given their body."""
        deadline = time.monotonic() + seconds
        known: dict[str, str | None] = {}
        while time.monotonic() < deadline:
            for task in self._call("GET", f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances").json()["task_instances"]:
                name, state = task["task_id"], task["state"]
                if known.get(name) != state:
                    known[name] = state
                    on_change(name, str(state))
                    if state == "awaiting_input" and approve is not None:
                        self._answer(dag_id, run_id, name, approve)
            state = self._call("GET", f"/dags/{dag_id}/dagRuns/{run_id}").json()["state"]
            if state not in _RUNNING:
                return str(state)
            time.sleep(0.7)
        left = ", ".join(f"{name} {state}" for name, state in known.items() if state not in _PASSED) or "no task waits"
        raise ApplicationNotReady(f"{dag_id} {run_id} did not end in {seconds:.0f} s: {left}", next_step="look at it in the Airflow UI")

    def get(self, path: str) -> Any:
        """The answer of the API to a path, such as ``/dags``."""
        return self._call("GET", path).json()

    def add_connection(self, connection_id: str, conn_type: str, host: str) -> None:
        """Define a connection, as a person would on the page of connections."""
        self._call("POST", "/connections", json={"connection_id": connection_id, "conn_type": conn_type, "host": host})

    def result(self, dag_id: str, run_id: str, task_id: str) -> Any:
        """The result that a task returned."""
        return self._call("GET", f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/return_value").json()["value"]

    def failures(self, dag_id: str, run_id: str) -> str:
        """The ends of the logs of every failed task."""
        found = []
        for task in self._call("GET", f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances").json()["task_instances"]:
            if task["state"] == "failed":
                path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task['task_id']}/logs/{task['try_number']}"
                content = self._call("GET", path, check=False).json().get("content", [])
                lines = [_line(line) for line in content if isinstance(line, dict) and not str(line.get("event")).startswith("::")]
                found.append(f"{task['task_id']}:\n" + "\n".join(lines[-6:])[-1500:])
        return "\n".join(found)

    def _pause(self, dag_id: str, *, paused: bool) -> None:
        answer = self._once_parsed("PATCH", f"/dags/{dag_id}", {"is_paused": paused})
        if answer.status_code >= httpx.codes.BAD_REQUEST:
            raise Refused(f"{dag_id} was not paused or resumed: {answer.text[:500]}", next_step="see Airflow's logs", dag_id=dag_id)

    def _once_parsed(self, method: str, path: str, json: Mapping[str, Any]) -> httpx.Response:
        def found() -> httpx.Response | None:
            answer = self._call(method, path, json=json, check=False)
            return None if answer.status_code == httpx.codes.NOT_FOUND else answer

        return poll(found, seconds=120, interval=1) or self._call(method, path, json=json, check=False)

    def _answer(self, dag_id: str, run_id: str, task_id: str, approve: Callable[[str], bool]) -> None:
        details = self._call("GET", f"/dags/{dag_id}/dagRuns/{run_id}/hitlDetails").json()["hitl_details"]
        body = next((str(item["body"]) for item in details if item["task_instance"]["task_id"] == task_id), "")
        chosen = "Approve" if approve(body) else "Reject"
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/-1/hitlDetails"
        self._call("PATCH", path, json={"chosen_options": [chosen], "params_input": {}})

    def _call(self, method: str, path: str, *, json: Any = None, check: bool = True) -> httpx.Response:
        answer = self._patiently(method, path, json)
        if check and answer.status_code >= httpx.codes.BAD_REQUEST:
            raise Refused(f"{method} {path} answered {answer.status_code}: {answer.text[:300]}", next_step="see Airflow's logs")
        return answer

    def _patiently(self, method: str, path: str, json: Any) -> httpx.Response:
        def served() -> httpx.Response | None:
            with suppress(httpx.TransportError):
                answer = self._request(method, path, json)
                return answer if answer.status_code < httpx.codes.INTERNAL_SERVER_ERROR else None
            return None

        if (answer := poll(served, seconds=_BUSY_SECONDS, interval=1)) is not None:
            return answer
        # Once more for what there is to say of it.
        try:
            return self._request(method, path, json)
        except httpx.TransportError as error:
            raise ApplicationNotReady(f"{method} {path} was not answered: {error!r}", next_step="see Airflow's logs") from error

    def _request(self, method: str, path: str, json: Any) -> httpx.Response:
        answer = self._http.request(method, f"/api/v2{path}", json=json)
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            token = self._http.post("/auth/token", json=self._login).raise_for_status().json()["access_token"]
            self._http.headers["Authorization"] = f"Bearer {token}"
            answer = self._http.request(method, f"/api/v2{path}", json=json)
        return answer


def _line(found: Mapping[str, Any]) -> str:
    """A line of a task's log, with what was raised but not where."""
    raised = [f"{one.get('exc_type')}: {one.get('exc_value')}" for one in found.get("error_detail") or ()]
    return " ".join([str(found.get("event", "")), *raised])
