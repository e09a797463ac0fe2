"""`partition.json`: which topic id and partition a directory belongs to, and in which format it is.

Not here: anything that changes. It is written once, before the first segment.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from broker.log import names
from broker.model import format_uuid, parse_uuid
from broker.ports import Disk, DiskFault

FORMAT: Final = 1


class PartitionIdentity(NamedTuple):
    """`topic` is informative; the id is what counts."""

    topic_id: bytes
    partition: int
    topic: str


def encode_identity(identity: PartitionIdentity) -> bytes:
    """The content of `partition.json`."""
    fields = {
        "format": FORMAT,
        "topic_id": format_uuid(identity.topic_id),
        "partition": identity.partition,
        "topic": identity.topic,
    }
    return (json.dumps(fields) + "\n").encode()


def read_identity(disk: Disk, directory: str) -> PartitionIdentity:
    """Raises DiskFault with a sentence when the file is missing, damaged or of a newer format."""
    path = f"{directory}/{names.PARTITION_FILE}"
    try:
        fields = json.loads(disk.read_file(path))
        if fields["format"] != FORMAT:
            raise DiskFault(
                path,
                f"has format {fields['format']}, this version reads {FORMAT}: "
                "run the version that wrote it",
            )
        return PartitionIdentity(
            parse_uuid(fields["topic_id"]), int(fields["partition"]), str(fields["topic"])
        )
    except FileNotFoundError as error:
        raise DiskFault(
            path, "is missing: restore it, or move the partition's directory away"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise DiskFault(
            path, f"is damaged ({error}): restore it, or move the partition's directory away"
        ) from error
