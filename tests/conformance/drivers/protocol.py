"""What the Python drivers share: JSON lines out, records in, the order to leave."""

import json
import sys
import threading


def emit(event: str, **fields: object) -> None:
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


def emit_record(partition: int, offset: int, key: bytes | None, value: bytes | None) -> None:
    emit(
        "record",
        partition=partition,
        offset=offset,
        key=None if key is None else key.decode(),
        value=None if value is None else value.decode(),
    )


def records_from_stdin() -> list[tuple[bytes, bytes]]:
    rows = [json.loads(line) for line in sys.stdin]
    return [(row["key"].encode(), row["value"].encode()) for row in rows]


def leave_order() -> threading.Event:
    """Set when standard input ends."""
    ordered = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        ordered.set()

    threading.Thread(target=wait, daemon=True).start()
    return ordered
