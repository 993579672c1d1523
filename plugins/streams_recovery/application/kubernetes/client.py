"""Calls to the API server through the official client, and what their failures mean. The client is an extra: it is imported when it is needed."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any

from streams_recovery.config.runs import KubernetesRuns
from streams_recovery.core.errors import ConfigInvalid, ControlPlaneUnavailable, NotFound, RecoveryError, Refused, masked, remember_secrets

# An API server that is replaced or elects a leader is away for seconds.
_PATIENCE = 30.0
_RETRY_SECONDS = 0.5
_CONNECT_SECONDS, _READ_SECONDS = 5.0, 20.0
_OK = range(200, 300)
_BUSY = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS)
_NOT_ALLOWED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


class Client:
    """A connection to one API server. Raises ``ConfigInvalid`` when the client is not installed, or when there is nothing to connect with."""

    def __init__(self, section: KubernetesRuns) -> None:
        try:
            import kubernetes  # noqa: PLC0415 - only those who use it have it
            import urllib3  # noqa: PLC0415 - comes with it
        except ImportError as error:
            raise ConfigInvalid(
                f"runs.kind is kubernetes, and the client for it is not installed: {error}",
                next_step="pip install 'kafka-streams-recovery[kubernetes]' where this runs",
                extra="kubernetes",
            ) from None
        self._kubernetes: Any = kubernetes
        self._failures = (urllib3.exceptions.HTTPError, OSError)
        self._api = kubernetes.client.ApiClient(self._configuration(section))

    def api(self, name: str) -> Any:
        """One of the client's interfaces: ``CoreV1Api``."""
        return getattr(self._kubernetes.client, name)(self._api)

    def call(self, doing: str, function: Callable[..., Any], *arguments: Any, seconds: float = 0, **named: Any) -> Any:
        """The JSON that ``function`` of an interface answers with. It is called again while the API server is away. ``doing`` completes "this may not ...".
        ``seconds`` is added to the time that an answer may take.
        """
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                return self._answer(doing, function, *arguments, seconds=seconds, **named)
            except ControlPlaneUnavailable:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_RETRY_SECONDS)

    def events(self, doing: str, function: Callable[..., Any], *arguments: Any, seconds: int, **named: Any) -> Iterator[Mapping[str, Any]]:
        """The events of a watch as they come, for up to ``seconds``."""
        with self._asked(doing, function, *arguments, seconds=seconds, watch=True, timeout_seconds=seconds, **named) as answer:
            left = b""
            for piece in answer.stream(amt=None):
                *lines, left = (left + piece).split(b"\n")
                for line in lines:
                    yield json.loads(line)

    def _answer(self, doing: str, function: Callable[..., Any], *arguments: Any, seconds: float, **named: Any) -> Any:
        with self._asked(doing, function, *arguments, seconds=seconds, **named) as answer:
            body = answer.read()
        try:
            return json.loads(body)
        except ValueError as error:
            raise failure(doing, None, f"an answer that is not JSON: {error}") from error

    @contextlib.contextmanager
    def _asked(self, doing: str, function: Callable[..., Any], *arguments: Any, seconds: float, **named: Any) -> Iterator[Any]:
        try:
            limits = (_CONNECT_SECONDS, _READ_SECONDS + seconds)
            answer = function(*arguments, **named, _preload_content=False, _request_timeout=limits)
            try:
                if answer.status not in _OK:
                    self._remember_token()
                    raise failure(doing, answer.status, _message(answer.read()))
                yield answer
            finally:
                answer.close()
        except self._kubernetes.client.ApiException as error:
            self._remember_token()
            raise failure(doing, error.status, str(error.reason)) from error
        except self._failures as error:
            raise failure(doing, None, str(error)) from error

    def _remember_token(self) -> None:
        # A service account's is another one every hour.
        keys = self._api.configuration.api_key.values()
        remember_secrets(part for key in keys for part in str(key).split())

    def _configuration(self, section: KubernetesRuns) -> Any:
        configuration = self._kubernetes.client.Configuration()
        config = self._kubernetes.config
        try:
            if section.kubeconfig is None:
                config.load_incluster_config(client_configuration=configuration)
            else:
                # The file is the user's: by default the client writes tokens that it renews into it.
                config.load_kube_config(
                    config_file=section.kubeconfig, context=section.context, client_configuration=configuration, persist_config=False
                )
        except (config.ConfigException, OSError) as error:
            raise ConfigInvalid(
                f"there is nothing to connect to Kubernetes with: {error}",
                next_step="run this in a pod with a service account, or name runs.kubernetes.kubeconfig",
            ) from error
        # Calls are repeated here, where it is known what they do.
        configuration.retries = False
        return configuration


def failure(doing: str, status: int | None, message: str) -> RecoveryError:
    """The error for an answer with this HTTP status, None for no answer. ``doing`` completes "this may not ..."."""
    if status in _NOT_ALLOWED:
        return ConfigInvalid(
            f"this may not {doing}: {message}", next_step="grant it, see include/kubernetes/rbac.yaml", status=status, doing=doing
        )
    if status == HTTPStatus.NOT_FOUND:
        return NotFound(f"cannot {doing}: {message}", next_step="check the names in runs.kubernetes", status=status, doing=doing)
    if not status or status in _BUSY or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return ControlPlaneUnavailable(
            f"cannot {doing}, the API server of Kubernetes {f'answers {status}' if status else 'does not answer'}: {message}",
            next_step="wait until it answers, then run this again",
            status=status,
            doing=doing,
        )
    return Refused(
        f"cannot {doing}, the API server answers {status}: {message}", next_step="correct what it says", status=status, doing=doing
    )


def _message(body: bytes) -> str:
    try:
        text = str(json.loads(body)["message"])
    except (ValueError, TypeError, KeyError):
        text = body.decode(errors="replace")
    # Before it is cut: a half of a secret is not known to be one.
    return masked(text)[:500]
