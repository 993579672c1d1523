"""What all pictures of the documentation have in common: they are SVG, and readable on light and on dark pages."""

from __future__ import annotations

import re
from typing import Final

# In the site the page decides about the colours (docs/assets/site.css); elsewhere the reader's system does.
STYLE: Final = """\
<style>
.diagram{--ink:#1f2733;--soft:#5b6675;--paper:#ffffff;
--line:#8a94a3;--a:#dbe7ff;--b:#ffe9c7;--c:#d8f3df;--d:#fbdcdc;--e:#ebe3fb}
@media (prefers-color-scheme:dark){.diagram{--ink:#e8ecf3;--soft:#a9b3c2;--paper:#1b1f27;
--line:#78849a;--a:#27406f;--b:#6b4a12;--c:#1f5734;--d:#6e2a2a;--e:#473372}}
.diagram text{fill:var(--ink);font:13px system-ui,sans-serif}
.diagram .soft{fill:var(--soft);font-size:12px}
.diagram .code{font:12px ui-monospace,monospace}
.diagram .mid{text-anchor:middle}
.diagram .bold{font-weight:600}
.diagram .a{fill:var(--a)}.diagram .b{fill:var(--b)}.diagram .c{fill:var(--c)}.diagram .d{fill:var(--d)}.diagram .e{fill:var(--e)}
.diagram .paper{fill:var(--paper)}
.diagram rect{stroke:var(--line);stroke-width:1}
.diagram .flow{fill:none;stroke:var(--line);stroke-width:1.4}
.diagram .cut{fill:none;stroke:var(--ink);stroke-width:2;stroke-dasharray:6 4}
.diagram .tip{fill:var(--line)}
</style>
"""
_STYLE: Final = re.compile(r"<style>.*?</style>\s*", re.DOTALL)


def picture(width: int, height: int, title: str, body: str) -> str:
    """A whole SVG file."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="diagram" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">\n'
    return f"{head}<title>{title}</title>\n{STYLE}{body}</svg>\n"


def without_style(svg: str) -> str:
    """The picture for a page that has the style itself."""
    return _STYLE.sub("", svg)
