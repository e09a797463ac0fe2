"""kafka-python serves as an oracle here; its import warns about its own use of the library."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.record.default_records  # noqa: F401
