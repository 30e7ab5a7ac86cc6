"""Looks at the built site in a browser: on a screen, in the dark, and on a phone.

sphinx-build -b html docs docs/_build/html
pip install playwright
python tests/tools/site_check.py [SITE] [--pictures FOLDER]

Needs Chromium (its path in the variable CHROMIUM, or a `chromium` on the path). On every page nothing is wider than the
window, no table scrolls, every picture is there, and nothing is written to the console. The search finds what people
look for. With --pictures, screenshots of the pages are written to a folder. The exit code is 1 if something is wrong.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

VIEWS = {"screen": (1280, "light"), "dark": (1280, "dark"), "phone": (390, "light"), "dark phone": (390, "dark")}
TASKS = ("classification", "detection", "segmentation", "text-in-pictures", "sound", "language", "video", "web-service")
SEARCHES = {
    "object detection": "tasks/detection.html",
    "hugging face": "how-to/preprocessing.html",
    "pytorch": "how-to/preprocessing.html",
    "audio": "tasks/sound.html",
    "jupyter": "how-to/notebooks.html",
    "fastapi": "tasks/web-service.html",
}
"""What is looked for, and a page that must be among the first three results."""

MEASURE = """
() => {
  const root = document.documentElement, found = [];
  if (root.scrollWidth > root.clientWidth) found.push(`is ${root.scrollWidth} wide`);
  for (const box of document.querySelectorAll("article .table-wrapper, article table"))
    if (box.scrollWidth > box.clientWidth + 1) found.push(`a table scrolls: ${box.innerText.slice(0, 40)}`);
  for (const image of document.querySelectorAll("img"))
    if (image.offsetParent && !image.naturalWidth) found.push(`there is no ${image.src}`);
  return found;
}
"""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a server of the folder: the search reads pages, which browsers forbid for files."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@contextmanager
def opened(browser: Browser, wrong: list[str]) -> Iterator[Page]:
    """A window; what its console says is wrong."""
    context = browser.new_context()
    page = context.new_page()
    page.on("console", lambda said: wrong.append(f"{page.url}: {said.text}") if said.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(f"{page.url}: {error}"))
    yield page
    context.close()


def turn(page: Page, view: str) -> None:
    """Makes the window that of a view."""
    width, scheme = VIEWS[view]
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")


def look(page: Page, address: str, name: str, pictures: Path | None) -> Iterator[str]:
    """What is wrong with a page in each view."""
    page.goto(f"{address}/{name}", wait_until="load")
    for view, (_, scheme) in VIEWS.items():
        turn(page, view)
        for what in page.evaluate(MEASURE):
            yield f"{view}: {name} {what}"
        levels = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)")
        if (max(levels) < 64) is not (scheme == "dark"):
            yield f"{view}: the background of {name} is {levels}"
        if pictures:
            page.screenshot(path=pictures / f"{view} {name.replace('/', '_')}.png", full_page=True)


def lacks_pictures(page: Page, address: str) -> Iterator[str]:
    """Pages on tasks, and the first page, have pictures; there is an icon; names of the reference are links."""
    for name in ("index.html", *(f"tasks/{task}.html" for task in TASKS)):
        page.goto(f"{address}/{name}")
        wanted = len(TASKS) if "index" in name else 1
        if (count := page.locator("article img").count()) < wanted:
            yield f"{name} has {count} pictures"
    if not page.locator("link[rel~=icon]").count():
        yield "there is no icon"
    page.goto(f"{address}/api/index.html")
    if (left := page.locator("article table td:nth-child(2) code:not(a code)").all_inner_texts()) != []:
        yield f"names of the reference are no links: {', '.join(left)}"


def not_found(page: Page, address: str) -> Iterator[str]:
    """Searches whose page is not among the first results."""
    for words, wanted in SEARCHES.items():
        page.goto(f"{address}/search.html?q={words.replace(' ', '+')}")
        page.wait_for_selector("#search-results ul.search > li > a")
        page.wait_for_timeout(500)  # results come one after the other
        links = page.eval_on_selector_all(
            "#search-results ul.search > li > a", "all => all.map(a => a.pathname.slice(1))"
        )
        first = list(dict.fromkeys(links))
        if wanted not in first[:3]:
            yield f"the search for {words} finds {', '.join(first[:3]) or 'nothing'}, not {wanted}"


def check(site: Path, pictures: Path | None) -> list[str]:
    """Everything that is wrong."""
    names = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html") if "_static" not in path.parts)
    wrong: list[str] = []
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with served(site) as address, sync_playwright() as player:
        browser = player.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        with opened(browser, wrong) as page:
            wrong += [what for name in names for what in look(page, address, name, pictures)]
            turn(page, "screen")
            wrong += [*lacks_pictures(page, address), *not_found(page, address)]
        browser.close()
    print(f"{len(names)} pages in {len(VIEWS)} views, {len(SEARCHES)} searches: {len(wrong)} wrong")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description="Looks at the built site in a browser.")
    parser.add_argument("site", nargs="?", type=Path, default=Path(__file__).parents[2] / "docs" / "_build" / "html")
    parser.add_argument("--pictures", type=Path, help="a folder for screenshots")
    given = parser.parse_args()
    if given.pictures:
        given.pictures.mkdir(parents=True, exist_ok=True)
    wrong = check(given.site, given.pictures)
    print(*wrong, sep="\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
