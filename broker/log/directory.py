"""The data directory: whose it is (`meta.properties`), where partitions lie, and the trash.

Not here: the process lock (the real disk takes it before anything is read), partitions' files
(`names`). `topics/<topic>/partition-03/`, `trash/<topic id>/`, `meta.properties`. Deleting a topic
is a rename into the trash, so that a recreated topic never meets old data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from broker.log.recovery import free_name
from broker.model import format_uuid
from broker.ports import Disk, DiskFault

META: Final = "meta.properties"
TOPICS: Final = "topics"
TRASH: Final = "trash"
FORMAT_VERSION: Final = 1
OUR_FILES: Final = ("lock", "metastore", "hermes")
"""How the names of the other files begin that may be there before `meta.properties` is."""


class Meta(NamedTuple):
    """Whose directory it is. `cluster_id` is the 22-character form."""

    cluster_id: str
    node_id: int


class DataDirectoryRefused(Exception):
    """The data directory cannot be used; the message is one sentence: why, and what to do."""


async def claim(disk: Disk, *, node_id: int, cluster_id: str) -> Meta:
    """The directory's identity; an empty directory becomes ours.

    Raises DataDirectoryRefused when it is foreign, damaged, of a newer format, another node's or
    another cluster's; DiskFault when the disk fails.
    """
    meta = read_meta(disk)
    if meta is None:
        meta = Meta(cluster_id, node_id)
        await disk.replace_file(META, encode_meta(meta))
    if meta.node_id != node_id:
        raise DataDirectoryRefused(
            f"the data directory belongs to node {meta.node_id}, this is node {node_id}: "
            "start with that node.id or choose another data directory"
        )
    if meta.cluster_id != cluster_id:
        raise DataDirectoryRefused(
            f"the data directory belongs to cluster {meta.cluster_id}, not {cluster_id}: "
            "choose another data directory"
        )
    return meta


def read_meta(disk: Disk) -> Meta | None:
    """What `meta.properties` says; None when the directory is new. Raises DataDirectoryRefused,
    DiskFault.
    """
    try:
        content = disk.read_file(META)
    except FileNotFoundError:
        foreign = [name for name in disk.list_directory("") if not name.startswith(OUR_FILES)]
        if not foreign:
            return None
        raise DataDirectoryRefused(
            f"the data directory has no {META} but holds {foreign[0]!r}: it is not HermesMQ's, "
            "choose an empty directory (or restore the file from a backup)"
        ) from None
    except DiskFault as fault:
        raise DataDirectoryRefused(
            f"{META} in the data directory cannot be read: {fault.reason}"
        ) from fault
    return _decode_meta(_properties(content))


def _decode_meta(found: Mapping[str, str]) -> Meta:
    version = found.get("version", "")
    if version.isascii() and version.isdigit() and int(version) > FORMAT_VERSION:
        raise DataDirectoryRefused(
            f"the data directory has format {version}, this version reads up to {FORMAT_VERSION}: "
            "run the newer HermesMQ that wrote it"
        )
    try:
        if int(version) != FORMAT_VERSION or not found["cluster.id"]:
            raise ValueError(version)
        return Meta(found["cluster.id"], int(found["node.id"]))
    except (ValueError, KeyError) as error:
        raise DataDirectoryRefused(
            f"{META} in the data directory is damaged: restore it from a backup, "
            "or choose another data directory"
        ) from error


def encode_meta(meta: Meta) -> bytes:
    """The content of `meta.properties`."""
    return (
        f"version={FORMAT_VERSION}\ncluster.id={meta.cluster_id}\nnode.id={meta.node_id}\n".encode()
    )


def partition_directory(topic: str, partition: int) -> str:
    """Where a partition lies. `topic` is a legal topic name."""
    return f"{topic_directory(topic)}/{partition_name(partition)}"


def topic_directory(topic: str) -> str:
    """Where a topic's partitions lie."""
    return f"{TOPICS}/{topic}"


def partition_name(partition: int) -> str:
    """Of a partition's directory."""
    return f"partition-{partition:02d}"


async def move_to_trash(disk: Disk, topic: str, topic_id: bytes) -> str | None:
    """Take a topic's directory away, durably, before its name is used again; the path in the trash,
    None if absent.

    The caller removes it later with `Disk.remove_tree`, or `empty_trash` does at the next start.
    """
    source = f"{TOPICS}/{topic}"
    if not disk.exists(source):
        return None
    await disk.make_directory(TRASH)
    target = free_name(disk, f"{TRASH}/{format_uuid(topic_id)}")
    disk.rename(source, target)
    await disk.sync_directory(TRASH)
    await disk.sync_directory(TOPICS)
    return target


async def empty_trash(disk: Disk) -> None:
    """Remove what deletions left behind, and what others leave meanwhile: large topics take their
    time. Raises DiskFault, after all that can go is gone.
    """
    failed: dict[str, DiskFault] = {}
    while names := [name for name in disk.list_directory(TRASH) if name not in failed]:
        for name in names:
            try:
                await disk.remove_tree(f"{TRASH}/{name}")
            except DiskFault as fault:
                failed[name] = fault
    if failed:
        raise next(iter(failed.values()))


def _properties(content: bytes) -> dict[str, str]:
    pairs = (line.partition("=") for line in content.decode("utf-8", "replace").splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs if not key.startswith("#")}
