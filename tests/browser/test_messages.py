"""Messages in a browser: produce one and find it by key; a search with progress, cancelled and
resumed; a raw download; payloads that would like to run; both themes, phones, accessibility.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from pathlib import Path

import pytest
from axe_playwright_python.async_playwright import Axe
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from playwright.async_api import Page, Route, expect

from tests.browser.conftest import Installation, Watched

pytestmark = [pytest.mark.apt("chromium"), pytest.mark.timeout(240)]
MESSAGES = "/clusters/local/messages/"
TARGET_PX = 24
HOSTILE = b"<img src=x onerror=alert(1)><script>alert(2)</script>"
JSON = (
    b'{"id": 9007199254740993, "customer": {"name": "Ada", "city": "Berlin"}, '
    b'"lines": [{"sku": "A-1", "price": 10.50}, {"sku": "B-2", "price": 3.10}]}'
)


@pytest.fixture(scope="session")
def bootstrap(installation: Installation) -> str:
    return installation.kafka


def new_topic(bootstrap: str, partitions: int = 3, **config: str) -> str:
    name = f"shop.messages-{time.time_ns() // 1_000_000}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(20)
    return name


def fill(bootstrap: str, topic: str) -> None:
    """One message of every kind."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for key, value, headers in (
        (b"order-17", JSON, [("event-type", b"OrderCreated"), ("trace", b"\x00\xff\x10")]),
        (b"order-18", HOSTILE, [("event-type", b"a"), ("event-type", b"b"), ("none", None)]),
        (b"order-19", None, []),
        (None, b"", []),
        (b"\xff\xfe\x00", bytes(range(256)) * 300, []),
        (b"order-20", "grüße, שלום and a \u202e turn".encode(), []),
    ):
        producer.produce(topic, value, key=key, headers=headers, partition=0)  # type: ignore[arg-type]
    assert producer.flush(20) == 0


