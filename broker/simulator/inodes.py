"""Files and directories of a simulated disk: what a process sees of each, and what is durable.

A sync makes the content durable that the file had when it began. After a failed one the bytes stay
readable and count as written, and no later sync writes them: as with Linux's page cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace


@dataclass(slots=True, eq=False)
class Inode:
    """One file. `synced` is its content when the last sync began; `rewrites` counts what changed
    it in place since it was made, `synced_rewrites` those that `synced` has.
    """

    content: bytearray = field(default_factory=bytearray)
    synced: bytearray = field(default_factory=bytearray)
    is_dirty: bool = False
    rewrites: int = 0
    synced_rewrites: int = 0
    given_up: list[tuple[int, int]] = field(default_factory=list)
    """Bytes [begin, end) of a sync that failed: they are read as written, no later sync writes
    them, and the device has zeros there.
    """

    owes_error: bool = False
    """A sync of the whole disk failed for this file, which its own next sync will tell."""

    def fail_sync(self) -> None:
        """A sync of what is unsynced failed."""
        begin = min(len(self.synced), len(self.content))
        if self.content[:begin] != self.synced[:begin]:
            pairs = zip(self.content, self.synced, strict=False)
            begin = next(place for place, (now, then) in enumerate(pairs) if now != then)
        if begin < len(self.content):
            self.given_up.append((begin, len(self.content)))

    def write_anew(self, begin: int, end: int) -> None:
        """These bytes are dirty again: the next sync writes them, whatever a later sync took for
        written since one of them failed.
        """
        self.is_dirty = True
        self.rewrites += 1
        self.given_up = [
            part
            for first, last in self.given_up
            for part in ((first, min(last, begin)), (max(first, end), last))
            if part[0] < part[1]
        ]

    def on_device(self) -> bytearray:
        """The content if all that a sync may still write were written."""
        content = bytearray(self.content)
        for begin, end in self.given_up:
            content[begin:end] = bytes(max(0, min(end, len(content)) - begin))
        return content

    def begin_sync(self) -> Callable[[], None]:
        """What is to be called when the sync is over: the content as it is now is durable then,
        what is written meanwhile is not.
        """
        rewrites = self.rewrites
        base = len(self.synced) if rewrites == self.synced_rewrites else 0
        source = self.on_device() if self.given_up else self.content
        tail = bytes(memoryview(source)[base:])

        def finish() -> None:
            if rewrites > self.synced_rewrites or len(self.synced) < base + len(tail):
                if rewrites < self.synced_rewrites:
                    return  # a sync that began later was over first
                self.synced[base:] = tail
                self.synced_rewrites = rewrites
            is_same = self.rewrites == self.synced_rewrites and not self.given_up
            self.is_dirty = not is_same or len(self.synced) != len(self.content)

        return finish


@dataclass(slots=True, eq=False)
class Directory:
    """`synced` are the names that are durable."""

    entries: dict[str, Inode | Directory] = field(default_factory=dict)
    synced: dict[str, Inode | Directory] = field(default_factory=dict)


Link = tuple[Directory, str, Inode | Directory | None]
"""A name in a directory; None removes it. A rename is two of them at once."""


def copy_node(node: Inode | Directory, copies: dict[int, Inode | Directory]) -> Inode | Directory:
    if isinstance(node, Directory):
        return copy_directory(node, copies)
    copy = copies.get(id(node))
    if copy is None:
        copy = copies[id(node)] = replace(
            node,
            content=bytearray(node.content),
            synced=bytearray(node.synced),
            given_up=list(node.given_up),
        )
    return copy


def copy_directory(directory: Directory, copies: dict[int, Inode | Directory]) -> Directory:
    known = copies.get(id(directory))
    if isinstance(known, Directory):
        return known
    copy = copies[id(directory)] = Directory()
    copy.entries = {name: copy_node(node, copies) for name, node in directory.entries.items()}
    copy.synced = {name: copy_node(node, copies) for name, node in directory.synced.items()}
    return copy


def apply_links(links: Sequence[Link], *, is_synced: bool) -> None:
    for directory, name, node in links:
        names = directory.synced if is_synced else directory.entries
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node
