"""The repository's own rules, as tests: sizes, complete tables, pages that follow from the code."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.cli import COMMANDS
from broker.server.dispatch import HANDLERS
from broker.verify.reference import PAGES
from broker.verify.stages import STAGES, paths
from broker.wire.api import APIS, CLIENT_APIS

ROOT = Path(__file__).resolve().parent.parent
MODULE_LINES_MAX = 600
FUNCTION_LINES_MAX = 50
PACKAGES = ("broker", "hermes_console", "tenants")
DOCUMENTS = ("*.md", "broker/*.md", "docs/**/*.md", "tests/**/*.md")


def tracked_files() -> list[Path]:
    """Every file that git knows or would add, without what it ignores."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    names = listed.stdout.decode().split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


FILES = tracked_files()
MODULES = [path for path in FILES if path.suffix == ".py"]
PRODUCT_MODULES = [path for path in MODULES if path.relative_to(ROOT).parts[0] in PACKAGES]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def documents() -> Iterator[Path]:
    known = set(FILES)
    for pattern in DOCUMENTS:
        yield from (path for path in sorted(ROOT.glob(pattern)) if path in known)


# --- shape


def test_no_module_is_longer_than_a_reader_can_hold() -> None:
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in MODULES}
    assert {name: n for name, n in lengths.items() if n > MODULE_LINES_MAX} == {}


def test_every_function_fits_a_screen() -> None:
    long = [
        f"{name_of(path)}:{node.lineno} {node.name} has {length} lines"
        for path in PRODUCT_MODULES
        if "migrations" not in path.parts
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := _code_lines(node)) > FUNCTION_LINES_MAX
    ]
    assert long == []


def _code_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function's body without its docstring: a contract may be as long as it needs."""
    statements = node.body[1:] if ast.get_docstring(node) is not None else node.body
    if not statements:
        return 0
    last = statements[-1].end_lineno
    assert last is not None
    return last - statements[0].lineno + 1


def test_every_module_says_what_it_is() -> None:
    silent = [
        name_of(path)
        for path in PRODUCT_MODULES
        if "migrations" not in path.parts
        and path.read_text().strip()
        and ast.get_docstring(ast.parse(path.read_text())) is None
    ]
    assert silent == []


def test_names_promise_something() -> None:
    """`utils`, `helpers` and their like say nothing about what is inside."""
    empty = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "data", "info"}
    assert [name_of(path) for path in PRODUCT_MODULES if path.stem in empty] == []


def test_the_top_level_holds_only_what_was_agreed() -> None:
    allowed = {
        *("manage.py", "pyproject.toml", "hermes_console", "broker", "tenants", "templates"),
        *("static", "tests", "docker", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE"),
        *("docs", "hermes", "requirements.lock", "requirements-dev.lock"),
    }
    present = {path.relative_to(ROOT).parts[0] for path in FILES}
    assert {name for name in present if not name.startswith(".")} <= allowed


def test_the_repository_speaks_of_the_product_alone() -> None:
    """No path of somebody's machine, no package index, no conversation that led here."""
    words = [
        *("/wo" + "rk/", "/ro" + "ot/", "/ho" + "me/", "pypi" + ".org", "registry" + ".npmjs"),
        *(
            "sha" + "red/",
            "TO" + "DO",
            "FIX" + "ME",
            "XX" + "X",
            "as an " + "AI",
            "lan" + "guage model",
        ),
    ]
    found = [
        f"{name_of(path)}: {word}"
        for path in FILES
        if path.suffix in {".py", ".md", ".toml", ".html", ".css", ".sh", ".yaml", ".yml", ".lock"}
        or path.name in {"hermes", "run"}
        for word in words
        if word in path.read_text(errors="replace")
    ]
    assert found == []


def test_every_test_file_has_a_test_and_mirrors_something() -> None:
    """tests/<package>/ belongs to broker/<package>/ or is one of the places for whole programs."""
    elsewhere = {name for stage in STAGES for name in stage.directories} | {"support", "benchmarks"}
    known = elsewhere | {path.name for path in (ROOT / "broker").iterdir() if path.is_dir()}
    directories = {
        path.relative_to(ROOT).parts[1]
        for path in MODULES
        if path.is_relative_to(ROOT / "tests") and len(path.relative_to(ROOT).parts) > 2
    }
    assert directories <= known
    empty = [
        name_of(path)
        for path in MODULES
        if path.is_relative_to(ROOT / "tests")
        and path.name.startswith("test_")
        and "def test_" not in path.read_text()
        and "TestCase" not in path.read_text()
    ]
    assert empty == []


def test_every_stage_of_the_test_command_has_tests() -> None:
    assert [stage.name for stage in STAGES if not paths(stage)] == []


# --- tables


def test_every_api_has_both_messages_and_a_handler() -> None:
    handled = {row.api_key for row in HANDLERS}
    assert handled == set(APIS)
    assert len(HANDLERS) == len(handled)
    for api in APIS.values():
        assert api.request_type.__name__ == f"{api.name}Request"
        assert api.response_type.__name__ == f"{api.name}Response"
        assert api.min_version <= api.max_version


def test_every_message_and_handler_file_is_in_its_table() -> None:
    messages = {path.stem for path in (ROOT / "broker/wire/messages").glob("*.py")}
    declared = {api.request_type.__module__.rpartition(".")[2] for api in CLIENT_APIS.values()}
    assert messages - {"__init__"} == declared
    handlers = {path.stem for path in (ROOT / "broker/server/handlers").glob("*.py")}
    assert handlers - {"__init__"} == {row.handle.__module__.rpartition(".")[2] for row in HANDLERS}


# --- documents


@pytest.mark.parametrize("name", PAGES)
def test_reference_page_follows_from_its_table(name: str) -> None:
    written = ROOT / "docs" / "reference" / name
    assert written.is_file(), "run ./hermes docs"
    assert written.read_text(encoding="utf-8") == PAGES[name](), "run ./hermes docs"


@pytest.mark.parametrize("document", list(documents()), ids=name_of)
def test_every_link_leads_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text(encoding="utf-8"))
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", list(documents()), ids=name_of)
def test_every_command_in_a_document_exists(document: Path) -> None:
    known = {command.name for command in COMMANDS}
    used = set(re.findall(r"(?:\./|`)hermes ([a-z]+)", document.read_text(encoding="utf-8")))
    assert used <= known


