"""Topics and brokers in a browser: create, edit a setting, grow, delete records, delete with a
typed name; htmx under the strict policy; both themes, phones, accessibility.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import BrowserContext, Page, expect

from tests.browser.conftest import Watched

pytestmark = [pytest.mark.apt("chromium"), pytest.mark.timeout(240)]
TOPICS = "/clusters/local/topics/"
BROKERS = "/clusters/local/brokers/"
DEMO_TOPIC = re.compile(r"^order")
TARGET_PX = 24
SOON_MS = 90_000
"""For what a sample of the cluster shows."""


def new_name(prefix: str) -> str:
    return f"{prefix}-{time.time_ns() // 1_000_000}"


def forgive(watched: Watched, status: int) -> None:
    """Chromium calls a page that is answered with a refusal an error: that one was wanted."""
    wanted = f"the server responded with a status of {status}"
    watched.problems[:] = [one for one in watched.problems if wanted not in one]


async def create(page: Page, name: str, partitions: int = 2) -> None:
    await page.goto(f"{TOPICS}new")
    await page.get_by_label("Name", exact=True).fill(name)
    await page.get_by_label("Partitions", exact=True).fill(str(partitions))
    await page.get_by_role("button", name="Create the topic").click()
    await expect(page.get_by_role("heading", name=name)).to_be_visible()


async def test_topic_is_created_edited_grown_and_deleted(watched: Watched) -> None:
    page = watched.page
    name = new_name("browser")
    await page.goto(TOPICS)
    await page.get_by_role("link", name="Create a topic").click()
    await page.get_by_label("Name", exact=True).fill(name)
    await page.get_by_label("Partitions", exact=True).fill("2")
    await page.get_by_text("all optional").click()
    await page.get_by_label("retention.ms", exact=True).fill("3600000")
    await page.get_by_role("button", name="Create the topic").click()
    await expect(page.get_by_text(f"Topic {name} was created.")).to_be_visible()
    await expect(page.get_by_text("Keeps 1 h")).to_be_visible()

    await page.get_by_role("link", name="Edit settings").first.click()
    await page.get_by_label("retention.ms", exact=True).fill("7200000")
    await page.get_by_role("button", name="Review changes").click()
    await expect(page.get_by_role("cell", name="7200000 2 h")).to_be_visible()
    await page.get_by_role("button", name="Save 1 change").click()
    await expect(page.get_by_text("were changed: retention.ms")).to_be_visible()
    await expect(page.get_by_text("Keeps 2 h")).to_be_visible()

    await page.get_by_role("link", name="Add partitions").click()
    await expect(page.get_by_text("Keys move.")).to_be_visible()
    await page.get_by_label("Partitions after growing").fill("5")
    await page.get_by_role("button", name="Add partitions").click()
    await expect(page.get_by_text("grew from 2 to 5 partitions")).to_be_visible()
    await expect(page.locator("#live-partitions tbody tr")).to_have_count(5)

    await page.get_by_role("link", name="Delete topic").click()
    typed = page.get_by_label(f"Type the name {name} to confirm")
    await typed.fill("something else")
    await page.get_by_role("button", name="Delete the topic").click()
    await expect(page.get_by_text("Nothing was changed.")).to_be_visible()
    await typed.fill(name)
    await page.get_by_role("button", name="Delete the topic").click()
    await expect(page.get_by_text(f"Topic {name} was deleted")).to_be_visible()
    await expect(page.get_by_role("link", name=name)).to_have_count(0)
    forgive(watched, 422)


async def test_name_that_collides_comes_back_in_the_form_with_the_reason(
    watched: Watched,
) -> None:
    page = watched.page
    name = new_name("a.b")
    await create(page, name)
    await page.goto(f"{TOPICS}new")
    await page.get_by_label("Name", exact=True).fill(name.replace(".", "_"))
    await page.get_by_role("button", name="Create the topic").click()
    await expect(page.locator(".field-error")).to_contain_text("collide")
    await expect(page.get_by_label("Name", exact=True)).to_have_value(name.replace(".", "_"))
    forgive(watched, 422)


async def test_records_are_deleted_after_a_preview(page: Page) -> None:
    """Of the demo's own topic: the oldest ones of one partition."""
    await page.goto(TOPICS)
    await page.locator("#live-topics tbody th a").filter(has_text=DEMO_TOPIC).first.click()
    heading = await page.locator("h1").inner_text()
    await page.get_by_role("link", name="Delete records").click()
    await expect(page.get_by_role("heading", name="Delete records")).to_be_visible()
    await page.wait_for_load_state()  # typing chooses the place: that is a script
    await page.get_by_label("Partition", exact=True).fill("0")
    await page.get_by_label("First offset that stays").fill("1")
    await page.get_by_role("button", name="Preview").click()
    await expect(page.get_by_role("heading", name="1 record would be deleted")).to_be_visible()
    await page.get_by_label(f"Type the name {heading} to confirm").fill(heading)
    await page.get_by_role("button", name="Delete these records").click()
    await expect(page.get_by_text("Deleted 1 record from 1 partition")).to_be_visible()


