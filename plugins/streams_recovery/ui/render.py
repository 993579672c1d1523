"""From templates to answers. Every answer of the page goes through here, and carries its headers."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any, Final

from fastapi import Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from streams_recovery.core.escaping import visible_lines
from streams_recovery.core.jobs.progress import progress_text
from streams_recovery.core.next_command import command
from streams_recovery.core.repository.seal import NOT_SEALED, SEAL_IT, SEALED, forged_text, seal_of_savepoint
from streams_recovery.ui import words
from streams_recovery.ui.configurations import without_paths

_HERE: Final = Path(__file__).parent
# Nothing from elsewhere, no script and no style in the page itself, framed by Airflow only.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'self'; base-uri 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
STATIC: Final = {"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8"}


@cache
def _environment() -> Environment:
    found = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalized,
    )
    found.globals |= {name: getattr(words, name) for name in ("age", "iso", "moment", "number", "runbook", "seconds", "size", "utc")}
    found.globals |= {
        "progress_text": progress_text,
        "command": command,
        "seal_of_savepoint": seal_of_savepoint,
        "forged_text": forged_text,
    }
    found.globals |= {"SEALED": SEALED, "NOT_SEALED": NOT_SEALED, "SEAL_IT": SEAL_IT}
    found.filters["without_paths"] = without_paths
    found.globals["version"] = _version()
    return found


def _finalized(value: Any) -> Any:
    """What a template is given, before HTML in it is escaped. Line breaks stay: HTML takes them for spaces, and an error's lines are shown as they are."""
    return visible_lines(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _static(name: str) -> bytes:
    return (_HERE / "static" / name).read_bytes()


def _version() -> str:
    """Of style and script: a browser keeps them until they change."""
    return hashlib.sha256(b"".join(map(_static, STATIC))).hexdigest()[:12]


def page(template: str, *, root: str, status: int = 200, **values: Any) -> Response:
    """A screen. ``root`` leads from its address to the page's first one."""
    text = _environment().get_template(template).render(root=root, **values)
    return HTMLResponse(text, status_code=status, headers=_HEADERS | {"Cache-Control": "no-store"})


def static(name: str) -> Response | None:
    """The style sheet or the script, None for any other name."""
    if name not in STATIC:
        return None
    return Response(_static(name), headers=_HEADERS | {"Cache-Control": "private, max-age=86400"}, media_type=STATIC[name])


def redirected(address: str) -> Response:
    """To an address relative to this one."""
    return Response(status_code=303, headers=_HEADERS | {"Location": address, "Cache-Control": "no-store"})
