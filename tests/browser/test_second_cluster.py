"""An operator's whole day as one journey, on our own cluster and on an Apache Kafka that is added
as a second one: create a topic, produce a message and find it by its key, stop a group, reset it
with a preview, undo, delete the topic by its typed name.
"""

from __future__ import annotations

import asyncio
import re

import pytest
from confluent_kafka import Consumer
from playwright.async_api import Page, expect

from tests.browser.conftest import Installation, Watched
from tests.browser.test_topics import forgive
from tests.console.kafka_world import World, new_name, wait_until

pytestmark = [
    pytest.mark.apt("chromium", "default-jdk-headless", "maven"),
    pytest.mark.timeout(400),
]
SOON_MS = 90_000
"""For what the console learns by itself: a sample is taken every few seconds."""
KEY, VALUE = "order-17", '{"id": 9007199254740993, "total": 10.50}'


async def test_main_task_is_done_on_our_own_cluster(
    watched: Watched, installation: Installation
) -> None:
    await do_main_task(watched, "local", World(installation.kafka))


async def test_apache_kafka_is_added_and_the_main_task_is_done_there(
    watched: Watched, installation: Installation, apache_kafka: str
) -> None:
    """With the settings that `hermes up` has: a port of this machine is reached when it is none of
    the installation's own services, and those stay refused.
    """
    page, name = watched.page, new_name("second-kafka")
    await page.goto("/clusters/")
    await page.get_by_role("link", name="Add a cluster").click()
    await page.get_by_label("Name", exact=True).fill(name)
    await page.get_by_label("Bootstrap address").fill(installation.console.split("/")[2])
    await page.get_by_role("button", name="Test and add").click()
    await expect(page.get_by_text("it is a service of this installation itself")).to_be_visible()
    await page.get_by_label("Bootstrap address").fill(apache_kafka)
    await page.get_by_role("button", name="Test and add").click()
    await expect(page.get_by_text(f"{name} is watched from now on: Apache Kafka")).to_be_visible(
        timeout=SOON_MS
    )
    await page.get_by_role("button", name="Test the connection").click()
    await expect(page.get_by_text("It answers: Apache Kafka")).to_be_visible(timeout=SOON_MS)
    for task in ("Create topics", "Reset a group's offsets"):
        row = page.get_by_role("row").filter(has_text=task)
        await expect(row.get_by_text("Can", exact=True)).to_be_visible()

    await do_main_task(watched, name, World(apache_kafka))

    await page.goto(f"/clusters/{name}/connection")
    await page.get_by_role("link", name="Remove…").click()
    await page.get_by_label(f"Type the name {name} to confirm").fill(name)
    await page.get_by_role("button", name="Remove the cluster").click()
    await expect(page.get_by_text("is no longer watched")).to_be_visible()


async def do_main_task(watched: Watched, cluster: str, world: World) -> None:
    """By hand from the overview on; `world` is the cluster's clients."""
    page, topic, group = watched.page, new_name("day.orders"), new_name("day-billing")
    await page.goto(f"/clusters/{cluster}/")
    await create_topic(page, topic)
    partition = await produce_and_find(page, topic)
    await watch_reset_refused(page, world, topic, partition, group)
    await reset_and_undo(page, world, topic, partition, group)
    await delete_topic(page, topic)
    forgive(watched, 422)


async def create_topic(page: Page, topic: str) -> None:
    await menu(page, "Topics")
    await page.get_by_role("link", name="Create a topic").click()
    await page.get_by_label("Name", exact=True).fill(topic)
    await page.get_by_label("Partitions", exact=True).fill("3")
    await page.get_by_role("button", name="Create the topic").click()
    await expect(page.get_by_text(f"Topic {topic} was created.")).to_be_visible(timeout=SOON_MS)


async def produce_and_find(page: Page, topic: str) -> int:
    """The partition that the message went to."""
    await page.get_by_role("main").get_by_role("link", name="Messages").click()
    await page.get_by_role("link", name="Produce one").click()
    await page.get_by_label("Key", exact=True).fill(KEY)
    await page.get_by_label("Value", exact=True).fill(VALUE)
    await page.get_by_label("is entered as", exact=True).select_option("json")
    await page.get_by_role("button", name="Produce").click()
    stored = page.get_by_text(re.compile(r"Stored in partition \d at offset 0"))
    await expect(stored).to_be_visible(timeout=SOON_MS)
    found = re.search(r"partition (\d)", await stored.inner_text())
    assert found is not None
    await page.get_by_role("link", name=topic, exact=True).click()
    await page.get_by_label("Key is exactly").fill(KEY)
    await page.get_by_role("button", name="Show").click()
    rows = page.get_by_role("region", name="Table of messages").locator("tbody tr")
    await expect(rows).to_have_count(1, timeout=SOON_MS)
    await expect(rows.first).to_contain_text("9007199254740993")
    return int(found[1])


