"""Run the commands of README.md and docs/, and check the links.

A block fenced as three backticks and `bash run` is run unchanged by bash, in order, in one folder per document; it
creates its own small files. All blocks of a document that are fenced as `python run` are run there by one Python, where
the last of them is. In every other shell block, `make` targets must exist, and `pststream` commands must know their
options.
"""

import functools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import run_here
from tests.docs.fences import Block, blocks, commands
from tests.forked_commands import BIN, forked_commands

ROOT = Path(__file__).parents[2]
PSTSTREAM = {"pststream", ".venv/bin/pststream"}
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = [block for document in DOCUMENTS for block in blocks(document)]
SHELL_BLOCKS = [block for block in BLOCKS if block.is_shell]
RUN_BLOCKS = [block for block in BLOCKS if block.is_run]
LAST_PYTHON = {block.document: block for block in RUN_BLOCKS if block.is_python}
CASES = [block for block in RUN_BLOCKS if block.is_shell or block is LAST_PYTHON[block.document]]


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
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Path, Path]]:
    """Make a folder with .venv/bin, like a clone, for each document with blocks to run."""
    made: dict[Path, Path] = {}
    with forked_commands(tmp_path_factory.mktemp("programs")) as programs:
        for document in {block.document for block in RUN_BLOCKS}:
            made[document] = tmp_path_factory.mktemp(document.stem)
            (made[document] / ".venv").mkdir()
            (made[document] / ".venv" / "bin").symlink_to(programs)
        yield made


def python_of(document: Path) -> str:
    """Return a program that runs the Python blocks of a document in order, with its lines in tracebacks."""
    texts = [
        f"exec(compile({chr(10) * block.line + block.text!r}, {str(document)!r}, 'exec'))\n"
        for block in RUN_BLOCKS
        if block.is_python and block.document == document
    ]
    return "".join(texts)


def program_of(block: Block) -> list[str]:
    """Return the program that runs a block, or for the last Python block of a document, all of them."""
    if block.is_shell:
        return ["bash", "-euo", "pipefail", "-c", block.text]
    return [sys.executable, "-c", python_of(block.document)]


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
@pytest.mark.parametrize("block", CASES, ids=place)
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


def anchors(document: Path) -> set[str]:
    """Return the anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"(?ms)^ *```.*?^ *```", "", document.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!\w+:)([^)#]*)#?([^)]*)\)", document.read_text("utf-8")):
        path = document.parent / target if target else document
        assert path.exists(), target
        assert not anchor or anchor in anchors(path), f"{target}#{anchor}"


TEXT = """# Title
```bash run
# a comment
cat > a.csv <<'END'
pststream is not a command here; nor < this
END
A=1 pststream match --json > out.json 2>&1 && make demo | tee "x;y"
pststream ingest objects a.csv \\
    --column text=a+b   # joins
```
Between.
```console
$ pststream status 2>/dev/null
lag 0 && nothing
```
```json
{"a": 1}
```
"""


def test_blocks_and_commands(tmp_path: Path) -> None:
    document = tmp_path / "a.md"
    document.write_text(TEXT, "utf-8")
    run, console, json = blocks(document)
    assert (run.line, run.is_run, console.is_run, console.is_shell, json.is_shell) == (2, True, False, True, False)
    assert commands(run) == [
        ["cat"],
        ["pststream", "match", "--json"],
        ["make", "demo"],
        ["tee", "x;y"],
        ["pststream", "ingest", "objects", "a.csv", "--column", "text=a+b"],
    ]
    assert commands(console) == [["pststream", "status"]]
