"""Let tests see the entries that they add to registries: the parser of commands, built once, lists some of them."""

from collections.abc import Iterator

import pytest

from pststream.cli.arguments import build_parser


@pytest.fixture(autouse=True)
def _new_parser() -> Iterator[None]:
    build_parser.cache_clear()
    yield
    build_parser.cache_clear()
