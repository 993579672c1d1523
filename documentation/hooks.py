"""What MkDocs calls while it builds the site: it makes the pages and the names of tests that are only there, pictures become part of their pages, so that they
take the page's colours, and files of the project that a page links to become files of the site.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from mkdocs.structure.files import File, Files

from documentation.faults import PAGE, filled, marked
from documentation.pages import site_pages
from documentation.picture import without_style

# A picture that has a line of its own.
_PICTURE: Final = re.compile(r"^!\[(?P<says>[^\]]+)\]\((?P<file>[\w./-]+\.svg)\)$", re.MULTILINE)
# A link that leaves the folder of the pages for files that a user takes.
_LINK: Final = re.compile(r"\]\((?:\.\./)+(?P<file>(?:include|deploy|examples)/[\w./-]+)\)")


def on_files(files: Files, *, config: Any) -> Files:
    """MkDocs calls this once, with all files of the site."""
    root = Path(config["docs_dir"]).parent
    for name, text in site_pages().items():
        files.append(File.generated(config, name, content=text))
    for linked in sorted({name for page in files.documentation_pages() for name in linked_files(page.content_string)}):
        if (root / linked).is_file():
            files.append(File.generated(config, f"files/{linked}", abs_src_path=str(root / linked)))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """MkDocs calls this with each page's text."""
    folder = (Path(config["docs_dir"]) / page.file.src_uri).parent
    if page.file.src_uri == PAGE:
        markdown = filled(markdown, marked())
    return relinked(inlined(markdown, folder), page.file.src_uri)


def linked_files(markdown: str) -> list[str]:
    """Files outside the folder of the pages that a page links to, from the root of the project."""
    return [found["file"] for found in _LINK.finditer(markdown)]


def relinked(markdown: str, page: str) -> str:
    """The text of ``page`` with its links to such files as the site has them."""
    return _LINK.sub(lambda found: f"]({'../' * page.count('/')}files/{found['file']})", markdown)


def inlined(markdown: str, folder: Path) -> str:
    """The text with each SVG file of ours in place of the link to it. A link to a file that is not there stays, and MkDocs reports it."""

    def drawing(found: re.Match[str]) -> str:
        file = folder / found["file"]
        if not file.is_file():
            return found[0]
        svg = re.sub(r"\s*\n\s*", " ", without_style(file.read_text(encoding="utf-8")).strip())
        return f'<figure class="drawing" aria-label="{found["says"]}">{svg}</figure>'

    return _PICTURE.sub(drawing, markdown)
