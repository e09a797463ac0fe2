"""Accounts, tokens, audit and clusters in a browser: a viewer is made and refused, a token is made
and used, a second cluster is added; both themes, phones, accessibility.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, BrowserContext, Page, Route, expect

from tests.browser.conftest import Installation, Watched
from tests.browser.test_topics import forgive, new_name
from tests.console.kafka_world import World
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.apt("chromium"), pytest.mark.timeout(240)]
PAGES = {
    "accounts": "/accounts/users/",
    "account-new": "/accounts/users/new",
    "account": "/accounts/users/admin/",
    "account-disable": "/accounts/users/admin/disable",
    "profile": "/accounts/profile",
    "token-new": "/accounts/tokens/new",
    "audit": "/audit/",
    "clusters": "/clusters/",
    "cluster-new": "/clusters/new",
    "cluster-connection": "/clusters/local/connection",
    "cluster-remove": "/clusters/local/connection/remove",
    "not-found": "/nothing-here",
}
TARGET_PX = 24
SOON_MS = 90_000
COPIED_MS = 2_000
"""How long the console says that something was copied."""


async def secret_of(page: Page) -> str:
    return await page.locator("[data-secret]").inner_text()


async def stop_time(page: Page) -> None:
    """Of a page whose clock is installed: what it shows for a while stays until `run_for`. It stops
    a minute ahead, for the clock goes on until then and cannot be set back.
    """
    await page.clock.pause_at(await page.evaluate("Date.now()") / 1_000 + 60)


async def test_viewer_signs_in_by_link_sees_and_is_refused(
    browser: Browser, installation: Installation, watched: Watched
) -> None:
    page, name = watched.page, new_name("vera")
    await page.goto(PAGES["accounts"])
    await page.get_by_role("link", name="New account").click()
    await page.get_by_label("Name", exact=True).fill(name)
    await page.get_by_label("Role", exact=True).select_option("viewer")
    await page.get_by_role("button", name="Create the account").click()
    await expect(page.get_by_text(f"Account {name} was created.")).to_be_visible()
    link = await secret_of(page)

    context = await browser.new_context(base_url=installation.console)
    other = await context.new_page()
    await other.goto(link)
    await expect(other.get_by_text(name)).to_be_visible()
    await other.get_by_role("button", name="Sign in").click()
    await other.wait_for_url("**/clusters/local/")
    menu = other.get_by_role("navigation", name="Console")
    await expect(menu.get_by_role("link", name="Clusters")).to_be_visible()
    await expect(menu.get_by_role("link", name="Accounts")).to_have_count(0)
    answer = await other.goto(PAGES["accounts"])
    assert answer is not None
    assert answer.status == 403
    await expect(other.get_by_text("is a viewer and may not manage accounts")).to_be_visible()

    await page.goto(f"/audit/?actor={name}")
    await expect(page.get_by_role("row").filter(has_text="Refused")).to_be_visible()
    await page.goto(f"/accounts/users/{name}/")
    await page.locator("#role").select_option("operator")
    await page.get_by_role("button", name="Change the role").click()
    await expect(page.get_by_text(f"{name} is an operator now")).to_be_visible()
    await other.reload()
    await expect(other.get_by_role("heading", name="Accounts")).to_be_visible()

    await page.get_by_role("link", name="Disable…").click()
    await page.get_by_label(f"Type the name {name} to confirm").fill(name)
    await page.get_by_role("button", name="Disable the account").click()
    await expect(page.get_by_text(f"{name} is disabled")).to_be_visible()
    await other.reload()
    await expect(other).to_have_url(re.compile("/accounts/sign-in"))
    await context.close()


async def test_token_is_made_copied_used_and_revoked(
    context: BrowserContext, browser: Browser, installation: Installation, page: Page
) -> None:
    await context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.clock.install()
    name = new_name("report")
    await page.goto(PAGES["profile"])
    await page.get_by_role("link", name="New token").click()
    await page.get_by_label("What for").fill(name)
    await page.get_by_role("button", name="Make the token").click()
    await expect(page.get_by_text("The token is made.")).to_be_visible()
    secret = await secret_of(page)
    await stop_time(page)  # "Copied" is shown for two seconds
    await page.get_by_role("button", name="Copy").first.click()
    await expect(page.get_by_role("button", name="Copied", exact=True)).to_be_visible()
    assert await page.evaluate("navigator.clipboard.readText()") == secret
    await page.clock.run_for(COPIED_MS)
    await expect(page.get_by_role("button", name="Copied", exact=True)).to_have_count(0)
    await page.clock.resume()

    script = await browser.new_context(base_url=installation.console)
    headers = {"Authorization": f"Bearer {secret}"}
    answer = await script.request.get("/api/admin/v1/me", headers=headers)
    assert (await answer.json())["rights"] == ["view"]
    refused = await script.request.get("/api/admin/v1/audit", headers=headers)
    assert refused.status == 403

    await page.goto(PAGES["profile"])
    row = page.get_by_role("row").filter(has_text=name)
    await expect(row.get_by_text("from 127.0.0.1")).to_be_visible()
    await row.get_by_role("button", name="Revoke").click()
    await expect(row.get_by_text("Revoked")).to_be_visible()
    assert (await script.request.get("/api/admin/v1/me", headers=headers)).status == 401
    await script.close()


async def test_button_to_copy_cannot_be_used_before_its_script(
    context: BrowserContext, page: Page
) -> None:
    await context.grant_permissions(["clipboard-read", "clipboard-write"])
    is_wanted = asyncio.Event()

    async def come_late(route: Route) -> None:
        await is_wanted.wait()
        await route.continue_()

    await page.route("**/copy.js*", come_late)
    await page.clock.install()
    await page.goto(PAGES["clusters"], wait_until="commit")
    await page.get_by_text("API call", exact=True).click()
    copy = page.get_by_role("button", name="Copy")
    await expect(copy).to_be_visible()
    await expect(copy).to_be_disabled()
    is_wanted.set()
    await expect(copy).to_be_enabled()
    await stop_time(page)
    await copy.click()
    await expect(page.get_by_role("button", name="Copied", exact=True)).to_be_visible()
    call = await page.locator(".api-call-body pre code").inner_text()
    assert await page.evaluate("navigator.clipboard.readText()") == call


async def test_copy_that_failed_is_told_until_one_succeeds(
    context: BrowserContext, page: Page
) -> None:
    """Browsers give a page that came by plain HTTP from another machine no clipboard."""
    await context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.add_init_script(
        "window.clipboard = navigator.clipboard;"
        "Object.defineProperty(navigator, 'clipboard', {get: () => window.given});"
    )
    await page.clock.install()
    await page.goto(PAGES["clusters"])
    await page.get_by_text("API call", exact=True).click()
    await stop_time(page)
    await page.get_by_role("button", name="Copy").click()
    failed = page.get_by_role("button", name="Not copied: press Ctrl C")
    await expect(failed).to_be_visible()
    call = await page.locator(".api-call-body pre code").inner_text()
    assert await page.evaluate("getSelection().toString()") == call
    await page.clock.run_for(10 * COPIED_MS)
    await expect(failed).to_be_visible()
    await page.evaluate("window.given = window.clipboard")
    await failed.click()
    await expect(page.get_by_role("button", name="Copied", exact=True)).to_be_visible()
    await page.clock.run_for(COPIED_MS)
    await expect(page.get_by_role("button", name="Copy", exact=True)).to_be_visible()


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Another cluster of ours, with a group that has read a little."""
    with BrokerProcess(tmp_path_factory.mktemp("second")) as broker:
        world = World(broker.bootstrap)
        world.commit("stock-takers", world.topic(1, 5), 3)
        yield broker


