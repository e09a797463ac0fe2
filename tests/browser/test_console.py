"""The console in a browser, on a real installation: signing in, live lag, both themes, keyboard,
accessibility."""

from __future__ import annotations

import json
import os
import re
import time
from itertools import pairwise
from pathlib import Path

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, BrowserContext, Page, WebSocketRoute, expect

from tests.browser.conftest import Installation, Watched

pytestmark = [pytest.mark.apt("chromium"), pytest.mark.timeout(240)]
SLOW = "risk-control"
GROUPS = "/clusters/local/groups/"
PAGES = {
    "overview": "/clusters/local/",
    "groups": GROUPS,
    "group": f"{GROUPS}{SLOW}/",
    "api": "/api/admin/v1/docs",
    "password": "/accounts/password",
}
LAG = f'[data-lag-of="{SLOW}"]'
TARGET_PX = 24
SOON_MS = 90_000
"""For what a sample of the cluster shows."""
GROWS_S_MAX = 180.0
"""The demo has a busy minute now and then; after one the slow group only drains for a while."""


async def lag_of(page: Page) -> int:
    """That of the slow group, once it has committed."""
    await expect(page.locator(LAG).first).to_have_text(re.compile(r"^[\d,]+$"), timeout=SOON_MS)
    return int((await page.locator(LAG).first.inner_text()).replace(",", ""))


async def wait_until_live(page: Page) -> None:
    await expect(page.locator('[data-live-state="live"]')).to_be_visible(timeout=SOON_MS)


async def wait_until_lag_is_not(page: Page, lag: int) -> None:
    await page.wait_for_function(
        "([selector, lag]) => document.querySelector(selector).textContent !== lag",
        arg=[LAG, f"{lag:,}"],
        timeout=SOON_MS,
    )


async def test_one_time_link_signs_in_once(
    browser: Browser, installation: Installation, cookies: list[dict[str, object]]
) -> None:
    context = await browser.new_context()
    page = await context.new_page()
    answer = await page.goto(installation.sign_in_link)
    assert answer is not None
    assert answer.status == 410
    await expect(page.get_by_role("heading", name="This link no longer works")).to_be_visible()
    await page.goto(f"{installation.console}{GROUPS}")
    await expect(page).to_have_url(re.compile(r"/accounts/sign-in\?next=/clusters/local/groups/"))
    await context.close()


async def test_slow_groups_lag_moves_without_reload(page: Page) -> None:
    await page.goto(GROUPS)
    await page.evaluate("window.isSamePage = true")
    await expect(page.locator(LAG)).to_have_text(re.compile(r"^[\d,]+$"), timeout=SOON_MS)
    seen = [await lag_of(page)]
    deadline_s = time.monotonic() + GROWS_S_MAX
    while not (len(seen) > 4 and any(later > lag for lag, later in pairwise(seen))):
        assert time.monotonic() < deadline_s, f"the slow group's lag should grow now: {seen}"
        await wait_until_lag_is_not(page, seen[-1])
        seen.append(await lag_of(page))
    assert await page.evaluate("window.isSamePage"), "the page was loaded again"


