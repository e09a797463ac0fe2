"""A message's key, value or one header's value as bytes, for a file."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from hermes_console.accounts.actor import Actor
from hermes_console.clusters import Cluster
from hermes_console.errors import Refused
from hermes_console.operations.messages import read_one
from hermes_console.operations.messages_export import file_name
from hermes_console.operations.messages_rows import Message

HEADER_PART: Final = re.compile(r"header-([0-9]{1,6})")


class RawPart(NamedTuple):
    """The bytes and a harmless name for them."""

    name: str
    content: bytes


def raw_part(
    actor: Actor, cluster: Cluster, topic: str, partition: int, offset: int, part: str
) -> RawPart:
    """`part` is key, value or header-<index>. Raises NotAllowed, ClientError; Refused when it is
    not there: null has no bytes.
    """
    read = read_one(actor, cluster, topic, partition, offset)
    if read.message is None:
        raise Refused(404, "no-such-message", read.reason)
    content = _content(read.message, part)
    if content is None:
        raise Refused(404, "is-null", f"The {part.replace('-', ' ')} is null: it has no bytes.")
    name = file_name(topic, str(partition), str(offset), part, "bin")
    return RawPart(name, content)


def _content(message: Message, part: str) -> bytes | None:
    if part == "key":
        return message.key
    if part == "value":
        return message.value
    found = HEADER_PART.fullmatch(part)
    if found is None or int(found[1]) >= len(message.headers):
        raise Refused(404, "no-such-part", f"The message has no part {part!r}.")
    return message.headers[int(found[1])][1]
