"""`meta.properties`: whose data directory this is, and in which format. Checked before anything
in it is touched.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from broker.ports import Disk
from broker.server.startup import StartupError

META_FILE: Final = "meta.properties"
FORMAT: Final = 1

_OURS: Final = ("lock", META_FILE, "topics", "trash")
_OURS_BY_PREFIX: Final = ("metastore", "meta.properties.")
_IGNORED: Final = frozenset({"lost+found"})


class DirectoryMeta(NamedTuple):
    """What `meta.properties` says."""

    cluster_id: str
    node_id: int


def read_meta(disk: Disk, node_id: int) -> DirectoryMeta | None:
    """The directory's owner, None for a new directory. Raises StartupError when it is not ours
    to use.
    """
    if not disk.exists(META_FILE):
        foreign = [name for name in disk.list_directory("") if not _is_ours(name)]
        if foreign:
            raise StartupError(
                f"the data directory holds files of something else ({foreign[0]}): "
                "choose an empty directory with --log-dir"
            )
        if disk.list_directory("topics"):
            raise StartupError(
                f"the data directory holds topics but no {META_FILE}: restore that file from a "
                "backup"
            )
        return None
    values = _parse(disk.read_file(META_FILE))
    try:
        stored_format = int(values["format"])
        if stored_format > FORMAT:
            raise StartupError(
                f"the data directory has format {stored_format}, this HermesMQ knows {FORMAT}: "
                "run the version that wrote it, or a newer one"
            )
        found = DirectoryMeta(values["cluster.id"], int(values["node.id"]))
    except (KeyError, ValueError) as error:
        raise StartupError(
            f"{META_FILE} in the data directory is damaged ({error}): restore it from a backup"
        ) from None
    if found.node_id != node_id:
        raise StartupError(
            f"the data directory belongs to node {found.node_id}, this is node {node_id}: "
            "set node.id or choose another directory"
        )
    return found


async def write_meta(disk: Disk, meta: DirectoryMeta) -> None:
    """Claim a new directory. Raises DiskFault."""
    text = f"format={FORMAT}\ncluster.id={meta.cluster_id}\nnode.id={meta.node_id}\n"
    await disk.replace_file(META_FILE, text.encode())


def _is_ours(name: str) -> bool:
    return name in _OURS or name in _IGNORED or name.startswith(_OURS_BY_PREFIX)


def _parse(content: bytes) -> dict[str, str]:
    lines = content.decode(errors="replace").splitlines()
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, _separator, value in pairs}
