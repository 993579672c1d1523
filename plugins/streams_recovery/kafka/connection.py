"""The connection to a cluster: one value, built from an Airflow connection, understood by both Kafka clients.

In Airflow people write it as properties in the extra, or as a URI, and often for other tools too.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from streams_recovery.core.connection import StoredConnection, ignored_text, unencrypted
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.escaping import logger
from streams_recovery.core.masking import remember_secrets
from streams_recovery.core.remedies.remedy import KafkaTools
from streams_recovery.kafka import properties as known

LOGGER = logger("streams_recovery.kafka.client")

_DEFAULT_PORT: Final = 9092


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class KafkaConnection:
    """Addresses and security of one cluster. ``properties`` have librdkafka's names and never include ``bootstrap.servers``.

    Picklable, because Spark tasks get one. Its text form shows no secret, but a pickle of it does. It opens nothing and proves nothing about the cluster.
    """

    bootstrap_servers: str
    properties: Mapping[str, str]

    @classmethod
    def from_extra(cls, extra: Mapping[str, object], *, where: str) -> KafkaConnection:
        """The connection that ``extra``, the JSON of an Airflow connection of type ``kafka``, describes.

        ``where`` names the connection in errors. Raises ``ConfigInvalid`` for a key that is not on the allow-list (with the nearest one
        that is), a value of the wrong kind, no ``bootstrap.servers``, a mechanism that one of the two clients does not speak, or a token
        endpoint that the client secret would cross the network to unencrypted.
        """
        for key in extra:
            _check_allowed(key, where)
        texts = {known.ALIASES.get(key, key): _text(key, value, where) for key, value in extra.items()}
        servers = texts.pop(known.BOOTSTRAP_SERVERS, "")
        if not servers.strip(" ,"):
            raise ConfigInvalid(
                f"{where} has no {known.BOOTSTRAP_SERVERS}", next_step=f'add {{"{known.BOOTSTRAP_SERVERS}": "host:port"}}', where=where
            )
        for key, choices in known.CHOICES.items():
            if key in texts:
                texts[key] = _choice(key, texts[key], choices, where)
        _check_numbers(texts, where)
        _check_complete(texts, where)
        if known.OAUTH_ENDPOINT in texts:
            _check_endpoint(texts[known.OAUTH_ENDPOINT], where)
        return cls(bootstrap_servers=",".join(part.strip() for part in servers.split(",") if part.strip()), properties=texts)

    def __post_init__(self) -> None:
        # A broker may answer with what it was sent.
        remember_secrets(self.secrets().values())

    def __reduce__(self) -> tuple[object, ...]:
        # The default makes one without __init__: then a worker would not know what it must not show.
        return partial(type(self), bootstrap_servers=self.bootstrap_servers, properties=dict(self.properties)), ()

    @property
    def tools(self) -> KafkaTools:
        """Commands of Kafka's own tools for this cluster."""
        return KafkaTools(self.bootstrap_servers, secured=self.properties.get("security.protocol", "PLAINTEXT") != "PLAINTEXT")

    def client_config(self, **overrides: object) -> dict[str, object]:
        """Configuration of a librdkafka client, ``overrides`` laid over it (pass dotted names as ``**{"group.id": ...}``).

        The client reports to a logger and only in emergencies: librdkafka otherwise writes every failed connect to stderr, many a second.
        """
        quiet: dict[str, object] = {"log_level": 0, "logger": LOGGER}
        return {known.BOOTSTRAP_SERVERS: self.bootstrap_servers, **quiet, **self.properties, **overrides}

    def admin_config(self) -> dict[str, object]:
        """Configuration of kafka-python's ``KafkaAdminClient``. Properties that it has no counterpart for are left out."""
        config: dict[str, object] = {"bootstrap_servers": self.bootstrap_servers.split(",")}
        for key, value in self.properties.items():
            if key in known.ADMIN_NAMES:
                name, convert = known.ADMIN_NAMES[key]
                config[name] = convert(value)
        if self.properties.get("sasl.mechanism") == "OAUTHBEARER":
            config["sasl_oauth_token_provider"] = _token_provider(self.properties)
        return config

    def secrets(self) -> dict[str, str]:
        """The properties that must not be stored or shown."""
        return {key: value for key, value in self.properties.items() if key in known.SECRETS}

    def __repr__(self) -> str:
        shown = {key: "***" if key in known.SECRETS else value for key, value in sorted(self.properties.items())}
        return f"KafkaConnection({self.bootstrap_servers}, {shown})"


# A connection, or a function that looks it up: a process that only reads a repository need not have one.
Connecting = KafkaConnection | Callable[[], KafkaConnection]