async def test_chart_and_its_table_move_too(page: Page) -> None:
    await page.goto(PAGES["group"])
    await expect(page.locator("#lag canvas")).to_be_visible(timeout=SOON_MS)
    await page.get_by_text("Show as a table").click()
    cell = page.locator("#live-twin tbody tr").first.locator("td").first
    before = await cell.inner_text()
    await expect(cell).not_to_have_text(before, timeout=SOON_MS)
    await expect(page.locator("details.twin")).to_have_attribute("open", "")
    await expect(page.locator(".legend li")).to_have_count(2)
    lag, shown = await lag_of(page), await page.locator(".legend strong").first.inner_text()
    assert abs(int(shown.replace(",", "")) - lag) <= max(500, lag // 5)


async def test_chart_fetches_its_history_again_when_frames_were_lost(page: Page) -> None:
    sequences: list[int] = []

    def lose_some(socket: WebSocketRoute) -> None:
        """The first frame arrives, and of the later ones those that do not follow it."""
        server = socket.connect_to_server()

        def pass_on(message: str | bytes) -> None:
            sequence = int(json.loads(message)["sequence"])
            if not sequences or sequence > sequences[0] + 1:
                sequences.append(sequence)
                socket.send(message)

        server.on_message(pass_on)

    await page.route_web_socket(re.compile(r"/ws/live"), lose_some)
    asked_after: list[int] = []
    page.on(
        "request",
        lambda request: "/history" in request.url and asked_after.append(len(sequences)),
    )
    await page.goto(PAGES["group"])
    await expect(page.locator("#lag canvas")).to_be_visible(timeout=SOON_MS)
    if not any(count > 1 for count in asked_after):
        await page.wait_for_event(
            "request",
            lambda request: "/history" in request.url and len(sequences) > 1,
            timeout=SOON_MS,
        )


async def test_pause_stops_updates_and_resume_goes_on(page: Page) -> None:
    await page.goto(GROUPS)
    await wait_until_live(page)
    await page.get_by_role("button", name="Pause").click()
    await expect(page.get_by_role("status").filter(has_text="Paused")).to_be_visible()
    await page.wait_for_timeout(1_200)
    before = await page.locator("#live-groups").inner_text()
    await page.wait_for_timeout(2_500)
    assert await page.locator("#live-groups").inner_text() == before
    await page.get_by_role("button", name="Resume").click()
    await wait_until_live(page)
    await wait_until_lag_is_not(page, await lag_of(page))


async def test_live_rows_stay_while_a_pointer_is_pressed(page: Page) -> None:
    """A click counts only where press and release meet the same element."""
    await page.goto(GROUPS)
    await wait_until_live(page)
    await page.get_by_role("heading", name="Groups").hover()
    await page.mouse.down()
    before = await page.locator("#live-groups").inner_text()
    await page.wait_for_timeout(2_500)
    assert await page.locator("#live-groups").inner_text() == before
    await page.mouse.up()
    await wait_until_lag_is_not(page, await lag_of(page))


async def test_focus_stays_while_rows_are_replaced(page: Page) -> None:
    await page.goto(GROUPS)
    await wait_until_live(page)
    await page.get_by_role("link", name=SLOW).focus()
    lag = await lag_of(page)
    await wait_until_lag_is_not(page, lag)
    assert await page.evaluate("document.activeElement.textContent") == SLOW


async def test_focus_stays_in_a_row_that_changes_its_rank(page: Page) -> None:
    await page.goto(GROUPS)
    await wait_until_live(page)
    await page.get_by_role("button", name="Pause").click()
    kept = await page.evaluate(
        """async () => {
          const { morph } = await import(document.querySelector("script[type=module]").src
            .replace(/[^/]*$/, "morph.js"));
          const body = document.querySelector("#live-groups tbody");
          const rows = [...body.children];
          rows.at(-1).querySelector("a").focus();
          const focused = document.activeElement;
          morph(body, rows.reverse().map((row) => row.outerHTML).join(""));
          return focused === document.activeElement && body.firstElementChild.contains(focused);
        }"""
    )
    assert kept


async def test_filter_changes_the_list_the_address_and_the_live_view(page: Page) -> None:
    await page.goto(GROUPS)
    await wait_until_live(page)
    await page.keyboard.press("/")
    await page.keyboard.type("risk")
    rows = page.locator("#live-groups tbody tr")
    await expect(rows).to_have_count(1)
    await expect(page).to_have_url(re.compile(r"\?q=risk"))
    await wait_until_lag_is_not(page, await lag_of(page))
    await expect(rows).to_have_count(1)
    await page.get_by_label("Verdict", exact=True).select_option("rewound")
    await expect(page.get_by_text("No group fits")).to_be_visible()
    await page.get_by_role("link", name="Show all groups").click()
    for name in (SLOW, "notification"):
        await expect(page.get_by_role("link", name=name)).to_be_visible()


async def test_group_is_reached_from_the_overview(page: Page) -> None:
    await page.goto("/")
    await page.get_by_role("link", name="All groups").click()
    await page.get_by_role("link", name=SLOW).click()
    await expect(page.get_by_role("heading", name=SLOW)).to_be_visible()
    await expect(page.locator("#live-partitions tbody tr")).to_have_count(6)
    await expect(page.locator("#live-members tbody tr")).not_to_have_count(0)
    await page.get_by_role("link", name="1 h", exact=True).click()
    await expect(page).to_have_url(re.compile(r"span=1h"))


async def test_theme_is_remembered(page: Page) -> None:
    await page.goto("/")
    await page.get_by_role("button", name="Dark").click()
    await page.reload()
    assert await page.evaluate("document.documentElement.dataset.theme") == "dark"
    dark = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    await page.get_by_role("button", name="Light").click()
    assert await page.evaluate("getComputedStyle(document.body).backgroundColor") != dark


async def test_keyboard_reaches_the_content_first(page: Page) -> None:
    await page.goto("/")
    await page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    await expect(skip).to_be_focused()
    await expect(skip).to_be_in_viewport()
    await page.keyboard.press("Enter")
    assert await page.evaluate("document.activeElement.id") == "main"


@pytest.mark.parametrize("name", PAGES)
async def test_page_is_accessible_and_keeps_the_policy(
    context: BrowserContext, watched: Watched, theme: str, name: str, screenshots: Path
) -> None:
    page = watched.page
    await page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    await page.goto(PAGES[name])
    if await page.locator("[data-live]").count():
        await wait_until_live(page)
    if name == "group":
        await expect(page.locator("#lag canvas")).to_be_visible(timeout=SOON_MS)
        await page.get_by_text("Show as a table").click()
    found = await Axe().run(page)
    violations = [
        (one["id"], [node["html"] for node in one["nodes"]]) for one in found.response["violations"]
    ]
    await page.screenshot(path=screenshots / f"{name}-{theme}.png", full_page=True)
    assert violations == []


@pytest.mark.parametrize("name", PAGES)
async def test_targets_are_large_enough_and_nothing_overflows(page: Page, name: str) -> None:
    await page.goto(PAGES[name])
    small = await page.evaluate(
        """(least) => [...document.querySelectorAll("a, button, input, select, summary")]
            .filter((element) => element.checkVisibility() && element.type !== "hidden")
            .filter((element) => !element.closest("p, li, .skip-link"))
            .map((element) => [element.outerHTML.slice(0, 80), element.getBoundingClientRect()])
            .filter(([, box]) => box.width < least || box.height < least)
            .map(([html, box]) => `${html} ${box.width}x${box.height}`)""",
        TARGET_PX,
    )
    assert small == []
    for width in (1360, 390):
        await page.set_viewport_size({"width": width, "height": 860})
        wider = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wider <= 0, f"the page scrolls sideways at {width} pixels"


@pytest.mark.parametrize("path", ["/accounts/sign-in", "/accounts/link/x", "/nope"])
async def test_pages_before_signing_in_are_accessible(
    browser: Browser, installation: Installation, theme: str, path: str, screenshots: Path
) -> None:
    context = await browser.new_context(color_scheme=theme)  # type: ignore[arg-type]
    page = await context.new_page()
    await page.goto(installation.console + path)
    found = await Axe().run(page)
    name = path.strip("/").replace("/", "-")
    await page.screenshot(path=screenshots / f"{name}-{theme}.png")
    await context.close()
    assert [one["id"] for one in found.response["violations"]] == []


async def test_signing_out_ends_the_live_socket(
    browser: Browser, installation: Installation
) -> None:
    """Needs a session of its own: the others go on."""
    import subprocess
    import sys

    from tests.browser.conftest import ROOT

    printed = subprocess.run(
        [sys.executable, "manage.py", "signin_link", "--url", installation.console],
        cwd=ROOT,
        env={**os.environ, "HERMES_DATA_DIR": str(installation.data)},
        capture_output=True,
        text=True,
        check=True,
    )
    context = await browser.new_context(base_url=installation.console)
    staying, leaving = await context.new_page(), await context.new_page()
    await leaving.goto(printed.stdout.strip())
    await leaving.get_by_role("button", name="Sign in").click()
    await leaving.wait_for_url("**/clusters/local/")
    await staying.goto(GROUPS)
    await wait_until_live(staying)
    await leaving.get_by_role("button", name="Sign out").click()
    await expect(leaving).to_have_url(re.compile("/accounts/sign-in"))
    await expect(staying).to_have_url(re.compile("/accounts/sign-in"), timeout=SOON_MS)
    await context.close()
