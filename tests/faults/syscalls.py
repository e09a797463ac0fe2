"""What a broker asks of its files, as strace sees it: which names and contents are durable when.

A directory's change is durable once a sync of that directory, begun after it, has ended; so is a
file's content. `trace` runs the broker; `Files` takes the calls up to a moment and tells what is
not durable, and which rules were broken on the way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

CALLS: Final = (
    "openat,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,"
    "fsync,fdatasync,syncfs,pwrite64,pwritev,write"
)
_LINE: Final = re.compile(r"^(\d+) +(\d+\.\d+) (.*)$")
_CALL: Final = re.compile(r"^(\w+)\((.*)\) += (-?\d+)(?:<([^>]*)>)?.* <([\d.]+)>$")
_UNFINISHED: Final = re.compile(r"^(.*) <unfinished \.\.\.>$")
_RESUMED: Final = re.compile(r"^<\.\.\. \w+ resumed>(.*)$")
_QUOTED: Final = re.compile(r'"([^"]*)"')
_DESCRIPTOR: Final = re.compile(r"^\d+<([^>]*)>")
_DIRECTORY: Final = re.compile(r"^(?:AT_FDCWD|\d+)<([^>]*)>")
_SUFFIXES_REBUILT: Final = (".idx", ".timeidx")
"""Checked when they are read, and made anew: they need no sync."""
_SUFFIXES_GONE: Final = (".deleted", ".tmp", ".cleaned")
"""A start removes them: nobody misses such a name."""


def trace(output: Path) -> list[str]:
    """The command before a broker's own; its process id stays the broker's."""
    return [
        *("strace", "-D", "-f", "-qq", "-ttt", "-T", "-y", "-s", "256"),
        *("-e", f"trace={CALLS}", "-e", "signal=none", "-o", str(output)),
    ]


class Call(NamedTuple):
    """One call that succeeded. `paths` are the files it is about, as they were called then."""

    name: str
    paths: tuple[str, ...]
    begin_s: float
    end_s: float


def read_calls(output: Path, root: Path) -> list[Call]:
    """Calls on files below `root`, or on it, ordered by their ends."""
    found = [
        call
        for call in _calls(output.read_text(errors="replace").splitlines())
        if any(Path(path).is_relative_to(root) for path in call.paths)
    ]
    return sorted(found, key=lambda call: call.end_s)


class Files:
    """The state after `absorb`. `broken` are sentences."""

    def __init__(self) -> None:
        self.broken: list[str] = []
        self._written: dict[str, float] = {}
        self._names: dict[str, dict[str, float]] = {}

    def absorb(self, calls: Sequence[Call]) -> Files:
        for call in calls:
            if call.name in {"fsync", "fdatasync"}:
                self._synced(call, call.paths[0])
            elif call.name == "syncfs":
                for path in [*self._written, *self._names]:
                    self._synced(call, path)
            elif call.name.startswith("rename"):
                self._renamed(call, *call.paths)
            elif call.name.startswith("unlink"):
                self._unlinked(call.paths[0])
            elif call.name.startswith(("open", "mkdir")):
                self._changed(call, call.paths[0])
            else:
                self._written[call.paths[0]] = call.end_s
        return self

    def names_not_durable(self) -> list[str]:
        """Paths that were made, renamed to or renamed away and may be as before after a cut."""
        return [
            f"{directory}/{name}"
            for directory, names in self._names.items()
            for name in names
            if not name.endswith((*_SUFFIXES_REBUILT, *_SUFFIXES_GONE))
        ]

    def contents_not_durable(self) -> list[str]:
        """Files with bytes that a cut may take."""
        return [
            path
            for path in self._written
            if not path.endswith((*_SUFFIXES_REBUILT, *_SUFFIXES_GONE))
        ]

    def _changed(self, call: Call, path: str) -> None:
        directory, _, name = path.rpartition("/")
        self._names.setdefault(directory, {})[name] = call.end_s

    def _synced(self, call: Call, path: str) -> None:
        if self._written.get(path, call.end_s) <= call.begin_s:
            del self._written[path]
        names = self._names.get(path, {})
        for name in [name for name, at_s in names.items() if at_s <= call.begin_s]:
            del names[name]

    def _renamed(self, call: Call, source: str, target: str) -> None:
        is_lasting = not target.endswith((*_SUFFIXES_REBUILT, *_SUFFIXES_GONE))
        if source in self._written:
            if is_lasting:
                self.broken.append(f"{target} got its name before its content was synced")
            self._written[target] = self._written.pop(source)
        if target.rpartition("/")[2].startswith("partition-"):
            self._made_aside(source, target)
        self._changed(call, target)
        directory, _, name = source.rpartition("/")
        if self._names.get(directory, {}).pop(name, None) is None:
            self._changed(call, source)  # it had been durable: it may come back

    def _made_aside(self, source: str, target: str) -> None:
        """A new directory gets its name: all that is in it was synced."""
        names = self._names.pop(source, {})
        unsynced = [path for path in self._written if path.startswith(f"{source}/")]
        if names or unsynced:
            found = [*names, *unsynced]
            self.broken.append(f"{target} got its name before {found} in it were synced")

    def _unlinked(self, path: str) -> None:
        directory, _, name = path.rpartition("/")
        self._written.pop(path, None)
        if self._names.get(directory, {}).pop(name, None) is not None and path.endswith(".deleted"):
            self.broken.append(f"{path} was removed before its rename was durable")


def _calls(lines: Sequence[str]) -> Iterator[Call]:
    begun: dict[str, tuple[float, str]] = {}
    for line in lines:
        found = _LINE.match(line)
        if found is None:
            continue
        process, at_s, text = found[1], float(found[2]), found[3]
        unfinished = _UNFINISHED.match(text)
        if unfinished is not None:
            begun[process] = (at_s, unfinished[1])
            continue
        resumed = _RESUMED.match(text)
        if resumed is not None:
            if process not in begun:
                continue
            at_s, first = begun.pop(process)
            text = first + resumed[1]
        call = _call(at_s, text)
        if call is not None:
            yield call


def _call(at_s: float, text: str) -> Call | None:
    """None for one that failed, or changes nothing."""
    found = _CALL.match(text)
    if found is None or int(found[3]) < 0:
        return None
    name, arguments, end_s = found[1], found[2], at_s + float(found[5])
    if name.startswith("open"):
        is_made = "O_CREAT" in arguments
        return Call(name, (str(found[4]),), at_s, end_s) if is_made and found[4] else None
    descriptor = _DESCRIPTOR.match(arguments)
    if name in {"fsync", "fdatasync", "syncfs", "pwrite64", "pwritev", "write"}:
        return Call(name, (descriptor[1],), at_s, end_s) if descriptor is not None else None
    directory = _DIRECTORY.match(arguments)
    paths = tuple(
        path if path.startswith("/") or directory is None else f"{directory[1]}/{path}"
        for path in _QUOTED.findall(arguments)
    )
    return Call(name, paths, at_s, end_s) if paths else None
