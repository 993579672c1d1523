"""A stack with more applications: the example with its inputs archived and its past in hours, the same program with inputs of its own, and a clone."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from pathlib import Path

from embedded.ports import HOST, free_ports
from embedded.stack import APPLICATION, Plain, Stack
from examples.order_processing.generator import INPUTS, OUTPUTS
from streams_recovery.application.factory import open_application
from streams_recovery.application.port import InstanceState
from streams_recovery.config.loader import load_named
from streams_recovery.config.model import ApplicationConfig

PAST, NEXT = "order-past", "order-next"
PAST_TOPICS = {name: f"past.{name}" for name in (*INPUTS, *OUTPUTS)}
NEXT_TOPICS = {name: f"next.{name}" for name in OUTPUTS}
SLOTS = 2


def variable(topic: str) -> str:
    """The variable by which the example is told the name of a topic."""
    return f"{topic.upper().replace('-', '_')}_TOPIC"


class Applications(Stack):
    """Its configuration files are below its directory, made when they are first asked for."""

    @property
    def variables(self) -> dict[str, str]:
        """With intervals that are processed again."""
        return {**super().variables, "STREAMS_RECOVERY_REPROCESS": "true"}

    def named(self, name: str) -> ApplicationConfig:
        """One of the others: ``PAST``, ``NEXT`` as it is before a cut-over, or the application of an interval."""
        return load_named(name, self.configs(), {**os.environ, **self.variables})

    def stop_application(self) -> list[str]:
        """Stop all of them."""
        stopped = []
        # Those of a run of an older version may be fewer.
        for config in (self.named(name) for name in (PAST, NEXT) if (self.configs() / f"{name}.yaml").exists()):
            application = open_application(config.runs, config.application.id)
            stopped += [status.name for status in application.status() if status.state is not InstanceState.GONE]
            application.stop(timeout=30)
        return [*super().stop_application(), *stopped]

    @property
    def slots_state(self) -> Path:
        """Local state of all that processes intervals."""
        return self.directory / "reprocess" / "state"

    def _configurations(self, first: Plain) -> dict[str, Plain]:
        first["reprocess"] |= {"schedule": "0 * * * *", "parallel": SLOTS}
        first["reprocess"]["process"]["slots"] = [
            {"instances": [{"name": f"again-{slot}", "url": f"http://{HOST}:{port}", "state_directory": str(self.slots_state / str(slot))}]}
            for slot, port in enumerate(free_ports(SLOTS))
        ]
        return {APPLICATION: first, PAST: self._past(first), NEXT: self._next(first)}

    def _past(self, first: Plain) -> Plain:
        plain = self._another(first, PAST, PAST_TOPICS)
        topics = first["topics"]
        plain["topics"] = {role: [PAST_TOPICS[name] for name in topics[role]] for role in ("inputs", "outputs", "globals")}
        plain["backup"]["schedule"] = None
        return plain

    def _next(self, first: Plain) -> Plain:
        plain = self._another(first, NEXT, NEXT_TOPICS)
        plain["topics"]["outputs"] = list(NEXT_TOPICS.values())
        # A join answers again, and its cache is flushed when it is: only the newest values of both can be the same.
        form = {"key": "string", "value": "json", "way": "latest"}
        plain["outputs"] = {name: form | ({"value": "string"} if name == "order-counts-final" else {}) for name in NEXT_TOPICS}
        # Before it is a clone there is nothing of it to save.
        plain["backup"]["schedule"] = None
        plain["clone"] = {"of": APPLICATION, "cut_over": {"environment": {variable(name): name for name in NEXT_TOPICS}}}
        return plain

    def _another(self, first: Plain, name: str, mapped: Mapping[str, str]) -> Plain:
        plain = copy.deepcopy(first)
        plain["name"] = name
        del plain["drill"], plain["reprocess"]
        plain["application"]["id"] = name
        plain["restore"]["topic_map"] = dict(mapped)
        process = plain["runs"]["process"]
        process["directory"] = str(self.directory / name)
        process["environment"] |= {"APPLICATION_ID": name, **{variable(topic): own for topic, own in mapped.items()}}
        url, state = f"http://{HOST}:{free_ports(1)[0]}", str(self.directory / name / "state")
        process["instances"] = [{"name": f"{name}-1", "url": url, "state_directory": state}]
        return plain
