"""Commands in fenced blocks are parsed as a reader would read them."""

from pathlib import Path

from tests.docs.fences import blocks, commands

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
