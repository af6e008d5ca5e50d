"""Fenced blocks of Markdown, and the commands in them."""

import shlex
from dataclasses import dataclass
from pathlib import Path

SHELLS = {"bash", "console", "sh", "shell"}


@dataclass(frozen=True)
class Block:
    """A fenced block: the words behind its opening fence, its text, and where it begins."""

    document: Path
    line: int
    words: tuple[str, ...]
    text: str

    @property
    def is_shell(self) -> bool:
        """Whether it holds commands."""
        return bool(self.words) and self.words[0] in SHELLS

    @property
    def is_run(self) -> bool:
        """Whether it is marked to be run: three backticks, `bash run`."""
        return self.is_shell and "run" in self.words[1:]


def blocks(document: Path) -> list[Block]:
    """All fenced blocks of a document, in order."""
    found: list[Block] = []
    begun: tuple[int, tuple[str, ...]] | None = None
    text: list[str] = []
    for number, line in enumerate(document.read_text("utf-8").splitlines(), start=1):
        if not line.lstrip().startswith("```"):
            text.append(line)
        elif begun is None:
            begun, text = (number, tuple(line.strip().strip("`").split())), []
        else:
            found.append(Block(document, *begun, "\n".join(text) + "\n"))
            begun = None
    return found


def commands(block: Block) -> list[list[str]]:
    """The commands of a block as words; no comments, prompts, here-documents, nor what a console printed."""
    found: list[list[str]] = []
    document_ends = ""
    for line in block.text.replace("\\\n", " ").splitlines():
        if document_ends:
            document_ends = "" if line.strip() == document_ends else document_ends
            continue
        if block.words[0] == "console":
            if not line.startswith("$ "):
                continue
            line = line.removeprefix("$ ")
        tokens = tokenize(line)
        if "<<" in tokens:
            document_ends = tokens[tokens.index("<<") + 1]
        found += simple_commands(tokens)
    return found


def tokenize(line: str) -> list[str]:
    """Words and operators of a line of shell, without its comment."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    return list(lexer)


def simple_commands(tokens: list[str]) -> list[list[str]]:
    """The commands that operators join, each without redirections and without variables set in front."""
    found: list[list[str]] = [[]]
    redirected = False
    for token in tokens:
        if set(token) <= set(";&|()"):
            found.append([])
            redirected = False
        elif set(token) <= set("<>&"):
            redirected = True
            if found[-1] and found[-1][-1].isdigit():  # 2>file
                found[-1].pop()
        elif not redirected and (found[-1] or not is_assignment(token)):
            found[-1].append(token)
    return [words for words in found if words]


def is_assignment(word: str) -> bool:
    """Whether a word sets a variable: NAME=value."""
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()
