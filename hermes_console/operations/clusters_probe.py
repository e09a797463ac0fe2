"""What answers at an address, in words: nothing, TLS, HTTP, another protocol, Kafka.

A plain socket with a deadline asks for the API versions and looks at the first bytes of the answer;
only the permitted, once resolved address is connected to.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import time
from typing import Final, NamedTuple

from hermes_console.errors import Refused
from hermes_console.reach import NotPermitted, Policy

PROBE_S_MAX: Final = 4.0
PROBES_MAX: Final = 8
"""Bootstrap addresses of a cluster; more are refused."""
ANSWER_BYTES_MAX: Final = 64 * 1024
CORRELATION_ID: Final = 0x48454D51
TLS_ALERT: Final = b"\x15\x03"
API_VERSIONS: Final = 18
CLIENT_ID: Final = b"hermes-console"


class Probe(NamedTuple):
    """`problem` is "" when Kafka's protocol answers; else `code` and a sentence say what does."""

    address: str
    code: str
    problem: str


def probe(address: str, policy: Policy | None) -> Probe:
    """What answers at "host:port". Returns within about twice PROBE_S_MAX, whatever does."""
    host, _, port_text = address.rpartition(":")
    host = host.strip("[]")
    try:
        ips = _resolve(host, int(port_text), policy)
    except NotPermitted as refusal:
        return Probe(address, "not-permitted", f"{str(refusal)[:1].upper()}{str(refusal)[1:]}.")
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return Probe(
            address,
            "unknown-host",
            f"The name {host} cannot be resolved ({reason}). Check its spelling, and that this "
            "machine's name service knows it.",
        )
    found = Probe(address, "unreachable", f"{host} has no address.")
    for ip in ips:
        found = _probe_one(address, ip, int(port_text))
        if not found.problem:
            return found
    return found


def probe_permission(address: str, policy: Policy) -> str:
    """Why the console would not connect there, as the end of a sentence; "" when it would, or when
    the name cannot be resolved.
    """
    host, _, port_text = address.rpartition(":")
    try:
        _resolve(host.strip("[]"), int(port_text), policy)
    except NotPermitted as refusal:
        return str(refusal)
    except (OSError, UnicodeError):
        return ""
    return ""


def _probe_one(address: str, ip: str, port: int) -> Probe:
    deadline = time.monotonic() + PROBE_S_MAX
    try:
        connected = socket.create_connection((ip, port), PROBE_S_MAX)
    except TimeoutError:
        return Probe(
            address,
            "never-answers",
            f"Nothing answers at {address} within {PROBE_S_MAX:.0f} seconds. Check the address, "
            "and that no firewall drops packets on the way.",
        )
    except OSError as error:
        return Probe(
            address,
            "unreachable",
            f"Cannot connect to {address}: {error.strerror or error}. Check that the broker runs "
            "and listens there.",
        )
    with connected:
        try:
            connected.sendall(api_versions_request())
            answer = _read(connected, deadline)
        except OSError:
            answer = b""
        is_silent = not answer and time.monotonic() >= deadline
    return _judge(address, ip, port, answer, is_silent=is_silent)


def _judge(address: str, ip: str, port: int, answer: bytes, *, is_silent: bool) -> Probe:
    if is_kafka_answer(answer):
        return Probe(address, "kafka", "")
    if answer.startswith(TLS_ALERT) or _speaks_tls(ip, port):
        return Probe(
            address,
            "tls",
            f"{address} expects TLS, which the console does not speak yet. Use the address of a "
            "plain-text listener.",
        )
    if answer.startswith(b"HTTP/"):
        return Probe(
            address,
            "not-kafka",
            f"{address} answers in HTTP: it is a web service, not Kafka's port. A broker's port is "
            "mostly 9092.",
        )
    if is_silent:
        return Probe(
            address,
            "never-answers",
            f"{address} takes the connection but does not answer within {PROBE_S_MAX:.0f} seconds. "
            "Check that it is Kafka's port and that the broker is not overloaded.",
        )
    if not answer:
        return Probe(
            address,
            "not-kafka",
            f"{address} closes the connection without an answer: it does not speak Kafka's "
            "protocol, or wants a sign-in (SASL) first, which the console does not speak yet.",
        )
    return Probe(
        address,
        "not-kafka",
        f"{address} does not speak Kafka's protocol. A broker's port is mostly 9092.",
    )


def api_versions_request() -> bytes:
    """ApiVersions v0: size, API key, version, correlation id, client id."""
    header = struct.pack(">hhih", API_VERSIONS, 0, CORRELATION_ID, len(CLIENT_ID)) + CLIENT_ID
    return struct.pack(">i", len(header)) + header


def is_kafka_answer(answer: bytes) -> bool:
    """Whether these first bytes are those of an answer to our ApiVersions: a plausible size, then
    our correlation id.
    """
    if len(answer) < 10:
        return False
    size, correlation_id, error_code = struct.unpack_from(">iih", answer)
    return bool(
        10 <= size <= ANSWER_BYTES_MAX and correlation_id == CORRELATION_ID and error_code == 0
    )


def read_addresses(text: str) -> list[str]:
    """ "host:port[,host:port…]" as a list. Raises Refused that names the bad one."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise _bad("It is empty")
    if len(parts) > PROBES_MAX:
        raise _bad(f"It names {len(parts)} addresses; {PROBES_MAX} are enough to find a cluster")
    for part in parts:
        host, separator, port = part.rpartition(":")
        plain = host.strip("[]")
        is_named = (
            bool(plain)
            and len(plain) <= 253
            and plain.isascii()
            and all(letter.isalnum() or letter in "-._:%" for letter in plain)
        )
        is_port = port.isascii() and port.isdecimal() and len(port) <= 5 and 0 < int(port) < 65536
        if not separator or not is_named or not is_port:
            raise _bad(f"{part[:80]!r} is no host:port")
        if ":" in plain and not (host.startswith("[") and host.endswith("]")):
            raise _bad(f"{part[:80]!r}: write an IPv6 address in brackets, as in [::1]:9092")
    return parts


def _bad(problem: str) -> Refused:
    return Refused(
        422,
        "bad-address",
        f"{problem}. Write host:port, several joined by commas, as in kafka-1:9092,kafka-2:9092.",
    )


def _resolve(host: str, port: int, policy: Policy | None) -> list[str]:
    """Raises OSError (NotPermitted is one)."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    ips = list(dict.fromkeys(str(row[4][0]) for row in found))
    if policy is not None:
        for ip in ips:
            policy.permit(host, ip, port)
    return ips[:2]


def _read(connected: socket.socket, deadline: float) -> bytes:
    """The first bytes of the answer; b"" when it is closed or nothing comes in time."""
    answer = b""
    while len(answer) < 10:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            break
        connected.settimeout(left_s)
        try:
            chunk = connected.recv(4_096)
        except TimeoutError:
            break
        if not chunk:
            break
        answer += chunk
    return answer


def _speaks_tls(ip: str, port: int) -> bool:
    """Whether a TLS handshake gets an answer in TLS; nothing is sent over it."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with contextlib.suppress(OSError), socket.create_connection((ip, port), PROBE_S_MAX) as plain:
        plain.settimeout(PROBE_S_MAX / 2)
        try:
            context.wrap_socket(plain).close()
        except ssl.SSLError as error:
            return "ALERT" in (error.reason or "")
        return True
    return False
