"""CRC-32C, by the processor: `crc32c(content, value=0)` takes any buffer and goes on from `value`.

The function is that of the package crc32c, taken from its extension alone: the package itself reads
the metadata of installed packages and builds a parser of arguments, a tenth of a broker's start.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from typing_extensions import Buffer

_PACKAGE: Final = "crc32c"
_EXTENSION: Final = "crc32c._crc32c"


def _load() -> Callable[..., int]:
    """From the extension where it lies inside the package, as it does in 2.x."""
    package = None if _EXTENSION in sys.modules else PathFinder.find_spec(_PACKAGE)
    places = package.submodule_search_locations if package is not None else None
    found = PathFinder.find_spec(_EXTENSION, places) if places else None
    if found is None or found.loader is None:
        return cast("Callable[..., int]", importlib.import_module(_PACKAGE).crc32c)
    extension = module_from_spec(found)
    sys.modules[_EXTENSION] = extension  # the package, where somebody imports it, finds the same
    found.loader.exec_module(extension)
    return cast("Callable[..., int]", extension.crc32c)


if TYPE_CHECKING:

    def crc32c(content: Buffer, value: int = 0) -> int:
        """The checksum of `content`, or of what had the checksum `value` with it behind."""
        ...
else:
    crc32c = _load()
