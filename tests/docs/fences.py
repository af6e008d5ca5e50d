"""Parse the fenced blocks of Markdown documents and the commands in them."""

import shlex
from dataclasses import dataclass
from pathlib import Path

SHELLS = {"bash", "console", "sh", "shell"}


@dataclass(frozen=True)
class Block:
    """A fenced block: the words after its opening fence, its text, and its first line."""

    document: Path
    line: int
    words: tuple[str, ...]
    text: str

    @property
    def is_shell(self) -> bool:
        """Whether the block contains commands."""
        return bool(self.words) and self.words[0] in SHELLS

    @property
    def is_python(self) -> bool:
        """Whether the block contains statements of Python."""
        return bool(self.words) and self.words[0] == "python"

    @property
    def is_run(self) -> bool:
        """Whether the block is marked to be run: three backticks, `bash run` or `python run`."""
        return (self.is_shell or self.is_python) and "run" in self.words[1:]


def blocks(document: Path) -> list[Block]:
    """Return all fenced blocks of a document, in order."""
    parsed: list[Block] = []
    begun: tuple[int, tuple[str, ...]] | None = None
    text: list[str] = []
    for number, line in enumerate(document.read_text("utf-8").splitlines(), start=1):
        if not line.lstrip().startswith("```"):
            text.append(line)
        elif begun is None:
            begun, text = (number, tuple(line.strip().strip("`").split())), []
        else:
            parsed.append(Block(document, *begun, "\n".join(text) + "\n"))
            begun = None
    return parsed


def commands(block: Block) -> list[list[str]]:
    """Return the commands of a block as words, without comments, prompts, here-documents and console output."""
    parsed: list[list[str]] = []
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
        parsed += simple_commands(tokens)
    return parsed


def tokenize(line: str) -> list[str]:
    """Split a line of shell into words and operators, without its comment."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    return list(lexer)


def simple_commands(tokens: list[str]) -> list[list[str]]:
    """Split at operators; drop redirections and leading variable assignments."""
    parsed: list[list[str]] = [[]]
    redirected = False
    for token in tokens:
        if set(token) <= set(";&|()"):
            parsed.append([])
            redirected = False
        elif set(token) <= set("<>&"):
            redirected = True
            if parsed[-1] and parsed[-1][-1].isdigit():  # 2>file
                parsed[-1].pop()
        elif not redirected and (parsed[-1] or not is_assignment(token)):
            parsed[-1].append(token)
    return [words for words in parsed if words]


def is_assignment(word: str) -> bool:
    """Whether a word is an assignment: NAME=value."""
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()
