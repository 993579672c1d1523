"""The parts of Airflow's REST API that a user's browser calls too."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx

from streams_recovery.core.errors import ApplicationNotReady, Refused

_RUNNING = ("queued", "running", "restarting", "scheduled", None)
# Nobody reads a plan faster. An answer within the scheduler's loop would meet the executor's report of the task's first half, which the
# scheduler then takes for the second half's and fails the task (SchedulerJobRunner.process_executor_events).
_READING_SECONDS = 4.0
Told = Callable[[str, str], None]


class AirflowClient:
    """One user's view of one Airflow. Logs in when it has to."""

    def __init__(self, url: str, user: str, password: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=60)
        self._login = {"username": user, "password": password}

    def close(self) -> None:
        """Hang up."""
        self._http.close()

    def trigger(self, dag_id: str, conf: dict[str, Any]) -> str:
        """Start a run and return its id. The DAG may not be parsed yet: waits for it. Raises ``Refused`` for params that do not fit."""
        deadline = time.monotonic() + 120
        while True:
            answer = self._call("POST", f"/dags/{dag_id}/dagRuns", json={"logical_date": None, "conf": conf}, check=False)
            if answer.status_code == httpx.codes.NOT_FOUND and time.monotonic() < deadline:
                time.sleep(1)
                continue
            if answer.status_code >= httpx.codes.BAD_REQUEST:
                raise Refused(f"{dag_id} was not triggered: {answer.text[:500]}", next_step="correct the params", dag_id=dag_id)
            return str(answer.json()["dag_run_id"])

    def wait(self, dag_id: str, run_id: str, *, seconds: float, told: Told, approve: Callable[[str], bool] | None = None) -> str:
        """The final state of a run. ``told`` hears of every task's new state; ``approve`` answers approvals, given their body."""
        deadline = time.monotonic() + seconds
        known: dict[str, str | None] = {}
        while time.monotonic() < deadline:
            for task in self._call("GET", f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances").json()["task_instances"]:
                name, state = task["task_id"], task["state"]
                if known.get(name) != state:
                    known[name] = state
                    told(name, str(state))
                    if state == "awaiting_input" and approve is not None:
                        time.sleep(_READING_SECONDS)
                        self._answer(dag_id, run_id, name, approve)
            state = self._call("GET", f"/dags/{dag_id}/dagRuns/{run_id}").json()["state"]
            if state not in _RUNNING:
                return str(state)
            time.sleep(0.7)
        raise ApplicationNotReady(f"{dag_id} {run_id} did not end in {seconds:.0f} s", next_step="look at it in the Airflow UI")

    def add_connection(self, connection_id: str, conn_type: str, host: str) -> None:
        """Define a connection, as a person would on the page of connections."""
        self._call("POST", "/connections", json={"connection_id": connection_id, "conn_type": conn_type, "host": host})

    def result(self, dag_id: str, run_id: str, task_id: str) -> Any:
        """What a task returned."""
        return self._call("GET", f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/return_value").json()["value"]

    def failures(self, dag_id: str, run_id: str) -> str:
        """The ends of the logs of every failed task."""
        told = []
        for task in self._call("GET", f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances").json()["task_instances"]:
            if task["state"] == "failed":
                path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task['task_id']}/logs/{task['try_number']}"
                content = self._call("GET", path, check=False).json().get("content", [])
                lines = [f"{line.get('event', '')} {line.get('error_detail', '') or ''}" for line in content if isinstance(line, dict)]
                told.append(f"{task['task_id']}:\n" + "\n".join(lines[-12:])[-3000:])
        return "\n".join(told)

    def _answer(self, dag_id: str, run_id: str, task_id: str, approve: Callable[[str], bool]) -> None:
        details = self._call("GET", f"/dags/{dag_id}/dagRuns/{run_id}/hitlDetails").json()["hitl_details"]
        body = next((str(item["body"]) for item in details if item["task_instance"]["task_id"] == task_id), "")
        chosen = "Approve" if approve(body) else "Reject"
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/-1/hitlDetails"
        self._call("PATCH", path, json={"chosen_options": [chosen], "params_input": {}})

    def _call(self, method: str, path: str, *, json: Any = None, check: bool = True) -> httpx.Response:
        answer = self._http.request(method, f"/api/v2{path}", json=json)
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            token = self._http.post("/auth/token", json=self._login).raise_for_status().json()["access_token"]
            self._http.headers["Authorization"] = f"Bearer {token}"
            answer = self._http.request(method, f"/api/v2{path}", json=json)
        if check and answer.status_code >= httpx.codes.BAD_REQUEST:
            raise Refused(f"{method} {path} answered {answer.status_code}: {answer.text[:300]}", next_step="see Airflow's logs")
        return answer
