"""Run the commands of README.md and docs/, and check the links.

A block fenced as three backticks and `bash run` is run unchanged by bash, in order, in one folder per document; it
creates its own small files. A block fenced as `python run` is run there after the Python blocks before it. In every
other shell block, `make` targets must exist, and `pststream` commands must know
their options.
"""

import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import run_here
from tests.docs.fences import Block, blocks, commands

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
PSTSTREAM = {"pststream", ".venv/bin/pststream"}
BLOCKS = [
    block for document in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] for block in blocks(document)
]
SHELL_BLOCKS = [block for block in BLOCKS if block.is_shell]
RUN_BLOCKS = [block for block in BLOCKS if block.is_run]


def place(block: Block) -> str:
    return f"{block.document.relative_to(ROOT)}:{block.line}"


def of_tool(tools: set[str], of_blocks: list[Block]) -> list[object]:
    """Make one test case for each command of these tools, with its arguments."""
    return [
        pytest.param(words[1:], id=f"{place(block)} {' '.join(words)}")
        for block in of_blocks
        for words in commands(block)
        if words[0] in tools
    ]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Path]:
    """Make a folder with .venv, like a clone, for each document with blocks to run."""
    made: dict[Path, Path] = {}
    for document in {block.document for block in RUN_BLOCKS}:
        made[document] = tmp_path_factory.mktemp(document.stem)
        (made[document] / ".venv").symlink_to(BIN.parent)
    return made


def program_of(block: Block) -> list[str]:
    """Return the program that runs a block; a Python block needs what the ones before it defined."""
    if block.is_shell:
        return ["bash", "-euo", "pipefail", "-c", block.text]
    texts = [
        other.text
        for other in RUN_BLOCKS
        if other.is_python and other.document == block.document and other.line <= block.line
    ]
    return [sys.executable, "-c", "".join(texts)]


@functools.cache
def help_of(words: tuple[str, ...]) -> str:
    """Return the output of `pststream WORDS --help`."""
    help_text = run_here(*words, "--help")
    assert help_text.code == 0, help_text.err
    return help_text.out


@functools.cache
def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


@pytest.mark.e2e
@pytest.mark.spark
@pytest.mark.parametrize("block", RUN_BLOCKS, ids=place)
@pytest.mark.slow
def test_block_runs(block: Block, folders: dict[Path, Path]) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PSTSTREAM_")}
    environment["PATH"] = f"{BIN}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        program_of(block),
        cwd=folders[block.document],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.parametrize("words", of_tool({"make"}, SHELL_BLOCKS))
def test_make_target_exists(words: list[str]) -> None:
    assert {word for word in words if "=" not in word} <= make_targets()


@pytest.mark.parametrize("words", of_tool(PSTSTREAM, [block for block in SHELL_BLOCKS if not block.is_run]))
def test_command_knows_its_options(words: list[str]) -> None:
    first_option = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    text = help_of(tuple(words[:first_option]))
    for option in (word.partition("=")[0] for word in words if word.startswith("-")):
        assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", text), f"{option} is unknown"


@pytest.mark.parametrize("document", sorted({block.document for block in SHELL_BLOCKS}), ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text("utf-8")):
        assert (document.parent / target).exists(), target