async def test_cluster_is_added_switched_to_and_removed(
    watched: Watched, second: BrokerProcess
) -> None:
    page, name = watched.page, f"second-{time.time_ns() // 1_000_000}"
    await page.goto("/clusters/local/connection")
    watched_already = await page.locator(".page-text code").inner_text()
    await page.goto(PAGES["clusters"])
    await page.get_by_role("link", name="Add a cluster").click()
    await page.get_by_label("Name", exact=True).fill(name)
    await page.get_by_label("Bootstrap address").fill("169.254.169.254:9092")
    await page.get_by_role("button", name="Test and add").click()
    await expect(page.get_by_text("cloud's metadata service")).to_be_visible()
    same = watched_already.replace("127.0.0.1", "localhost")
    await page.get_by_label("Bootstrap address").fill(same)
    await page.get_by_role("button", name="Test and add").click()
    await expect(page.get_by_text("is watched already")).to_be_visible()
    await page.get_by_label("Bootstrap address").fill(second.bootstrap)
    await page.get_by_role("button", name="Test and add").click()
    await expect(page.get_by_text(f"{name} is watched from now on")).to_be_visible()
    await page.get_by_role("button", name="Test the connection").click()
    await expect(page.get_by_text("It answers: HermesMQ")).to_be_visible(timeout=SOON_MS)
    row = page.get_by_role("row").filter(has_text="Access control lists")
    await expect(row.get_by_text("Cannot")).to_be_visible()

    await page.goto("/clusters/local/groups/")
    await page.locator(".switcher summary").click()
    await page.get_by_role("navigation", name="Clusters").get_by_role("link", name=name).click()
    await expect(page).to_have_url(re.compile(f"/clusters/{name}/groups/"))
    await expect(page.locator('[data-live-state="live"]')).to_be_visible(timeout=SOON_MS)
    await expect(page.get_by_role("link", name="stock-takers")).to_be_visible(timeout=SOON_MS)

    await page.goto(f"/clusters/{name}/connection")
    await page.get_by_role("link", name="Remove…").click()
    await page.get_by_label(f"Type the name {name} to confirm").fill(name)
    await page.get_by_role("button", name="Remove the cluster").click()
    await expect(page.get_by_text("is no longer watched")).to_be_visible()
    await expect(page.locator("#main").get_by_role("link", name=name)).to_have_count(0)
    forgive(watched, 422)
    forgive(watched, 409)


