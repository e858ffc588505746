"""The page in Chromium: it moves by itself, answers to pointer and keys, and stays quiet on the console."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Error, Page, expect, sync_playwright

from stormjay.ground.clock import SystemClock
from tests.browser.served import (
    HOSTILE,
    SITES,
    STATION,
    Served,
    packet,
    payload,
    recorded_day,
    served,
    settle,
    three_days,
)
from tests.servers import require

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]
CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
ARTIFACTS = Path(__file__).parents[2] / "test-artifacts"
VENDOR = Path(__file__).parents[2] / "src" / "stormjay" / "ground" / "web" / "static" / "vendor" / "uplot"
PHONE, DESKTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 900}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    require("chromium", found=CHROMIUM.exists(), how="apt-get install --no-install-recommends chromium")
    require("the page's vendored files", found=VENDOR.exists(), how="make vendor")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=str(CHROMIUM), headless=True, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Served]:
    assert browser.is_connected()
    folder = tmp_path_factory.mktemp("journal")
    with served(folder, three_days(SystemClock().now()), sites=SITES, prepare=settle) as running:
        yield running


@contextmanager
def opened(browser: Browser, url: str, **context: Any) -> Iterator[Page]:
    """Open a page; whatever it writes to the console as an error, or throws, fails the test."""
    complaints: list[str] = []

    def listen(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            complaints.append(f"{message.type}: {message.text}")

    def thrown(error: Error) -> None:
        complaints.append(f"thrown: {error}")

    inside = browser.new_context(**{"viewport": DESKTOP, **context})
    page = inside.new_page()
    page.on("console", listen)
    page.on("pageerror", thrown)
    try:
        page.goto(url)
        yield page
    finally:
        inside.close()
    assert complaints == []


def newest(temp_c: float, number: int) -> list[Any]:
    now = SystemClock().now()
    return [packet(now, payload(number, int(now.timestamp()), recorded_day()[0], t=temp_c), number)]


def test_a_new_reading_appears_without_reload(app: Served, browser: Browser) -> None:
    with opened(browser, f"{app.url}/?station={STATION}") as page:
        expect(page.locator("html")).to_have_attribute("data-live", "on")
        page.evaluate("window.sameDocument = true")
        shown = page.locator("#tile-temperature .value b")
        expect(shown).not_to_have_text("−7.3")  # noqa: RUF001 - the page's minus sign
        app.capture(newest(-7.3, 70_001))
        expect(shown).to_have_text("−7.3", timeout=15_000)  # noqa: RUF001 - as above
        expect(page.locator("#part-packets tbody tr").first).to_contain_text("-7.3")
        assert page.evaluate("window.sameDocument") is True


def test_charts_are_drawn_and_have_twins(app: Served, browser: Browser) -> None:
    with opened(browser, f"{app.url}/?range=7d") as page:
        expect(page.locator("time-chart canvas")).to_have_count(6)
        page.locator("#table-temperature summary").click()
        expect(page.locator("#table-temperature tbody tr").first).to_be_visible()
        assert page.locator("time-chart").first.get_attribute("aria-label")
        page.locator("time-chart").first.hover(position={"x": 300, "y": 60})
        expect(page.locator("time-chart.pointing").first).to_be_visible()


def test_a_minute_of_the_strip_opens_its_packet(app: Served, browser: Browser) -> None:
    with opened(browser, f"{app.url}/?station={STATION}") as page:
        track = page.locator("delivery-strip .track").first
        box = track.bounding_box()
        assert box is not None
        past = page.locator("delivery-strip rect.delivered, delivery-strip rect.captured").first.bounding_box()
        assert past is not None
        page.mouse.click(past["x"] + min(past["width"] / 2, 40), box["y"] + box["height"] / 2)
        expect(page.locator("#packet pre.raw")).to_contain_text("obs_st")
        before = page.locator("#packet .minute b").inner_text()
        page.locator("#packet .minute a").first.click()
        expect(page.locator("#packet .minute b")).not_to_have_text(before)


def test_the_strip_answers_to_keys(app: Served, browser: Browser) -> None:
    with opened(browser, f"{app.url}/?station={STATION}") as page:
        track = page.locator("delivery-strip .track").first
        track.focus()
        words = track.get_attribute("aria-valuetext")
        page.keyboard.press("Home")
        assert track.get_attribute("aria-valuenow") == "0"
        assert track.get_attribute("aria-valuetext") != words
        page.keyboard.press("Enter")
        expect(page.locator("#packet .minute")).to_be_visible()


def test_the_page_of_one_packet_says_nothing_of_live(app: Served, browser: Browser) -> None:
    with opened(browser, f"{app.url}/?station={STATION}") as page:
        href = page.locator("#part-packets a").first.get_attribute("href")
    with opened(browser, f"{app.url}{href}") as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.evaluate("window.dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))")
        app.capture(newest(-7.1, 70_002))
        assert (
            page.evaluate("fetch('/healthz').then((answer) => answer.status)") == 200
        )  # whatever came before has come
        assert [url for url in asked if "/events" in url] == []
        expect(page.locator("#live-state")).to_be_empty()


def test_a_hostile_packet_stays_text(app: Served, browser: Browser) -> None:
    with opened(browser, f"{app.url}/?station={STATION}") as page:
        page.locator("#part-packets a", has_text="Ledger entry").first.click()
        expect(page.locator("#packet pre.raw")).to_have_text(HOSTILE)
        assert page.locator("#packet img, #packet script").count() == 0
        assert "taken over" not in page.title()


def test_the_choice_of_colours_is_kept(app: Served, browser: Browser) -> None:
    with opened(browser, app.url, color_scheme="light") as page:
        page.locator("#theme").click()
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        page.reload()
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 22, 28)"


def test_it_works_without_scripts(app: Served, browser: Browser) -> None:
    with opened(browser, f"{app.url}/?station={STATION}", java_script_enabled=False) as page:
        expect(page.locator("#tile-temperature .value b")).to_be_visible()
        expect(page.locator("delivery-strip rect").first).to_be_visible()
        page.locator("#part-packets a", has_text="Weather reading").first.click()
        expect(page.locator("pre.raw")).to_contain_text("obs_st")


def test_the_first_reading_fills_an_empty_page(tmp_path: Path, browser: Browser) -> None:
    with served(tmp_path, []) as running, opened(browser, running.url) as page:
        expect(page.locator("h1")).to_have_text("No station has been heard yet")
        expect(page.locator("html")).to_have_attribute("data-live", "on")
        running.capture(newest(11.5, 1))
        expect(page.locator("#tile-temperature .value b")).to_have_text("11.5", timeout=15_000)


def test_nothing_is_wider_than_a_phone(app: Served, browser: Browser) -> None:
    with opened(browser, app.url, viewport=PHONE) as page:
        expect(page.locator("time-chart canvas")).to_have_count(6)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("name", "viewport"), [("phone", PHONE), ("desktop", DESKTOP)])
def test_pictures_to_look_at(app: Served, browser: Browser, name: str, viewport: dict[str, int], scheme: str) -> None:
    ARTIFACTS.mkdir(exist_ok=True)
    now = SystemClock().now() + timedelta(seconds=2)
    app.capture([packet(now, payload(80_000, int(now.timestamp()), recorded_day()[700]), 80_000)])
    with opened(browser, app.url, viewport=viewport, color_scheme=scheme, reduced_motion="reduce") as page:
        expect(page.locator("time-chart canvas")).to_have_count(6)
        expect(page.locator("html")).to_have_attribute("data-live", "on")
        page.screenshot(path=ARTIFACTS / f"weather-{name}-{scheme}.png", full_page=True)
    assert (ARTIFACTS / f"weather-{name}-{scheme}.png").stat().st_size > 20_000
