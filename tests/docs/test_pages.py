"""Pages of the documentation: generated parts are up to date, named paths exist, no command passes a secret."""

import re
from pathlib import Path

import pytest

from benchmarks.results_page import render
from infra.generate_docs import generated_pages


def test_generated_pages_are_up_to_date() -> None:
    stale = [path.name for path, text in generated_pages().items() if path.read_text("utf-8") != text]
    assert stale == [], "run: make docs"


def test_targets_are_met_by_every_seed_or_missed() -> None:
    documents = {
        f"kernel-{seed}.json": {
            "name": "kernel", "seed": seed, "seconds": 1.0, "figures": {"a": seed, "b": 2},
            "targets": {"a": {"target": 3, "met": seed > 1}, "b": {"target": 1, "met": True}},
        }
        for seed in (1, 2)
    }  # fmt: skip
    page = render(documents)
    assert "|`kernel`|`a`|3|1.5 (1 to 2)|**missed**|" in page
    assert "|`kernel`|`b`|1|2|met|" in page
    assert "|`kernel`|seed [1](kernel-1.json), [2](kernel-2.json)|1|1|1|" in page


ROOT = Path(__file__).parents[2]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
PATH = re.compile(r"`((?:pststream|benchmarks|tests|dags|jobs|infra)/[\w./-]*\w)/?`")


def test_paths_are_recognised() -> None:
    text = "`pststream/state/home.py`, `tests/docs/` and `tests/old.py`, not `a/b`, `objects/`, `s3://bucket/x`."
    assert PATH.findall(text) == ["pststream/state/home.py", "tests/docs", "tests/old.py"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_named_paths_exist(document: Path) -> None:
    assert [path for path in PATH.findall(document.read_text("utf-8")) if not (ROOT / path).exists()] == []


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "infra").rglob("*.yaml"))]
SECRET_ARGUMENT = re.compile(
    r"--from-literal|--conn-password|--conn-extra|--conn-uri|--conn-json|variables set \S*secret"
    r"|(?:-H|--header)[ =]['\"]?(?:Authorization|X-Api-Key)|(?:^|\s)(?:curl|wget)\b.*\s-u\s"
    r"|--(?:\w+-)*(?:password|secret|token)[ =](?!\$?\()[^\s|`]",
    re.IGNORECASE | re.MULTILINE,
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_command_has_a_secret_as_argument(page: Path) -> None:
    commands = page.read_text("utf-8").replace("\\\n", " ")
    assert SECRET_ARGUMENT.findall(commands) == []


@pytest.mark.parametrize(
    "command",
    [
        "kubectl create secret generic x --from-literal=a=b", "airflow connections add x --conn-password s",
        'curl -H "Authorization: Bearer $TOKEN" http://h', "curl -s -u user:word http://h", "tool --api-token=word",
    ],
)  # fmt: skip
def test_such_a_command_would_be_noticed(command: str) -> None:
    assert SECRET_ARGUMENT.search(command)
