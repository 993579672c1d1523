"""The token by which an application's HTTP interface knows us."""

from __future__ import annotations

import re
from pathlib import Path

from streams_recovery.core.errors import ConfigInvalid, remember_secrets

# RFC 6750, section 2.1: anything else could end the header it is sent in.
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_MAX_BYTES = 8192


def token_in(file: str | None) -> str | None:
    """The token in ``file``, read anew each time so that it can be replaced; None without a file. Raises ``ConfigInvalid``."""
    if file is None:
        return None
    try:
        with Path(file).open("rb") as opened:
            text = opened.read(_MAX_BYTES).decode("ascii").strip()
    except OSError as error:
        raise ConfigInvalid(
            f"the token file {file} cannot be read: {error.strerror}",
            next_step="correct control.token_file, or the rights of that file",
            path=file,
        ) from None
    except UnicodeDecodeError:
        text = ""
    if not _TOKEN.fullmatch(text):
        # Not the text itself: it may be the secret, mistyped.
        raise ConfigInvalid(
            f"{file} holds no token",
            next_step="write one line of letters, digits and -._~+/ into it, such as openssl rand -hex 32 prints",
            path=file,
        )
    remember_secrets([text])
    return text
