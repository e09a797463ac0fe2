"""The raw load, in a process of its own: `python -m broker.bench.raw_load JOB` with JOB as JSON.

| kind     | does                                                        |
|----------|-------------------------------------------------------------|
| produce  | prebuilt requests, `window` in flight on each connection    |
| many     | `in_flight` requests in total go round over all connections |
| catch-up | reads the history again and again, records unseen           |
| live     | reads what is produced meanwhile, records unseen            |
| pace     | a fixed rate, open loop, stamped                            |
| time     | reads what pace sends and times it                          |

It answers with one line of JSON; `cpu_seconds` are its own, without its start.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from broker.bench.frames import BenchRefusal
from broker.bench.raw_fetch import catch_up, live
from broker.bench.raw_pace import measure, pace
from broker.bench.raw_produce import SILENCE_S_MAX, many, produce

KINDS: Final[Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {
    "produce": produce,
    "many": many,
    "catch-up": catch_up,
    "live": live,
    "pace": pace,
    "time": measure,
}


def main() -> None:
    """Run the job; a refusal goes to standard error, with exit code 1."""
    job = json.loads(sys.argv[1])
    try:
        result = KINDS[job["kind"]](job)
    except BlockingIOError:
        sys.exit(f"{job['kind']}: the broker was silent for {SILENCE_S_MAX:.0f} s")
    except (BenchRefusal, OSError) as error:
        sys.exit(f"{job['kind']}: {error}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