async def test_each_page_shows_its_api_call(page: Page) -> None:
    for name in ("accounts", "audit", "clusters", "profile"):
        await page.goto(PAGES[name])
        await page.locator(".api-call summary").click()
        code = page.locator(".api-call code").first
        await expect(code).to_contain_text("Authorization: Bearer $HERMES_TOKEN")
        await expect(code).to_contain_text("/api/admin/v1/")


async def test_switcher_opens_and_closes_by_keyboard(page: Page) -> None:
    await page.goto(PAGES["clusters"])
    await page.locator(".switcher summary").focus()
    await page.keyboard.press("Enter")
    await page.keyboard.press("Tab")
    focused = await page.evaluate("document.activeElement.textContent.trim()")
    assert focused == "local"
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile("/clusters/local/$"))


@pytest.mark.parametrize("name", PAGES)
async def test_page_is_accessible_and_keeps_the_policy(
    watched: Watched, theme: str, name: str, screenshots: Path
) -> None:
    page = watched.page
    await page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    await page.goto(PAGES[name])
    found = await Axe().run(page)
    violations = [
        (one["id"], [node["html"] for node in one["nodes"]]) for one in found.response["violations"]
    ]
    await page.screenshot(path=screenshots / f"{name}-{theme}.png", full_page=True)
    if theme == "light":
        await page.set_viewport_size({"width": 390, "height": 860})
        await page.screenshot(path=screenshots / f"{name}-390.png", full_page=True)
    assert violations == []
    forgive(watched, 404)


@pytest.mark.parametrize("name", PAGES)
async def test_targets_are_large_enough_and_nothing_overflows(watched: Watched, name: str) -> None:
    page = watched.page
    await page.goto(PAGES[name])
    small = await page.evaluate(
        """(least) => [...document.querySelectorAll("a, button, input, select, summary")]
            .filter((element) => element.checkVisibility() && element.type !== "hidden")
            .filter((element) => !element.closest("p, .skip-link, label, th, li"))
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
    forgive(watched, 404)