async def watch_reset_refused(
    page: Page, world: World, topic: str, partition: int, group: str
) -> None:
    """A group reads the message and stays: the page tells who has to stop. Then it stops."""
    consumer = await asyncio.to_thread(read_one, world.bootstrap, topic, group)
    try:
        await menu(page, "Groups")
        await open_group(page, group)
        await page.get_by_role("link", name="Reset offsets").click()
        await expect(page.get_by_text("The group is active")).to_be_visible()
        await expect(page.locator("#group-state")).to_contain_text("biller-1")
        await page.get_by_label(f"Partitions of {topic}").fill(str(partition))
        await page.get_by_role("radio", name=re.compile("^Earliest")).check()
        await page.get_by_role("button", name="Preview").click()
        await expect(page.locator("#preview")).to_contain_text("1 read again")
        await expect(page.get_by_role("button", name=re.compile("^Reset"))).to_have_count(0)
    finally:
        await asyncio.to_thread(consumer.close)
    await expect(page.get_by_text("No member is connected: the offsets")).to_be_visible(
        timeout=SOON_MS
    )


async def reset_and_undo(page: Page, world: World, topic: str, partition: int, group: str) -> None:
    """On the page where the reset was refused a moment ago."""
    read_up_to = await asyncio.to_thread(world.committed, group, topic)
    assert read_up_to[partition] == 1
    await page.get_by_role("button", name="Preview").click()
    row = page.get_by_role("row", name=f"{topic} {partition} 1 0 −1 0 1")
    await expect(row).to_be_visible(timeout=SOON_MS)
    await page.get_by_role("button", name="Reset 1 offset").click()
    await expect(page.get_by_text(f"1 offset of {group} reset.")).to_be_visible(timeout=SOON_MS)
    assert await asyncio.to_thread(world.committed, group, topic) == {**read_up_to, partition: 0}
    await page.get_by_role("link", name="Undo…").click()
    await expect(page.get_by_role("row", name=f"{topic} {partition} 0 1 +1")).to_be_visible()
    await page.get_by_role("button", name="Put these offsets back").click()
    await expect(page.get_by_text("Undone: the offsets")).to_be_visible(timeout=SOON_MS)
    assert await asyncio.to_thread(world.committed, group, topic) == read_up_to


async def delete_topic(page: Page, topic: str) -> None:
    await menu(page, "Topics")
    await page.get_by_role("link", name=topic, exact=True).click(timeout=SOON_MS)
    await page.get_by_role("link", name="Delete topic").click()
    typed = page.get_by_label(f"Type the name {topic} to confirm")
    await typed.fill(topic[:-1])
    await page.get_by_role("button", name="Delete the topic").click()
    await expect(page.get_by_text("Nothing was changed.")).to_be_visible(timeout=SOON_MS)
    await typed.fill(topic)
    await page.get_by_role("button", name="Delete the topic").click()
    await expect(page.get_by_text(f"Topic {topic} was deleted")).to_be_visible(timeout=SOON_MS)
    await expect(page.get_by_role("link", name=topic, exact=True)).to_have_count(0)


async def menu(page: Page, title: str) -> None:
    """Goes to a page of the cluster that is open."""
    navigation = page.get_by_role("navigation", name="Pages")
    await navigation.get_by_role("link", name=title, exact=True).click()
    await expect(page.get_by_role("heading", name=title, level=1)).to_be_visible()


async def open_group(page: Page, group: str) -> None:
    """Its page, as soon as a sample has shown it."""
    await page.get_by_role("link", name=group, exact=True).click(timeout=SOON_MS)
    await expect(page.get_by_role("heading", name=group)).to_be_visible()


def read_one(bootstrap: str, topic: str, group: str) -> Consumer:
    """A member that has read the topic's message, committed it and stays connected."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": "biller-1",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])

    def has_committed() -> bool:
        message = consumer.poll(0.2)
        if message is None or message.error():
            return False
        consumer.commit(message, asynchronous=False)
        return True

    wait_until(has_committed, "the member reads its message")
    return consumer
