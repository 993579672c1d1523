"""Who may listen to, and take part in, what Spark's driver and workers say to each other.

Tasks travel in closures, which carry the passwords of Kafka and of the object store, and whoever may take part can run code. By default Spark neither
authenticates nor encrypts. On a cluster a job is submitted with both, or not at all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.engine.master import is_local
from streams_recovery.engine.spark_home import find_spark_home

AUTHENTICATE: Final = "spark.authenticate"
SECRET: Final = "spark.authenticate.secret"  # noqa: S105 - the name of a setting
ENCRYPT: Final = "spark.network.crypto.enabled"
_TLS: Final = "spark.ssl.rpc.enabled"
_ENCRYPTED: Final = {
    ENCRYPT: "true",
    # Without this a driver whose counterpart does not encrypt goes on in clear.
    "spark.network.crypto.saslFallback": "false",
}
_SETTING: Final = re.compile(r"([^\s=:]+)(?:\s*[=:]\s*|\s+)(.*)")
_GENERATES_SECRETS: Final = ("yarn", "k8s://")


def rpc_settings(master: str, defaults: Mapping[str, str], *, allow_insecure: bool) -> dict[str, str]:
    """What is set at submission, over the ``defaults`` of the submitting machine, so that nobody else listens. Nothing for a local master, and where
    the configuration allows an insecure network.

    Raises ``ConfigInvalid`` when the defaults forbid it, and when the cluster needs a secret that they do not have.
    """
    if is_local(master) or allow_insecure:
        return {}
    tls = _is(defaults, _TLS, "true")
    for name in (AUTHENTICATE,) if tls else (AUTHENTICATE, ENCRYPT):
        if _is(defaults, name, "false"):
            raise _insecure(master, f"spark-defaults.conf turns {name} off")
    if not master.startswith(_GENERATES_SECRETS) and not defaults.get(SECRET):
        raise _insecure(master, f"spark-defaults.conf has no {SECRET}")
    # What is spilled to the workers' disks is encrypted too; its key travels by the same way.
    return {AUTHENTICATE: "true", "spark.io.encryption.enabled": "true", **({} if tls else _ENCRYPTED)}


def spark_defaults(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The settings in ``spark-defaults.conf`` of ``SPARK_CONF_DIR``, else of Spark's home; none where there is no such file. Raises ``ConfigInvalid``."""
    directory = Path(environment.get("SPARK_CONF_DIR") or find_spark_home(environment) / "conf")
    try:
        text = (directory / "spark-defaults.conf").read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid(
            f"{directory / 'spark-defaults.conf'} cannot be read: {type(error).__name__}",
            next_step="let the user that submits Spark jobs read it",
        ) from None
    lines = (line.strip() for line in text.splitlines())
    found = (_SETTING.fullmatch(line) for line in lines if line and line[0] not in "#!")
    return {setting[1]: setting[2] for setting in found if setting}


def _is(defaults: Mapping[str, str], name: str, value: str) -> bool:
    return defaults.get(name, "").lower() == value


def _insecure(master: str, why: str) -> ConfigInvalid:
    return ConfigInvalid(
        f"Spark's driver and the workers of {master} would talk unauthenticated or in clear, and what they say carries the passwords of Kafka and of the "
        f"object store: {why}",
        next_step=f"set {AUTHENTICATE}, {ENCRYPT} and {SECRET} on the driver, the master and all workers (docs/remote-spark.md), or say "
        "spark.allow_insecure_rpc: true in the application's configuration where the network is trusted",
        master=master,
    )
