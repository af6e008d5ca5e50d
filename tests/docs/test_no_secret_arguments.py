"""No command of the documentation passes a secret as an argument: all users of a machine see those of each process."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
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
