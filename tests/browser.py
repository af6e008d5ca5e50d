"""Look at a page in a browser."""

import shutil

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

CHROMIUM = shutil.which("chromium")


def look_at(page: Page, url: str) -> None:
    """The page fits its content security policy; Tab reaches the skip link first; it is accessible and fits the window
    in both colour schemes and widths, which its style sheet follows without a new load.
    """
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text) if "Content Security" in message.text else None)
    page.goto(url)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for width in (1280, 400):
            page.set_viewport_size({"width": width, "height": 900})
            violations = Axe().run(page).response["violations"]
            faults = [fault for fault in violations if fault["impact"] in ("serious", "critical")]
            assert faults == [], (url, scheme, width)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (url, scheme, width)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('href')") == "#content", url
    assert refused == []
