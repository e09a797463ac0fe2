"""The frame of every page: the menu of a narrow screen, forms that are sent once, parts of a page
that its address opens.
"""

from __future__ import annotations

import re
from pathlib import Path

from playwright.async_api import Page, Route, expect

GROUPS = "/clusters/local/groups/"
CONNECTION = "/clusters/local/connection"
NARROW = {"width": 390, "height": 860}
HEADER_PX_MAX = 120
"""Of 860: the page itself begins above the fold."""


async def test_menu_of_a_narrow_screen_is_closed_and_opens_by_keyboard(
    page: Page, screenshots: Path
) -> None:
    await page.set_viewport_size(NARROW)  # type: ignore[arg-type]
    await page.goto(GROUPS)
    menu = page.get_by_role("navigation", name="Pages")
    button = page.get_by_role("button", name="Menu")
    await expect(button).to_have_attribute("aria-expanded", "false")
    await expect(menu).to_be_hidden()
    header = await page.locator("header.rail").bounding_box()
    assert header is not None
    assert header["height"] <= HEADER_PX_MAX
    await page.screenshot(path=screenshots / "narrow-closed.png")
    await button.focus()
    await page.keyboard.press("Enter")
    await expect(button).to_have_attribute("aria-expanded", "true")
    await expect(menu).to_be_visible()
    await page.screenshot(path=screenshots / "narrow-open.png")
    await page.keyboard.press("Tab")
    assert await page.evaluate("document.activeElement.textContent.trim()") == "Overview"
    await page.keyboard.press("Escape")
    await expect(menu).to_be_hidden()
    await expect(button).to_be_focused()


async def test_menu_of_a_wide_screen_is_always_there(page: Page) -> None:
    await page.goto(GROUPS)
    await expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
    await expect(page.get_by_role("button", name="Menu")).to_be_hidden()


async def test_form_is_sent_once_and_again_when_no_answer_came(page: Page) -> None:
    sent: list[str] = []

    async def lose(route: Route) -> None:
        """An answer that leaves the page as it is, as a connection that breaks may."""
        if route.request.method != "POST":
            await route.continue_()
            return
        sent.append(route.request.url)
        await route.fulfill(status=204)

    await page.clock.install()
    await page.route(f"**{CONNECTION}", lose)
    await page.goto(CONNECTION)
    button = page.get_by_role("button", name="Test the connection")
    await expect(page.locator("[data-menu-button]")).to_have_attribute("aria-expanded", "false")
    await page.wait_for_function("document.readyState === 'complete'")
    await button.click()
    await expect(page.locator("form[data-sent]")).to_have_count(1)
    await button.click()
    await page.clock.fast_forward(11_000)
    await expect(page.locator("form[data-sent]")).to_have_count(0)
    await button.click()
    await expect(page.locator("form[data-sent]")).to_have_count(1)
    assert len(sent) == 2


async def test_choices_that_were_not_made_are_not_sent(page: Page) -> None:
    await page.goto("/clusters/local/groups/create")
    await page.locator('input[name="topic"]').first.check()
    await page.get_by_label("Offset to go to").fill("70")
    await expect(page.get_by_role("radio", name="An offset")).to_be_checked()
    await page.get_by_role("radio", name="Earliest").check()
    await page.locator("#group-name").fill("narrow-choice")
    await page.get_by_role("button", name="Preview").click()
    await expect(page).to_have_url(re.compile("to=earliest"))
    assert "offset=" not in page.url
    await expect(page.get_by_text("filled in")).to_have_count(0)


async def test_address_of_a_call_opens_its_part_of_the_reference(page: Page) -> None:
    await page.goto("/api/admin/v1/docs")
    opened = page.locator("details.operation[open]")
    await expect(opened).to_have_count(0)
    await page.get_by_role("link", name="List topics").first.click()
    await expect(opened).to_have_count(1)
    await expect(opened.get_by_role("heading", name="List topics")).to_be_in_viewport()
    await page.reload()
    await expect(opened).to_have_count(1)
