"""What the shells are offered, and that their scripts work in the shells."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from broker.cli import COMMANDS, main
from broker.client.blocking import BlockingClient, TopicPartition
from broker.commands.completion import SHELLS, Candidate, candidates, script
from broker.commands.tree import AREAS
from tests.commands.conftest import ROOT

OTHERS = [("serve", "one broker"), ("up", "all on this machine")]


def words(*typed: str) -> list[str]:
    return [each.word for each in candidates(typed, OTHERS)]


def test_first_words_are_all_commands() -> None:
    offered = words("")
    assert {area.name for area in AREAS} <= set(offered)
    assert "serve" in offered
    assert words("gr") == ["groups"]
    assert words() == offered


def test_further_words_and_options() -> None:
    assert words("topics", "d") == ["describe", "delete", "delete-records"]
    assert Candidate("grow", "add partitions to a topic; keys move") in candidates(
        ["topics", "gr"], OTHERS
    )
    assert words("topics", "create", "--p") == ["--partitions"]
    assert "--json" in words("cluster", "describe", "--")
    assert "--set" not in words("topics", "create", "--set", "a=b", "--s")
    assert words("produce", "t", "--acks", "") == ["all", "1", "0"]
    assert words("produce", "t", "--acks=") == ["--acks=all", "--acks=1", "--acks=0"]
    assert words("config", "set", "") == [
        *("topic", "broker", "group", "client-metrics", "broker-logger")
    ]
    assert words("completion", "") == list(SHELLS)
    assert words("serve", "") == []
    assert words("topics", "nonsense", "") == []


def test_names_come_from_the_cluster(
    bootstrap: str, client: BlockingClient, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_BOOTSTRAP", bootstrap)
    client.create_topic(f"{topic}-b", partition_count=1, replication_factor=1)
    assert words("topics", "describe", topic[:-1]) == [topic, f"{topic}-b"]
    assert words("topics", "describe", topic, topic) == [topic, f"{topic}-b"]
    assert words("topics", "grow", topic, "") == []
    assert topic in words("consume", "-n", "5", topic[:-1])
    assert words("config", "describe", "topic", topic[:-1]) == [topic, f"{topic}-b"]
    node = str(client.describe_cluster().nodes[0].node_id)
    assert node in words("config", "describe", "broker", "")
    assert words("groups", "describe", topic) == []
    assert topic in words("groups", "reset", "g", "--topic", topic[:-1])


def test_names_that_a_shell_would_carry_out_are_not_offered(
    bootstrap: str, client: BlockingClient, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_BOOTSTRAP", bootstrap)
    where = {TopicPartition(topic, 0): 0}
    for name in (
        f"{topic}-plain",
        f"{topic}-$(reboot)",
        f"{topic}-`x`",
        f"{topic}-;x",
        f"{topic} x",
    ):
        client.set_committed_offsets(name, where)
    assert words("groups", "describe", topic) == [f"{topic}-plain"]


def test_a_cluster_that_is_not_there_offers_nothing(free_port: Callable[[], int]) -> None:
    address = f"127.0.0.1:{free_port()}"
    assert words("topics", "describe", "--bootstrap", address, "") == []
    assert words("topics", "describe", f"--bootstrap={address}", "") == []


def test_every_command_has_a_completion(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["__complete", ""]) == 0
    offered = {line.partition("\t")[0] for line in capsys.readouterr().out.splitlines()}
    assert offered == {command.name for command in COMMANDS}


BASH = """
source /dev/stdin <<'SCRIPT'
{script}SCRIPT
COMP_WORDS=(./hermes topics describe "$1"); COMP_CWORD=3; _hermes
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
ZSH = """
compdef() {{ :; }}
_describe() {{ print -rl -- ${{found[@]%%:*}} }}
_files() {{ :; }}
source /dev/stdin <<'SCRIPT'
{script}SCRIPT
words=(./hermes topics describe "$1"); CURRENT=4; _hermes
"""
FISH = """
echo '{script}' | source
complete -C "./hermes topics describe $argv[1]"
"""


@pytest.mark.apt("zsh", "fish")
@pytest.mark.parametrize(
    "command",
    [["bash", "-c", BASH, "bash"], ["zsh", "-fc", ZSH, "zsh"], ["fish", "-Nc", FISH]],
    ids=["bash", "zsh", "fish"],
)
def test_shells_complete_names_of_topics(
    environment: dict[str, str], topic: str, command: list[str]
) -> None:
    shell, option, program, *name = command
    text = script(shell)
    if shell == "fish":
        text = text.replace("'", "\\'")
    done = subprocess.run(
        [shell, option, program.format(script=text), *name, topic[:-1]],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == [topic], done.stderr