async def test_htmx_filters_and_fills_tables_under_the_strict_policy(
    watched: Watched, context: BrowserContext
) -> None:
    """`watched` fails for everything that the policy refuses: htmx makes no style and no script."""
    page = watched.page
    answer = await page.goto(TOPICS)
    assert answer is not None
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    config = await page.evaluate("htmx.config")
    assert config["allowEval"] is False
    assert config["includeIndicatorStyles"] is False
    assert config["selfRequestsOnly"] is True
    assert config["allowScriptTags"] is False
    assert await page.evaluate("document.querySelectorAll('style').length") == 0
    assert (await page.evaluate("htmx.version")).startswith("2.")
    await page.evaluate("window.isSamePage = true")
    await page.keyboard.press("/")
    await page.keyboard.type("nothing-is-called-so")
    await expect(page.get_by_text("No topic fits")).to_be_visible()
    await expect(page).to_have_url(re.compile("q=nothing-is-called-so"))
    assert await page.evaluate("window.isSamePage"), "the page was loaded again"
    refused = await page.evaluate(
        """() => new Promise((resolve) => {
          document.addEventListener("htmx:invalidPath", () => resolve(true), { once: true });
          htmx.ajax("GET", "https://example.org/", "#live-topics")
            .then(() => resolve(false), () => {});
        })"""
    )
    assert refused, "htmx asked another host"
    watched.problems[:] = [one for one in watched.problems if "htmx:invalidPath" not in one]


async def test_topic_page_is_live_and_its_chart_has_a_table(page: Page) -> None:
    await page.goto(TOPICS)
    await page.locator("#live-topics tbody th a").filter(has_text=DEMO_TOPIC).first.click()
    await expect(page.locator('[data-live-state="live"]')).to_be_visible(timeout=SOON_MS)
    await expect(page.locator("#rates canvas")).to_be_visible(timeout=SOON_MS)
    await page.get_by_text("Show as a table").click()
    await expect(page.locator("#rates-twin tbody tr")).to_have_count(30)
    count = page.locator("#live-tiles .tile").first.locator("dd").first
    before = await count.inner_text()
    await expect(count).not_to_have_text(before, timeout=SOON_MS)
    await expect(page.locator("#rates-twin tbody tr")).to_have_count(30)


async def test_live_setting_of_the_broker_is_changed_and_taken_back(page: Page) -> None:
    await page.goto(BROKERS)
    await page.locator("tbody th a").first.click()
    await page.get_by_role("link", name="Edit live settings").first.click()
    await page.get_by_label("log.retention.ms", exact=True).fill("172800000")
    await page.get_by_role("button", name="Review changes").click()
    await expect(page.get_by_role("cell", name="172800000 2 d")).to_be_visible()
    await page.get_by_role("button", name="Save 1 change").click()
    await expect(page.get_by_text("were changed: log.retention.ms")).to_be_visible()
    row = page.locator('tr[data-key="log.retention.ms"]')
    await expect(row).to_contain_text("all brokers, set live")
    await expect(row).to_contain_text("at once")
    await page.get_by_role("link", name="Edit live settings").first.click()
    await page.get_by_label("log.retention.ms", exact=True).fill("604800000")
    await page.get_by_role("button", name="Review changes").click()
    await page.get_by_role("button", name="Save 1 change").click()
    await expect(page.get_by_text("were changed: log.retention.ms")).to_be_visible()


async def pages(page: Page) -> dict[str, str]:
    """Every page of topics and brokers by its name."""
    await page.goto(TOPICS)
    link = page.locator("#live-topics tbody th a").filter(has_text=DEMO_TOPIC).first
    topic = str(await link.get_attribute("href"))
    await page.goto(BROKERS)
    broker = str(await page.locator("tbody th a").first.get_attribute("href"))
    return {
        "topics": TOPICS,
        "topic": topic,
        "topic-new": f"{TOPICS}new",
        "topic-settings": f"{topic}settings",
        "topic-grow": f"{topic}grow",
        "topic-delete": f"{topic}delete",
        "topic-records": f"{topic}delete-records",
        "topic-missing": f"{TOPICS}nope/",
        "brokers": BROKERS,
        "broker": broker,
        "broker-settings": f"{broker}settings",
    }


async def test_every_page_is_accessible_and_keeps_the_policy(
    watched: Watched, theme: str, screenshots: Path
) -> None:
    page = watched.page
    await page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    found: dict[str, list[object]] = {}
    for name, address in (await pages(page)).items():
        await page.goto(address)
        if await page.locator("[data-live]").count():
            live = page.locator('[data-live-state="live"]')
            await expect(live).to_be_visible(timeout=SOON_MS)
        if name == "topic":
            await expect(page.locator("#rates canvas")).to_be_visible(timeout=SOON_MS)
            await page.get_by_text("Show as a table").click()
            await expect(page.locator("#rates-twin tbody tr")).to_have_count(30)
        if name == "topic-new":
            await page.get_by_text("all optional").click()
        result = await Axe().run(page)
        await page.screenshot(path=screenshots / f"{name}-{theme}.png", full_page=True)
        violations = [
            (one["id"], [node["html"][:160] for node in one["nodes"][:3]])
            for one in result.response["violations"]
        ]
        if violations:
            found[name] = violations
    assert found == {}
    forgive(watched, 404)


async def test_pages_fit_a_phone_and_targets_are_large_enough(
    watched: Watched, screenshots: Path
) -> None:
    page = watched.page
    problems: list[str] = []
    for name, address in (await pages(page)).items():
        await page.set_viewport_size({"width": 390, "height": 860})
        await page.goto(address)
        wider = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
        if wider > 0:
            problems.append(f"{name} scrolls sideways by {wider} pixels")
        small = await page.evaluate(
            """(least) => [...document.querySelectorAll("a, button, input, select, summary")]
                .filter((element) => element.checkVisibility() && element.type !== "hidden")
                .filter((element) => !element.closest("p, li, .skip-link, .notice, label"))
                .map((element) => [element.outerHTML.slice(0, 80), element.getBoundingClientRect()])
                .filter(([, box]) => box.width < least || box.height < least)
                .map(([html, box]) => `${html} ${box.width}x${box.height}`)""",
            TARGET_PX,
        )
        problems += [f"{name}: {one}" for one in small]
        await page.screenshot(path=screenshots / f"{name}-phone.png", full_page=True)
    assert problems == []
    forgive(watched, 404)
