"""A stand-in for the docker client: the arguments and answers of ps, inspect, start and stop, over processes that stand for containers."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "plugins"))

from streams_recovery.application.factory import open_application
from streams_recovery.application.instance_record import InstanceFiles
from streams_recovery.application.port import InstanceState
from streams_recovery.config.runs import Runs

PROJECT = ["--filter", "label=com.docker.compose.project=counting", "--filter", "label=com.docker.compose.oneoff=False"]


def main(file, verb, *arguments):
    """The answer to one call."""
    section = json.loads(Path(file).read_text())
    ids = {instance["name"] + "-" + 50 * "0": instance for instance in section["instances"]}
    if verb == "ps":
        assert list(arguments) == ["--all", "--quiet", "--no-trunc", *PROJECT], arguments
        return "\n".join(ids)
    if verb == "inspect":
        assert arguments[:2] == ("--type", "container"), arguments
        return json.dumps([inspected(section, key, ids[key]) for key in arguments[2:]])
    if verb == "start":
        for key in arguments:
            one(section, ids[key]).start()
        return "\n".join(arguments)
    assert (verb, arguments[0]) == ("stop", "-t"), (verb, arguments)
    for key in arguments[2:]:
        one(section, ids[key]).stop(timeout=float(arguments[1]))
    return "\n".join(arguments[2:])


def one(section, instance):
    """One instance, as an application of its own."""
    return open_application(Runs.model_validate({"kind": "process", "process": {**section, "instances": [instance]}}), "counting")


def inspected(section, key, instance):
    """What ``docker inspect`` says of a container."""
    labels = {"com.docker.compose.project": "counting", "com.docker.compose.service": instance["name"]}
    state = {"Status": "created", "ExitCode": 0, "OOMKilled": False, "StartedAt": moment(None), "FinishedAt": moment(None)}
    files = InstanceFiles(Path(section["directory"]), instance["name"])
    run = files.started()
    if run is not None:
        gone = one(section, instance).status()[0].state is InstanceState.GONE
        ended = files.ended(run.run)
        # A container that a signal killed has the status a shell would show.
        status = 0 if ended is None else ended.status if ended.status >= 0 else 128 - ended.status
        state |= {"Status": "exited" if gone else "running", "ExitCode": status, "StartedAt": moment(run.at)}
        state["FinishedAt"] = moment(ended.at if ended else None)
    return {"Id": key, "Config": {"Labels": labels}, "State": state}


def moment(milliseconds):
    """A time as docker writes it."""
    if milliseconds is None:
        return "0001-01-01T00:00:00Z"
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "789Z"


if __name__ == "__main__":
    sys.stdout.write(main(*sys.argv[1:]))