def fill_much(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.size": 500_000})
    pad = "x" * 900
    for number in range(count):
        value = json.dumps({"number": number, "pad": pad}).encode()
        while True:
            try:
                producer.produce(topic, value, key=b"k%d" % number, partition=number % 3)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0


async def test_a_message_is_produced_and_found_by_its_key(page: Page, bootstrap: str) -> None:
    topic = new_topic(bootstrap)
    await page.goto("/")
    await page.get_by_role("link", name="Messages", exact=True).click()
    await page.get_by_label("Name contains").fill("shop")
    link = page.get_by_role("link", name=topic, exact=True)
    for _ in range(20):  # a list of topics may be some seconds old
        if await link.count():
            break
        await page.wait_for_timeout(500)
        await page.reload()
    await link.click()
    await expect(page.get_by_text("No message here.")).to_be_visible()
    await page.get_by_role("link", name="Produce one").click()
    await page.get_by_label("Key", exact=True).fill("order-17")
    await page.get_by_label("Value", exact=True).fill('{"id": 9007199254740993, "total": 10.50}')
    await page.get_by_label("is entered as", exact=True).select_option("json")
    await page.get_by_label("Name of header 1").fill("event-type")
    await page.get_by_label("Value of header 1").fill("OrderCreated")
    await page.get_by_role("button", name="Produce").click()
    await expect(
        page.get_by_text(re.compile(r"Stored in partition \d at offset 0"))
    ).to_be_visible()
    await expect(page.get_by_label("Value as json")).to_contain_text('"id": 9007199254740993')
    await page.get_by_role("link", name=topic, exact=True).click()
    await page.get_by_label("Key is exactly").fill("order-17")
    await page.get_by_role("button", name="Show").click()
    rows = page.get_by_role("region", name="Table of messages").locator("tbody tr")
    await expect(rows).to_have_count(1)
    await expect(page.get_by_text("where murmur2 puts this key")).to_be_visible()
    await expect(page.get_by_text("Stopped because there are no more")).to_be_visible()
    await rows.first.get_by_role("link").click()
    await page.get_by_role("link", name="Hex").click()
    await expect(page.get_by_label("Value as hex")).to_contain_text("00000000  7b 22 69 64")


async def test_leaving_the_filter_asks_for_nothing(page: Page) -> None:
    """It would ask when a topic is pressed, and put a new list under the pressed pointer."""
    asked: list[str] = []
    page.on("request", lambda request: "?q=" in request.url and asked.append(request.url))
    await page.goto(MESSAGES)
    await page.get_by_label("Name contains").fill("shop")
    await page.wait_for_url("**/messages/?q=shop")
    await page.get_by_label("Name contains").press("Tab")
    await page.get_by_label("Internal topics too").check()
    await page.wait_for_url("**/messages/?q=shop&internal=1")
    assert [one.partition("?")[2] for one in asked] == ["q=shop", "q=shop&internal=1"]


async def test_what_is_pressed_stays_until_it_is_released(page: Page, bootstrap: str) -> None:
    """A click counts only where press and release meet the same element."""
    topic = new_topic(bootstrap)
    is_pressed = asyncio.Event()

    async def answer_when_pressed(route: Route) -> None:
        await is_pressed.wait()
        await route.continue_()

    await page.goto(MESSAGES)
    link = page.get_by_role("link", name=topic, exact=True)
    for _ in range(20):  # a list of topics may be some seconds old
        if await link.count():
            break
        await page.wait_for_timeout(500)
        await page.reload()
    await page.route("**/messages/?q=*", answer_when_pressed)
    await page.get_by_label("Name contains").fill(topic)
    await link.hover()
    await page.mouse.down()
    async with page.expect_event("requestfinished", lambda request: "?q=" in request.url):
        is_pressed.set()
    await page.wait_for_timeout(200)  # time enough to put the answer in place
    await page.mouse.up()
    await page.wait_for_url(f"**/messages/{topic}/")
    await expect(page.get_by_text("No message here.")).to_be_visible()


async def test_of_two_filters_typed_during_a_press_the_newer_is_shown(page: Page) -> None:
    await page.goto(MESSAGES)
    await page.get_by_label("Name contains").hover()
    await page.mouse.down()
    async with page.expect_event("requestfinished", lambda request: "?q=" in request.url):
        await page.keyboard.type("nothing-is")
    await page.keyboard.type("-called-so")
    await page.wait_for_timeout(500)  # the filter asks 200 ms after the last letter
    await page.mouse.up()
    await expect(page.get_by_text("No topic has “nothing-is-called-so”")).to_be_visible()
    await page.wait_for_url("**/messages/?q=nothing-is-called-so")
    await expect(page.locator(".htmx-request")).to_have_count(0)


async def test_a_mistake_keeps_the_form_and_stores_nothing(
    watched: Watched, bootstrap: str
) -> None:
    page, topic = watched.page, new_topic(bootstrap)
    await page.goto(f"{MESSAGES}{topic}/produce")
    await page.get_by_label("Value", exact=True).fill('{"id": }')
    await page.get_by_label("is entered as", exact=True).select_option("json")
    await page.get_by_role("button", name="Produce").click()
    await expect(page.get_by_text("Not JSON: expected a value at character 8.")).to_be_visible()
    await expect(page.get_by_label("Value", exact=True)).to_have_value('{"id": }')
    await page.goto(f"{MESSAGES}{topic}/")
    await expect(page.get_by_text("No message here.")).to_be_visible()
    watched.problems[:] = [one for one in watched.problems if "status of 400" not in one]


async def test_a_search_shows_progress_is_cancelled_and_resumed(page: Page, bootstrap: str) -> None:
    topic = new_topic(bootstrap)
    fill_much(bootstrap, topic, 150_000)
    await page.goto(f"{MESSAGES}{topic}/searches/")
    await page.get_by_label("JSON path in the value").fill("number")
    await page.get_by_label("JSON there is").fill("149999")
    await page.get_by_role("button", name="Search").click()
    progress = page.get_by_role("progressbar")
    await expect(page.get_by_role("status").filter(has_text="Running")).to_be_visible()
    await page.wait_for_function(
        "() => { const bar = document.querySelector('progress.bar');"
        " return bar && bar.value > 0 && bar.value < 100; }",
        timeout=60_000,
    )
    await page.get_by_role("button", name="Cancel").click()
    await expect(page.get_by_text("Cancelled by")).to_be_visible()
    stopped_at = int(await progress.get_attribute("value") or "")
    assert 0 < stopped_at < 100
    await page.get_by_role("button", name="Resume").click()
    done = page.get_by_role("status").filter(has_text="Done")
    await expect(done).to_be_visible(timeout=120_000)
    rows = page.locator("#search-found tbody tr")
    await expect(rows).to_have_count(1)
    await expect(rows.first).to_contain_text('"number": 149999')


async def test_a_value_is_downloaded_as_it_is(page: Page, bootstrap: str, tmp_path: Path) -> None:
    topic = new_topic(bootstrap, 1)
    fill(bootstrap, topic)
    await page.goto(f"{MESSAGES}{topic}/0/4/")
    await expect(page.get_by_text("The first 16 KiB are shown.")).to_be_visible()
    async with page.expect_download() as waiting:
        await page.get_by_role("link", name="Download value").click()
    download = await waiting.value
    assert download.suggested_filename == f"{topic}-0-4-value.bin"
    await download.save_as(tmp_path / "value")
    assert (tmp_path / "value").read_bytes() == bytes(range(256)) * 300


async def test_payloads_never_run(page: Page, bootstrap: str) -> None:
    topic = new_topic(bootstrap, 1)
    fill(bootstrap, topic)
    alerts: list[str] = []
    page.on("dialog", lambda dialog: alerts.append(dialog.message))
    for address in ("", "0/1/", "0/1/?view=text"):
        await page.goto(f"{MESSAGES}{topic}/{address}")
        await expect(page.get_by_text("<img src=x onerror=alert(1)>").first).to_be_visible()
        assert await page.locator("main img, main script").count() == 0
    assert alerts == []


async def some_search(page: Page, topic: str) -> str:
    await page.goto(f"{MESSAGES}{topic}/searches/")
    await page.get_by_label("Value contains").fill("e")
    await page.get_by_role("button", name="Search").click()
    await expect(page.get_by_role("status").filter(has_text="Done")).to_be_visible(timeout=60_000)
    return page.url


async def pages(page: Page, bootstrap: str) -> dict[str, str]:
    topic = new_topic(bootstrap, 1)
    fill(bootstrap, topic)
    search = await some_search(page, topic)
    base = f"{MESSAGES}{topic}/"
    return {
        "messages-topics": MESSAGES,
        "messages": base,
        "messages-key": f"{base}?key=order-17&from=time&time=2020-01-01",
        "messages-problem": f"{base}?from=offset&offset=x&partition=y&key=zz&key_as=hex",
        "message": f"{base}0/0/",
        "message-hostile": f"{base}0/1/",
        "message-tombstone": f"{base}0/2/",
        "message-binary": f"{base}0/4/",
        "message-missing": f"{base}0/99/",
        "messages-produce": f"{base}produce",
        "messages-searches": f"{base}searches/",
        "messages-search": search,
    }


async def test_every_page_is_accessible_and_keeps_the_policy(
    watched: Watched, theme: str, screenshots: Path, bootstrap: str
) -> None:
    page = watched.page
    await page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    found: dict[str, list[object]] = {}
    for name, address in (await pages(page, bootstrap)).items():
        await page.goto(address)
        result = await Axe().run(page)
        await page.screenshot(path=screenshots / f"{name}-{theme}.png", full_page=True)
        violations = [
            (one["id"], [node["html"][:160] for node in one["nodes"][:3]])
            for one in result.response["violations"]
        ]
        if violations:
            found[name] = violations
    forgive(watched)
    assert found == {}


async def test_pages_fit_a_phone_and_targets_are_large_enough(
    watched: Watched, screenshots: Path, bootstrap: str
) -> None:
    page = watched.page
    problems: list[str] = []
    await page.set_viewport_size({"width": 390, "height": 860})
    for name, address in (await pages(page, bootstrap)).items():
        await page.goto(address)
        wider = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
        if wider > 0:
            reason = await page.evaluate(
                """() => [...document.querySelectorAll("main *")]
                    .filter((element) => !element.closest(".table-scroll, pre, .code"))
                    .filter((element) => element.getBoundingClientRect().right > innerWidth)
                    .map((element) => element.outerHTML.slice(0, 90)).slice(0, 3)"""
            )
            problems.append(f"{name} scrolls sideways by {wider} pixels: {reason}")
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
    forgive(watched)
    assert problems == []


def forgive(watched: Watched) -> None:
    """Chromium calls a page that is answered with a refusal an error: these were wanted."""
    wanted = re.compile(r"status of (400|404)")
    watched.problems[:] = [one for one in watched.problems if not wanted.search(one)]
