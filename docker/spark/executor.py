"""Starts Spark's executor in a pod of Kubernetes, from the variables that the driver has set there. The pods of a ``k8s://`` master run this:

    python3 /opt/streams-recovery/executor.py executor

Standard library only.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

_CLASS = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_OPTIONS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
_JAVA_OPTION = re.compile(r"SPARK_JAVA_OPT_(\d+)")


def command(environment: Mapping[str, str]) -> list[str]:
    """The program and arguments of the executor. Raises ``KeyError`` for a variable that the driver has not set."""
    numbered = sorted((int(found[1]), value) for name, value in environment.items() if (found := _JAVA_OPTION.fullmatch(name)))
    home, memory = environment["SPARK_HOME"], environment["SPARK_EXECUTOR_MEMORY"]
    places = [environment.get("SPARK_CONF_DIR"), environment.get("SPARK_CLASSPATH"), f"{home}/jars/*"]
    return [
        str(Path(environment["JAVA_HOME"]) / "bin" / "java"),
        *(value for _, value in numbered),
        f"-Xms{memory}",
        f"-Xmx{memory}",
        "-cp",
        ":".join(place for place in places if place),
        _CLASS,
        *(part for option, variable in _OPTIONS.items() for part in (option, environment[variable])),
    ]


def main(arguments: list[str]) -> None:
    """Become the executor."""
    if arguments != ["executor"]:
        sys.exit("usage: executor.py executor; Spark starts it in the pods of a k8s:// master")
    try:
        argv = command(os.environ)
    except KeyError as error:
        sys.exit(f"{error.args[0]} is not set: Spark starts this in the pods of a k8s:// master, and sets it there")
    os.execv(argv[0], argv)  # noqa: S606 - an argument list


if __name__ == "__main__":
    main(sys.argv[1:])
