"""Driver for kcat: the command line client on Debian's older librdkafka."""

import re
import subprocess
import sys
import threading

from protocol import emit, emit_record, leave_order, records_from_stdin

ASSIGNED = re.compile(rb"rebalanced .*assigned: (.*)$")
PARTITION = re.compile(rb"\[(\d+)\]")


def produce(bootstrap: str, topic: str, compression: str, acks: str) -> None:
    records = records_from_stdin()
    settings = [f"request.required.acks={acks}", "topic.partitioner=murmur2_random"]
    options = [word for setting in settings for word in ("-X", setting)]
    subprocess.run(
        ["kcat", "-P", "-b", bootstrap, "-t", topic, "-K", "\t", "-z", compression, "-q", *options],
        input=b"".join(key + b"\t" + value + b"\n" for key, value in records),
        check=True,
        timeout=40,
    )
    emit("acked", count=len(records))


def member(bootstrap: str, topic: str, group: str) -> None:
    settings = (
        "auto.offset.reset=earliest",
        "session.timeout.ms=6000",
        "heartbeat.interval.ms=500",
    )
    options = [word for setting in settings for word in ("-X", setting)]
    kcat = subprocess.Popen(
        ["kcat", "-b", bootstrap, "-G", group, "-u", "-f", "%p\t%o\t%k\t%s\n", *options, topic],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    leaving = leave_order()

    def stop_when_ordered() -> None:
        leaving.wait()
        kcat.terminate()

    threading.Thread(target=stop_when_ordered, daemon=True).start()
    threading.Thread(target=report_rebalances, args=(kcat.stderr,), daemon=True).start()
    for line in kcat.stdout:
        partition, offset, key, value = line.rstrip(b"\n").split(b"\t")
        emit_record(int(partition), int(offset), key, value)
    kcat.wait(10)
    emit("left")


def report_rebalances(lines: object) -> None:
    for line in lines:
        assigned = ASSIGNED.search(line)
        if assigned is not None:
            partitions = sorted(int(number) for number in PARTITION.findall(assigned[1]))
            emit("assigned", partitions=partitions)
        elif b"rebalanced" not in line and not line.startswith(b"% Reached"):
            sys.stderr.buffer.write(line)


{"produce": produce, "member": member}[sys.argv[1]](*sys.argv[2:])
