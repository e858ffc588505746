"""Takes the pictures of the README from a running product: ``python docs/screenshot.py [ADDRESS]``."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).parent / "images"
SIZES = {"page.png": (1280, 1230), "page-phone.png": (390, 844)}
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]


def main(arguments: list[str]) -> int:
    """Save one picture for a desk and one for a phone under ``docs/images``.

    Returns:
        0, or 1 when there is no Chromium.
    """
    address = arguments[0] if arguments else "http://127.0.0.1:8420/"
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.stderr.write("Chromium is not installed; on Debian and Ubuntu: apt install chromium\n")
        return 1
    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, headless=True, args=ARGUMENTS)
        for name, (width, height) in SIZES.items():
            page = browser.new_page(viewport={"width": width, "height": height})
            page.goto(address, wait_until="load")
            page.locator("canvas").first.wait_for(state="visible")
            page.screenshot(path=IMAGES / name)
            page.close()
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
