"""Every page of the documentation's site in a browser, wide and narrow. Pictures of some are in build/screens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.support.browser import WIDTHS, Watched, chromium
from tests.support.site import build, served

pytestmark = [pytest.mark.deep, pytest.mark.timeout(1_200)]
# A start, tables, wide commands, and drawings.
PICTURED = ("index", "quick-start", "kubernetes-native", "concepts/chain", "dags/streams_backup")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    done = build(target)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


def problems(tab: Watched, address: str) -> list[str]:
    """What is wrong with a page in a browser."""
    tab.console.clear()
    tab.elsewhere.clear()
    answer = tab.page.goto(address, wait_until="networkidle")
    assert answer is not None
    wrong = [f"answers {answer.status}"] * (not answer.ok) + ["has no heading"] * (tab.page.locator("h1").count() != 1)
    wrong += [f"stands out: {one}" for one in tab.too_wide()]
    wrong += [f"is loaded from elsewhere: {one}" for one in tab.elsewhere]
    return wrong + [f"the console says: {one}" for one in tab.console]


@pytest.mark.parametrize("width", WIDTHS)
def test_every_page_can_be_read_and_is_whole(browser: Browser, site: Path, width: int) -> None:
    pages = sorted(file.relative_to(site).as_posix() for file in site.rglob("*.html") if file.name != "404.html")
    assert {f"{name}.html" for name in PICTURED} < set(pages)
    wrong: dict[str, list[str]] = {}
    with served(site) as url:
        context = browser.new_context(viewport={"width": width, "height": 900})
        tab = Watched.tab(context, url)
        for page in pages:
            wrong[page] = problems(tab, f"{url}/{page}")
            if page.removesuffix(".html") in PICTURED:
                tab.picture(f"site-{page.removesuffix('.html').replace('/', '-')}-{width}")
        context.close()
    assert {page: found for page, found in wrong.items() if found} == {}


def test_what_is_wrong_with_a_page_is_found(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "good.html").write_text("<link rel=icon href='data:,'><h1>good</h1>")
    (tmp_path / "bad.html").write_text(
        "<link rel=icon href='data:,'><div class=wide style='width:500px'>a</div><script>console.error('broken')</script><img src='http://elsewhere.invalid/a.png'>"
    )
    with served(tmp_path) as url:
        context = browser.new_context(viewport={"width": 400, "height": 900})
        tab = Watched.tab(context, url)
        assert problems(tab, f"{url}/good.html") == []
        found = problems(tab, f"{url}/bad.html")
        context.close()
    for said in ("no heading", "stands out: div.wide", "from elsewhere: http://elsewhere.invalid/a.png", "console says: broken"):
        assert any(said in one for one in found), (said, found)
