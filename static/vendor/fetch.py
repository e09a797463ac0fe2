"""Fetches the vendored files of the pages from npm, checks them and writes `lock.json`. Run by
hand, never by the build.

`python static/vendor/fetch.py` needs npm (`apt install npm`). The lock names packages, versions,
the registry's integrity and the SHA-256 of every file kept; a test compares the files with it. To
update: change the table and run it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent


class Package(NamedTuple):
    """`files`: path in the package → path below static/vendor."""

    name: str
    version: str
    license: str
    files: dict[str, str]


PACKAGES = (
    Package(
        "htmx.org",
        "2.0.11",
        "0BSD",
        {"dist/htmx.min.js": "htmx/htmx.min.js", "LICENSE": "htmx/LICENSE"},
    ),
    Package(
        "uplot",
        "1.6.32",
        "MIT",
        {
            "dist/uPlot.iife.min.js": "uplot/uPlot.iife.min.js",
            "dist/uPlot.min.css": "uplot/uPlot.min.css",
            "LICENSE": "uplot/LICENSE",
        },
    ),
    Package(
        "@fontsource-variable/inter",
        "5.3.0",
        "OFL-1.1",
        {
            "files/inter-latin-wght-normal.woff2": "inter/inter-latin.woff2",
            "LICENSE": "inter/LICENSE",
        },
    ),
)


def main() -> int:
    lock = []
    for package in PACKAGES:
        with tempfile.TemporaryDirectory() as directory:
            archive, integrity = pack(package, Path(directory))
            lock.append(
                {
                    "package": package.name,
                    "version": package.version,
                    "license": package.license,
                    "integrity": integrity,
                    "files": {
                        target: unpack(archive, source, HERE / target)
                        for source, target in package.files.items()
                    },
                }
            )
        sys.stdout.write(f"{package.name} {package.version}\n")
    (HERE / "lock.json").write_text(json.dumps(lock, indent=2) + "\n")
    return 0


def pack(package: Package, directory: Path) -> tuple[Path, str]:
    """The package's archive and its integrity, after comparing the one with the other."""
    told = subprocess.run(
        [
            "npm",
            "pack",
            f"{package.name}@{package.version}",
            "--json",
            "--pack-destination",
            directory,
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    described = json.loads(told.stdout)[0]
    archive = next(directory.glob("*.tgz"))
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if described["version"] != package.version or described["integrity"] != f"sha512-{digest}":
        sys.exit(
            f"{package.name} {package.version}: the archive does not fit the registry's integrity"
        )
    return archive, described["integrity"]


def unpack(archive: Path, source: str, target: Path) -> str:
    """Write one file of the archive to `target`; its SHA-256."""
    with tarfile.open(archive) as tar:
        member = tar.extractfile(f"package/{source}")
        if member is None:
            sys.exit(f"{archive.name} holds no {source}")
        content = member.read()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
