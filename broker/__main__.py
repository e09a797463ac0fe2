"""`python -m broker`: the `hermes` command."""

from __future__ import annotations

import sys

from broker.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
