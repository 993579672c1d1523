"""What a Spark driver finds in its environment: what programs need on this machine, and not the connections, keys and passwords of who submits it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

_NAMES: Final = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "HOSTNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TMP", "TEMP", "LD_LIBRARY_PATH"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
        *("KUBECONFIG", "KRB5CCNAME", "KRB5_CONFIG", "STREAMS_RECOVERY_NATIVE"),
    }
)
# AWS_: a repository without a connection is opened with the credentials of the machine.
_PREFIXES: Final = ("LC_", "JAVA_", "JDK_", "SPARK_", "PYSPARK_", "PYTHON", "HADOOP_", "YARN_", "KUBERNETES_SERVICE_", "AWS_")


def driver_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Those variables of ``environment`` that a driver is given. Proxies by their names in lower case too."""
    return {name: value for name, value in environment.items() if name.upper() in _NAMES or name.startswith(_PREFIXES)}
