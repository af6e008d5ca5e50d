"""Add the options of the commands that remove or withdraw rows: `maintain --keep`, those of `erase`, `withdraw`."""

import argparse

from pststream.base import names
from pststream.cli.argument_types import JoinedTexts


def add_keep_option(command: argparse.ArgumentParser) -> None:
    """Add `--keep`, which overrides the setting `keep`."""
    command.add_argument(
        "--keep",
        action=JoinedTexts,
        metavar="TABLE=DAYSd",
        help="remove older rows of a table: " + ", ".join(names.KEEPABLE) + " (setting keep; repeatable)",
    )


def add_erase_options(command: argparse.ArgumentParser) -> None:
    """Add the options of `erase`."""
    for what in ("object", "subscription"):
        command.add_argument(
            f"--{what}-id", action="append", default=[], metavar="ID", help=f"id of the {what} (repeatable)"
        )
        command.add_argument(
            f"--{what}-ids", action="append", default=[], metavar="FILE", help="file with an id on each line"
        )
    command.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="SQL",
        help="condition on the columns of `objects`: erase those for which it is true (repeatable)",
    )
    command.add_argument("--dry-run", action="store_true", help="count the rows by table; change nothing")
    command.add_argument(
        "--vacuum-now",
        action="store_true",
        help="delete all older versions of the tables at once; streams that lag and readers of older versions fail",
    )


def add_withdraw_options(command: argparse.ArgumentParser) -> None:
    """Add the options of `withdraw`."""
    command.add_argument("--object-id", action="append", default=[], metavar="ID", help="with this id (repeatable)")
    command.add_argument(
        "--object-ids", action="append", default=[], metavar="FILE", help="file with an id on each line"
    )
    command.add_argument(
        "--file", action="append", default=[], metavar="PATH", help="from this ingested file (repeatable)"
    )
    command.add_argument("--from", dest="since", metavar="T", help="with a ts at T or later (ISO 8601)")
    command.add_argument("--before", dest="until", metavar="T", help="with a ts before T (ISO 8601)")
    command.add_argument("--dry-run", action="store_true", help="count the objects; change nothing")