def test_the_readme_opens_with_what_it_is_one_picture_and_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.count("![") == 1
    first = re.search(r"```sh\n(.*?)```", text, re.DOTALL)
    assert first is not None
    assert first[1].splitlines() == ["./hermes up --demo", "./hermes test"]


def test_every_decision_is_in_the_index_and_says_what_would_change_our_mind() -> None:
    directory = ROOT / "docs" / "decisions"
    index = (directory / "README.md").read_text(encoding="utf-8")
    records = sorted(path for path in directory.glob("*.md") if path.name != "README.md")
    assert [int(path.name[:3]) for path in records] == list(range(1, len(records) + 1))
    for path in records:
        assert f"({path.name})" in index
        headings = re.findall(r"^## (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert headings == ["Context", "Decision", "Cost", "What would change our mind"]


def test_contributing_names_places_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    places = re.findall(r"`((?:broker|hermes_console|tests|docs|templates)/[^`<{]*)`", text)
    assert places
    assert [place for place in places if not (ROOT / place).exists()] == []


# --- locks and packaging


def test_the_tools_lock_contains_the_products_lock() -> None:
    product, tools = (
        set(re.findall(r"^[A-Za-z0-9_.\[\]-]+==\S+", (ROOT / name).read_text(), re.MULTILINE))
        for name in ("requirements.lock", "requirements-dev.lock")
    )
    assert product
    assert product - tools == set()


def test_every_locked_package_has_hashes_and_no_address() -> None:
    for name in ("requirements.lock", "requirements-dev.lock"):
        text = (ROOT / name).read_text()
        blocks = re.split(r"\n(?=[A-Za-z0-9])", text)
        assert [block.splitlines()[0] for block in blocks if "--hash=sha256:" not in block] == []
        assert "://" not in text


def test_every_dependency_of_the_project_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = {
        name.lower().replace("_", "-")
        for name in re.findall(
            r"^([A-Za-z0-9_.-]+)(?:\[.*?\])?==", (ROOT / "requirements.lock").read_text(), re.M
        )
    }
    wanted = {
        re.split(r"[\[<>=]", dependency)[0].lower().replace("_", "-")
        for dependency in project["dependencies"]
    }
    assert wanted <= locked


@pytest.mark.parametrize("script", ["hermes", ".ci/run"])
def test_shell_scripts_are_executable_and_parse(script: str) -> None:
    path = ROOT / script
    assert path.stat().st_mode & 0o111
    assert path.read_text().startswith("#!/bin/sh\n")
    subprocess.run(["sh", "-n", str(path)], check=True)
