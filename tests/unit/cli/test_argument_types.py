"""Arguments are read as their options say, and a repeated option keeps all of its values."""

import argparse

import pytest

from pststream.cli.command import JoinedTexts


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], None),
        ([""], ""),
        (["objects=9d"], "objects=9d"),
        (["objects=9d", "matches=9d,rejects=2d"], "objects=9d,matches=9d,rejects=2d"),
        (["", "objects=9d"], "objects=9d"),
    ],
)
def test_values_of_a_repeated_option_are_joined(given: list[str], expected: str | None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--keep", action=JoinedTexts)
    arguments = [word for value in given for word in ("--keep", value)]
    assert parser.parse_args(arguments).keep == expected
