"""The programs that a ``runs.command`` section names when an application runs in a compose project.

    python -m streams_recovery.application.docker_compose_verbs SETTINGS VERB [STORE]

SETTINGS is a JSON file with the fields of ``DockerComposeSettings``. Without ``DOCKER_HOST`` in the environment, or with an empty one, no
engine is used. Output and exit status are those that command.py describes.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pydantic import ValidationError

from streams_recovery.application.command import NO_KEY_ROUTE, TOO_LARGE
from streams_recovery.application.docker_compose import DockerComposeApplication, DockerComposeSettings
from streams_recovery.application.port import AnswerTooLarge, NoKeyRoute
from streams_recovery.config.runs.process import Control
from streams_recovery.core import codec
from streams_recovery.core.errors import ConfigInvalid, PermanentError, RecoveryError, Refused
from streams_recovery.core.state.key_query import KeyQuestion, answer_fields

_VERBS = ("status", "stop", "start", "pause", "resume", "wipe", "query", "query_keys")
_COUNTS = (2, 3)


def main(arguments: list[str]) -> int:
    """Do one verb. The exit status is 2 for a wrong configuration, 3 for a refusal, 4 for an answer that is too large, 5 for a key that cannot be asked
    for, 7 for what may succeed later.
    """
    if len(arguments) not in _COUNTS:
        sys.stderr.write(f"usage: docker_compose_verbs SETTINGS {'|'.join(_VERBS)} [STORE]")
        return ConfigInvalid.exit_code
    try:
        sys.stdout.write(json.dumps(codec.encode(_done(*arguments))))
    except RecoveryError as error:
        sys.stderr.write(str(error))
        if isinstance(error, AnswerTooLarge | NoKeyRoute):
            return TOO_LARGE if isinstance(error, AnswerTooLarge) else NO_KEY_ROUTE
        permanent = isinstance(error, PermanentError) and not isinstance(error, ConfigInvalid)
        return Refused.exit_code if permanent else error.exit_code
    return 0


def _done(settings_file: str, verb: str, store: str = "") -> object:
    application = DockerComposeApplication(_settings(Path(settings_file)))
    match verb:
        case "status":
            return application.status()
        case "stop":
            return application.stop(timeout=float(os.environ.get("STOP_TIMEOUT_SECONDS", "60"))).instances
        case "wipe":
            return application.wipe_state()
        case "query":
            return application.query(store)
        case "query_keys":
            return [answer_fields(one) for one in application.query_keys(_questions(sys.stdin.buffer.read()))]
        case "start" | "pause" | "resume":
            return getattr(application, verb)()
    raise ConfigInvalid(f"{verb} is not a verb", next_step=f"use one of {', '.join(_VERBS)}", verb=verb)


def _questions(given: bytes) -> tuple[KeyQuestion, ...]:
    found: tuple[KeyQuestion, ...] = codec.loads(tuple[KeyQuestion, ...], given, where="the questions on standard input")
    return found


def _settings(path: Path) -> DockerComposeSettings:
    try:
        settings = DockerComposeSettings.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigInvalid(f"{path} cannot be read: {error}", next_step="name the settings file of the application") from error
    except ValidationError as error:
        # The text of the cause repeats the values.
        found = "; ".join(
            ": ".join(filter(None, (".".join(map(str, one["loc"])), one["msg"]))) for one in error.errors(include_input=False)
        )
        raise ConfigInvalid(f"{path} cannot be used: {found}", next_step="correct the settings file of the application") from None
    # What a file forgets would be a default: an application that closes when it is asked to would be killed.
    if missing := sorted(Control.model_fields.keys() - settings.control.model_fields_set):
        raise ConfigInvalid(
            f"{path} cannot be used: control has no {', '.join(missing)}", next_step="write null for what the application does not offer"
        )
    return settings if os.environ.get("DOCKER_HOST") else settings.model_copy(update={"docker": None})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
