"""Makes the pictures of the console that the documents show, in both themes:
`.venv/bin/python -m tests.browser.pictures [DIRECTORY]` (default: docs/images).

The pages are those of a real `hermes up --demo` beside a real Apache Kafka, after some minutes of
an operator's work. Look at every picture before you commit it.
"""

from __future__ import annotations

import asyncio
import re
import struct
import sys
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from playwright.async_api import BrowserContext, Page, expect

from tests.browser.conftest import (
    ROOT,
    Installation,
    running_browser,
    running_installation,
    sign_in,
)
from tests.console.kafka_world import World
from tests.support.with_kafka import apache_kafka

DIRECTORY = ROOT / "docs" / "images"
WIDTH_PX = 1280
HEIGHTS_PX = (860, 740, 620, 500, 380)
"""The largest whose file is small enough: full pages of text are cut."""
FILE_BYTES_MAX = 96_000
HISTORY_S = 150
"""What the charts are given to show."""
SOON_MS = 60_000
LOCAL = "/clusters/local/"
THEMES = ("light", "dark")
SIGNATURE = b"\x89PNG\r\n\x1a\n"
PAGES = {
    "overview": LOCAL,
    "groups": f"{LOCAL}groups/",
    "group": f"{LOCAL}groups/risk-control/",
    "group-reset": f"{LOCAL}groups/payouts/reset?to=shift&shift=-30&topic=payments",
    "topics": f"{LOCAL}topics/",
    "topic": f"{LOCAL}topics/order-events/",
    "topic-create": f"{LOCAL}topics/new",
    "topic-grow": f"{LOCAL}topics/payments/grow",
    "topic-delete": f"{LOCAL}topics/order-events/delete",
    "messages": f"{LOCAL}messages/order-events/",
    "message": f"{LOCAL}messages/order-events/0/0/",
    "brokers": f"{LOCAL}brokers/",
    "clusters": "/clusters/",
    "cluster": "/clusters/stock-room/connection",
    "accounts": "/accounts/users/",
    "tokens": "/accounts/profile",
    "audit": "/audit/",
    "api": "/api/admin/v1/docs",
}


def main(arguments: Sequence[str]) -> int:
    """1 when a picture is larger than a document should load."""
    directory = Path(arguments[0]) if arguments else DIRECTORY
    directory.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="hermes-pictures-") as data,
        running_installation(Path(data)) as installation,
        apache_kafka() as other,
    ):
        made = asyncio.run(take_all(installation, other, directory))
    large = [path for path in made if path.stat().st_size > FILE_BYTES_MAX]
    for path in large:
        print(f"{path} has {path.stat().st_size} bytes, more than {FILE_BYTES_MAX}")
    print(f"{len(made)} pictures, {sum(path.stat().st_size for path in made)} bytes")
    return 1 if large else 0


async def take_all(installation: Installation, other: str, directory: Path) -> list[Path]:
    """The files."""
    await asyncio.to_thread(fill, installation.kafka)
    async with running_browser() as browser:
        context = await browser.new_context(
            base_url=installation.console, viewport={"width": WIDTH_PX, "height": HEIGHTS_PX[0]}
        )
        await sign_in(context, installation)
        page = await context.new_page()
        await work_a_while(page, other)
        made = [
            await take(context, name, address, theme, directory)
            for name, address in PAGES.items()
            for theme in THEMES
        ]
        address = await search(page)
        made += [
            await take(context, "messages-search", address, theme, directory) for theme in THEMES
        ]
        await context.close()
    return made


def fill(bootstrap: str) -> None:
    """A group that is stopped, on a topic of its own."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("payments", 3, 1)])["payments"].result(20)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(1_200):
        value = b'{"order": %d, "paid": true}' % number
        producer.produce("payments", value, key=b"order-%d" % number, partition=number % 3)
    assert producer.flush(30) == 0
    World(bootstrap).commit("payouts", "payments", 310, 290, 305)


async def work_a_while(page: Page, other: str) -> None:
    """Adds a second cluster, an account and a token, and lets the charts fill."""
    await page.goto("/clusters/new")
    await page.get_by_label("Name", exact=True).fill("stock-room")
    await page.get_by_label("Bootstrap address").fill(other)
    await page.get_by_role("button", name="Test and add").click()
    await expect(page.get_by_text("is watched from now on")).to_be_visible(timeout=SOON_MS)
    await page.goto("/accounts/users/new")
    await page.get_by_label("Name", exact=True).fill("vera")
    await page.get_by_label("Role", exact=True).select_option("viewer")
    await page.get_by_role("button", name="Create the account").click()
    await expect(page.get_by_text("Account vera was created.")).to_be_visible()
    await page.goto("/accounts/tokens/new")
    await page.get_by_label("What for").fill("nightly lag report")
    await page.get_by_role("button", name="Make the token").click()
    await expect(page.get_by_text("The token is made.")).to_be_visible()
    await page.wait_for_timeout(HISTORY_S * 1_000)


async def search(page: Page) -> str:
    """The address of a search that is done."""
    await page.goto(f"{LOCAL}messages/order-events/searches/")
    await page.get_by_label("Value contains").fill("OrderCancelled")
    await page.get_by_role("button", name="Search").click()
    done = page.get_by_role("status").filter(has_text=re.compile("Done|Stopped"))
    await expect(done).to_be_visible(timeout=SOON_MS)
    return page.url


async def take(
    context: BrowserContext, name: str, address: str, theme: str, directory: Path
) -> Path:
    """The top of the page, as a screen shows it."""
    page = await context.new_page()
    await page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    answer = await page.goto(address)
    assert answer is not None
    assert answer.ok, f"{address} was answered with {answer.status}"
    if name == "cluster":
        await page.get_by_role("button", name="Test the connection").click()
        await expect(page.get_by_text("It answers")).to_be_visible(timeout=SOON_MS)
    if await page.locator("[data-live]").count():
        live = page.locator('[data-live-state="live"]')
        await expect(live).to_be_visible(timeout=SOON_MS)
    for chart in await page.locator("[data-chart]").all():
        await expect(chart.locator("canvas")).to_be_visible(timeout=SOON_MS)
    path = directory / f"{name}-{theme}.png"
    path.write_bytes(fitted(await page.screenshot()))
    await page.close()
    return path


def fitted(png: bytes) -> bytes:
    """The picture, packed as small as zlib can (Chromium packs quickly), cut below when needed."""
    for height in HEIGHTS_PX:
        packed = repacked(png, height)
        if len(packed) <= FILE_BYTES_MAX:
            break
    return packed


def repacked(png: bytes, height: int) -> bytes:
    """The topmost `height` rows. A row of a PNG refers to none below it."""
    chunks: list[tuple[bytes, bytes]] = []
    position = len(SIGNATURE)
    while position < len(png):
        length, kind = struct.unpack_from(">I4s", png, position)
        chunks.append((kind, png[position + 8 : position + 8 + length]))
        position += length + 12
    head = next(data for kind, data in chunks if kind == b"IHDR")
    rows = zlib.decompress(b"".join(data for kind, data in chunks if kind == b"IDAT"))
    width, height_before = struct.unpack_from(">II", head)
    height = min(height, height_before)
    rows = rows[: len(rows) // height_before * height]
    packed = [
        (b"IHDR", struct.pack(">II", width, height) + head[8:]),
        (b"IDAT", zlib.compress(rows, 9)),
        (b"IEND", b""),
    ]
    return SIGNATURE + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in packed
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
