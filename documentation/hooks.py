"""What MkDocs calls while it builds the site: pictures become part of their pages, so that they take the page's colours."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from documentation.picture import without_style

# A picture that has a line of its own.
_PICTURE: Final = re.compile(r"^!\[(?P<says>[^\]]+)\]\((?P<file>[\w./-]+\.svg)\)$", re.MULTILINE)


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """MkDocs calls this with each page's text."""
    folder = (Path(config["docs_dir"]) / page.file.src_uri).parent
    return inlined(markdown, folder)


def inlined(markdown: str, folder: Path) -> str:
    """The text with each SVG file of ours in place of the link to it. A link to a file that is not there stays, and MkDocs reports it."""

    def drawing(found: re.Match[str]) -> str:
        file = folder / found["file"]
        if not file.is_file():
            return found[0]
        svg = re.sub(r"\s*\n\s*", " ", without_style(file.read_text(encoding="utf-8")).strip())
        return f'<figure class="drawing" aria-label="{found["says"]}">{svg}</figure>'

    return _PICTURE.sub(drawing, markdown)
