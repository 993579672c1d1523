"""A browser as people have it: headless Chromium of the system's packages, in the widths and colours that pages are made for."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, sync_playwright

from tests.support.project import PROJECT

PICTURES: Final = PROJECT / "build" / "screens"
WIDTHS: Final = (1280, 400)
Colours = Literal["light", "dark"]
COLOURS: Final[tuple[Colours, ...]] = ("light", "dark")
_PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome")
# A browser that looks for updates of its own makes calls that no page has asked for.
_QUIET: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser that nobody is logged in to. Its own download by Playwright is not used."""
    program = next((found for name in _PROGRAMS if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip(f"NOT checked: this needs Chromium, and none of {', '.join(_PROGRAMS)} is on the PATH")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(_QUIET))
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Watched:
    """A tab, with what went wrong in it: messages of its console, and requests to other places than ``origin``."""

    page: Page
    origin: str
    console: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)

    @classmethod
    def tab(cls, context: BrowserContext, origin: str) -> Watched:
        """A new tab."""
        watched = cls(context.new_page(), origin)
        watched.page.on("console", watched._heard)
        watched.page.on("pageerror", lambda error: watched.console.append(str(error)))
        watched.page.on("request", watched._asked)
        return watched

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.console.append(message.text)

    def _asked(self, request: Request) -> None:
        # Airflow makes its workers as blobs, of its own origin too.
        if not request.url.removeprefix("blob:").startswith((self.origin, "data:")):
            self.elsewhere.append(request.url)

    def too_wide(self) -> list[str]:
        """What stands out of the page sideways, None of it inside a box that scrolls by itself."""
        found: list[str] = self.page.evaluate(_TOO_WIDE)
        return found

    def picture(self, name: str) -> Path:
        """The whole page, below ``build/screens``."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        file = PICTURES / f"{name}.png"
        self.page.screenshot(path=file, full_page=True)
        return file


_TOO_WIDE: Final = """() => {
  const scrolls = (one) => one && one !== document.documentElement && (getComputedStyle(one).overflowX !== "visible" || scrolls(one.parentElement));
  const width = document.documentElement.clientWidth;
  const found = [...document.body.querySelectorAll("*")].filter((one) => one.getBoundingClientRect().right > width + 1 && !scrolls(one));
  if (document.documentElement.scrollWidth > width) found.push(document.documentElement);
  return found.map((one) => `${one.tagName.toLowerCase()}.${one.getAttribute("class") || ""} ${one.textContent.trim().slice(0, 40)}`);
}"""


def looks(browser: Browser) -> Iterator[tuple[str, BrowserContext]]:
    """A context for each width and colours, with its name. Each ends when the next one is asked for."""
    for width, colours in itertools.product(WIDTHS, COLOURS):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=colours, timezone_id="Europe/Vienna")
        try:
            yield f"{width}-{colours}", context
        finally:
            context.close()