def kafka_connection(stored: StoredConnection, *, where: str) -> KafkaConnection:
    """The cluster that ``stored`` describes. The extra comes first; host and port are its address, login and password its SASL user, where the extra has
    none. Properties of consumers and producers are left out, with a warning that names them. Raises ``ConfigInvalid`` as ``KafkaConnection.from_extra``.
    """
    # A form leaves fields that were not filled in as empty ones.
    extra = {key: value for key, value in stored.extra.items() if value not in (None, "")}
    ignored = {key for key in extra if key in known.CHOSEN_HERE}
    extra = _address(stored) | _user(stored, extra) | {key: value for key, value in extra.items() if key not in ignored}
    if _uses_no_sasl(extra) and stored.login:
        ignored.add("login")
    if ignored:
        LOGGER.warning("%s", ignored_text(where, ignored))
    return KafkaConnection.from_extra(extra, where=where)


def _address(stored: StoredConnection) -> dict[str, Any]:
    if not stored.host or any(key in stored.extra for key in (known.BOOTSTRAP_SERVERS, "metadata.broker.list")):
        return {}
    # In a field of its own, host may be a whole list.
    whole = ":" in stored.host or "," in stored.host
    return {known.BOOTSTRAP_SERVERS: stored.host if whole else f"{stored.host}:{stored.port or _DEFAULT_PORT}"}


def _user(stored: StoredConnection, extra: dict[str, Any]) -> dict[str, Any]:
    if _uses_no_sasl(extra):
        return {}
    found = {"sasl.username": stored.login, "sasl.password": stored.password}
    return {key: value for key, value in found.items() if value}


def _uses_no_sasl(extra: dict[str, Any]) -> bool:
    return not str(extra.get("security.protocol", "")).upper().startswith("SASL")


def _token_provider(properties: Mapping[str, str]) -> object:
    # Imported here: clients are made of a connection.
    from streams_recovery.kafka.clients import ClientCredentials  # noqa: PLC0415

    return ClientCredentials(properties)


def _text(key: str, value: object, where: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int)):
        return str(value)
    raise ConfigInvalid(
        f"{where}: {key} must be a text or a number, not {type(value).__name__}",
        next_step=f"write {key} as one value",
        key=key,
        where=where,
    )


def _check_allowed(key: str, where: str) -> None:
    if known.ALIASES.get(key, key) in known.ALLOWED:
        return
    longer = [name for name in sorted(known.ALLOWED) if key and name.startswith(key)]
    nearest = difflib.get_close_matches(key, longer or sorted(known.ALLOWED), n=1, cutoff=0.0)[0]
    raise ConfigInvalid(
        f"{where}: {key[:80]!r} is not a Kafka property that may be set here",
        next_step=f"remove it, or did you mean {nearest}? Properties of a consumer or producer are chosen by this software",
        key=key,
        nearest=nearest,
        where=where,
    )


def _choice(key: str, value: str, choices: tuple[str, ...], where: str) -> str:
    found = next((choice for choice in choices if choice.lower() == value.lower()), None)
    if found is None:
        raise ConfigInvalid(f"{where}: {key} cannot be {value!r}", next_step=f"use one of {', '.join(choices)}", key=key, where=where)
    return found


def _check_numbers(texts: Mapping[str, str], where: str) -> None:
    for key, value in texts.items():
        if key.endswith((".ms", ".bytes")) and not value.isdecimal():
            raise ConfigInvalid(f"{where}: {key} must be a whole number, not {value!r}", next_step=f"correct {key}", key=key, where=where)


def _check_complete(texts: Mapping[str, str], where: str) -> None:
    if not texts.get("security.protocol", "").startswith("SASL"):
        return
    if "sasl.mechanism" not in texts:
        raise ConfigInvalid(
            f"{where}: security.protocol asks for SASL, but there is no sasl.mechanism", next_step="add sasl.mechanism", where=where
        )
    needed = known.NEEDED_BY_OAUTH if texts["sasl.mechanism"] == "OAUTHBEARER" else known.NEEDED_BY_PASSWORD
    missing = [key for key in needed if not texts.get(key)]
    if missing:
        raise ConfigInvalid(
            f"{where}: sasl.mechanism {texts['sasl.mechanism']} needs {', '.join(missing)}",
            next_step=f"add {', '.join(missing)}",
            missing=missing,
            where=where,
        )


def _check_endpoint(url: str, where: str) -> None:
    try:
        in_clear = unencrypted(url)
    except ValueError as error:
        raise ConfigInvalid(f"{where}: {known.OAUTH_ENDPOINT}: {error}", next_step=f"correct {known.OAUTH_ENDPOINT}", where=where) from None
    if in_clear:
        raise ConfigInvalid(
            f"{where}: {known.OAUTH_ENDPOINT} {url} is plain http to another machine: the client secret and the token would cross the network readable",
            next_step="use the endpoint's https address",
            where=where,
        )
