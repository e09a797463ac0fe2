"""Groups in a browser: stop one, reset it with a preview, undo; create and delete; the palette, the
keys and the time zone; both themes, phones, accessibility.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, BrowserContext, Page, expect

from tests.browser.conftest import Installation, Watched
from tests.console.kafka_world import World, new_name

pytestmark = [pytest.mark.apt("chromium"), pytest.mark.timeout(300)]
GROUPS = "/clusters/local/groups/"
TARGET_PX = 24
SOON_MS = 90_000


@pytest.fixture(scope="module")
def world(installation: Installation) -> World:
    return World(installation.kafka)


@pytest.fixture
def topic(world: World) -> str:
    return world.topic()


@pytest.fixture
def group(world: World, topic: str) -> str:
    name = new_name("settlement")
    world.commit(name, topic, 80, 90)
    return name


@pytest.fixture
async def away(
    browser: Browser, installation: Installation, cookies: list[dict[str, object]]
) -> AsyncIterator[BrowserContext]:
    """A browser in another time zone."""
    context = await browser.new_context(
        base_url=installation.console, timezone_id="Asia/Tokyo", locale="en-GB"
    )
    await context.add_cookies(cookies)  # type: ignore[arg-type]
    yield context
    await context.close()


def forgive(watched: Watched, status: int) -> None:
    """Chromium calls a page that is answered with a refusal an error: that one was wanted."""
    wanted = f"the server responded with a status of {status}"
    watched.problems[:] = [one for one in watched.problems if wanted not in one]


async def open_group(page: Page, group: str) -> None:
    """Its page, as soon as a sample has shown it."""
    await page.goto(f"{GROUPS}?q={group}")
    await page.get_by_role("link", name=group).click(timeout=SOON_MS)
    await expect(page.get_by_role("heading", name=group)).to_be_visible()
    await page.wait_for_load_state()  # keys are a script


async def test_group_is_stopped_reset_with_a_preview_and_undone(
    page: Page, world: World, topic: str, group: str
) -> None:
    member = world.member(group, topic, client_id="settler-9")
    await asyncio.to_thread(member.__enter__)
    try:
        await open_group(page, group)
        await page.get_by_role("link", name="Reset offsets").click()
        await expect(page.get_by_text("The group is active")).to_be_visible()
        await expect(page.locator("#group-state")).to_contain_text("settler-9")
        await page.get_by_role("radio", name=re.compile("^A shift")).check()
        await page.get_by_label("How many records to shift by").fill("-30")
        await page.get_by_role("button", name="Preview").click()
        await expect(page.locator("#preview")).to_contain_text("60 read again")
        await expect(page.get_by_role("button", name=re.compile("^Reset"))).to_have_count(0)
    finally:
        await asyncio.to_thread(member.__exit__, None, None, None)
    await expect(page.get_by_text("No member is connected: the offsets")).to_be_visible(
        timeout=SOON_MS
    )
    await page.get_by_role("button", name="Preview").click()
    await expect(page.get_by_role("row", name=f"{topic} 0 80 50 −30 0 30")).to_be_visible()
    await page.get_by_role("button", name="Reset 2 offsets").click()
    await expect(page.get_by_text(f"2 offsets of {group} reset.")).to_be_visible()
    assert world.committed(group, topic) == {0: 50, 1: 60}
    await page.get_by_role("link", name="Undo…").click()
    await expect(page.get_by_role("row", name=f"{topic} 0 50 80 +30")).to_be_visible()
    await page.get_by_role("button", name="Put these offsets back").click()
    await expect(page.get_by_text("Undone: the offsets")).to_be_visible()
    assert world.committed(group, topic) == {0: 80, 1: 90}


async def test_group_is_created_at_the_newest_and_deleted_by_its_typed_name(
    watched: Watched, world: World, topic: str
) -> None:
    page, name = watched.page, new_name("new")
    await page.goto(GROUPS)
    await page.get_by_role("link", name="Create a group").click()
    await page.get_by_label("Name", exact=True).fill(name)
    await page.get_by_label(re.compile("^Other topics|more topics")).fill(topic)
    await page.get_by_role("radio", name=re.compile("^Latest")).check()
    await page.get_by_role("button", name="Preview").click()
    await expect(page.get_by_role("row", name=f"{topic} 0 none 100")).to_be_visible()
    await page.get_by_role("button", name="Create the group").click()
    await expect(page.get_by_text(f"Group {name} created.")).to_be_visible()
    assert world.committed(name, topic) == {0: 100, 1: 100}
    await open_group(page, name)
    await page.get_by_role("link", name="Delete group", exact=True).click()
    typed = page.get_by_label(f"Type the name {name} to delete")
    await typed.fill("settlement")
    await page.get_by_role("button", name="Delete the group").click()
    await expect(page.get_by_role("alert")).to_contain_text("Type the name exactly")
    await typed.fill(name)
    await page.get_by_role("button", name="Delete the group").click()
    await expect(page.get_by_text(f"Group {name} deleted.")).to_be_visible()
    assert world.committed(name, topic) == {}
    forgive(watched, 422)


async def test_palette_goes_to_a_group_and_to_a_topic(page: Page, group: str, topic: str) -> None:
    await page.goto(f"{GROUPS}?q={group}")
    await expect(page.get_by_role("link", name=group)).to_be_visible(timeout=SOON_MS)
    await page.keyboard.press("Control+k")
    box = page.get_by_role("combobox", name="Go to a page, cluster, topic or group")
    await expect(box).to_be_focused()
    await page.keyboard.type(group)
    option = page.get_by_role("option", name=re.compile(group))
    await expect(option).to_have_attribute("aria-selected", "true")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name=group)).to_be_visible()
    await page.wait_for_load_state()  # the palette is a script
    await page.get_by_role("button", name="Go to…").click()
    await page.keyboard.type("groups")
    await page.keyboard.press("Enter")  # before the answer is there
    await expect(page).to_have_url(re.compile("/groups/$"))
    await page.wait_for_load_state()
    option = page.locator("dialog.palette [role=option]").filter(has_text=topic)
    for _ in range(20):  # the list of topics may be some seconds old
        await page.keyboard.press("Control+k")
        await page.keyboard.type(topic)
        try:
            await expect(option).to_be_visible(timeout=5_000)
            break
        except AssertionError:
            await page.keyboard.press("Escape")
            await expect(page.locator("dialog.palette")).to_be_hidden()
    await expect(option).to_be_visible()
    found = await Axe().run(page)
    assert [one["id"] for one in found.response["violations"]] == []
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name=topic)).to_be_visible()


async def test_keys_are_told_by_a_question_mark_and_can_be_switched_off(page: Page) -> None:
    await page.goto(GROUPS)
    await page.keyboard.press("?")
    help_ = page.get_by_role("dialog", name="Keyboard")
    await expect(help_).to_be_visible()
    await page.get_by_label("Switch these keys off").check()
    await page.keyboard.press("Escape")
    await expect(help_).to_be_hidden()
    await page.reload()
    for key in ("?", "Control+k"):
        await page.keyboard.press(key)
        await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.keyboard.press("/")
    await expect(page.locator("[data-search]")).not_to_be_focused()
    await page.get_by_role("button", name="Keyboard").click()
    await page.get_by_label("Switch these keys off").uncheck()
    await page.get_by_role("button", name="Close").click()
    await page.keyboard.press("/")
    await expect(page.locator("[data-search]")).to_be_focused()


async def test_time_zone_is_stated_chosen_and_kept(away: BrowserContext, group: str) -> None:
    page = await away.new_page()
    await open_group(page, group)
    await expect(page.locator("[data-live-controls] [data-zone-name]")).to_have_text("UTC")
    await page.get_by_role("link", name="Times are in UTC").click()
    await page.get_by_label("Time zone").select_option(label="Of this browser (Asia/Tokyo)")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("heading", name=group)).to_be_visible()
    await expect(page.locator("[data-live-controls] [data-zone-name]")).to_have_text("Asia/Tokyo")
    await page.get_by_text("Show as a table").click()
    cell = page.locator("#live-twin time").first
    await expect(page.locator('[data-live-state="live"]')).to_be_visible(timeout=SOON_MS)
    instant = await cell.get_attribute("datetime")
    assert instant is not None
    hour = (int(instant[11:13]) + 9) % 24
    await expect(cell).to_have_text(re.compile(f"^{hour:02d}:"))
    await page.keyboard.press("Control+k")
    await page.keyboard.type("times in utc")
    await page.get_by_role("option", name="Times in UTC").click()
    await expect(page.locator("[data-live-controls] [data-zone-name]")).to_have_text("UTC")


async def test_relative_times_tell_the_exact_one_on_pointing(
    page: Page, world: World, topic: str, group: str
) -> None:
    await page.goto(f"{GROUPS}{group}/reset?to=earliest&topic={topic}")
    await page.get_by_role("button", name="Reset 2 offsets").click()
    await expect(page.get_by_text(f"2 offsets of {group} reset.")).to_be_visible()
    await open_group(page, group)
    await page.keyboard.press("Control+k")
    await page.keyboard.type("how long ago")
    await page.get_by_role("option", name="Times as how long ago").click()
    moment = page.locator("#main .facts time").first
    await expect(moment).to_have_text(re.compile(r"^\d+ (s|min \d+ s) ago$"))
    await expect(moment).to_have_attribute("title", re.compile(r"^\d{4}-\d\d-\d\d .* UTC$"))


async def test_reduced_motion_stops_what_moves(page: Page) -> None:
    await page.emulate_media(reduced_motion="reduce")
    await page.goto(GROUPS)
    await expect(page.locator('[data-live-state="live"]')).to_be_visible(timeout=SOON_MS)
    name = await page.evaluate(
        "getComputedStyle(document.querySelector('.live-dot')).animationName"
    )
    assert name == "none"


PAGES = {
    "group-reset": "{group}/reset?to=shift&shift=-30&topic={topic}",
    "group-delete": "{group}/delete",
    "group-create": "create?name=new-settlement&to=earliest&topic={topic}",
    "group-operator": "{group}/",
    "times": "/times",
}


@pytest.mark.parametrize("name", PAGES)
async def test_page_is_accessible_in_both_themes_and_on_a_phone(
    watched: Watched, name: str, group: str, topic: str, screenshots: Path
) -> None:
    page = watched.page
    await open_group(page, group)
    path = PAGES[name].format(group=group, topic=topic)
    for theme in ("light", "dark"):
        await page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        await page.goto(path if path.startswith("/") else GROUPS + path)
        found = await Axe().run(page)
        await page.screenshot(path=screenshots / f"{name}-{theme}.png", full_page=True)
        assert [
            (one["id"], [node["html"] for node in one["nodes"]])
            for one in found.response["violations"]
        ] == []
    await page.set_viewport_size({"width": 390, "height": 860})
    await page.screenshot(path=screenshots / f"{name}-phone.png", full_page=True)
    assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    small = await page.evaluate(
        """(least) => [...document.querySelectorAll("a, button, input, select, summary")]
            .filter((element) => element.checkVisibility() && element.type !== "hidden")
            .filter((element) => !element.closest("p, li, .skip-link, .choice, .notice"))
            .map((element) => [element.outerHTML.slice(0, 80), element.getBoundingClientRect()])
            .filter(([, box]) => box.width < least || box.height < least)
            .map(([html, box]) => `${html} ${box.width}x${box.height}`)""",
        TARGET_PX,
    )
    assert small == []


async def test_palette_and_keys_look_right_in_both_themes(page: Page, screenshots: Path) -> None:
    for theme in ("light", "dark"):
        await page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        await page.goto(GROUPS)
        await page.keyboard.press("Control+k")
        await page.keyboard.type("r")
        await expect(page.locator("dialog.palette [role=option]").first).to_be_visible()
        await page.screenshot(path=screenshots / f"palette-{theme}.png")
        await page.keyboard.press("Escape")
        await expect(page.locator("dialog.palette")).to_be_hidden()
        await page.keyboard.press("?")
        await expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
        found = await Axe().run(page)
        await page.screenshot(path=screenshots / f"keys-{theme}.png")
        assert [one["id"] for one in found.response["violations"]] == []
