"""Markup that cannot be broken by what it shows: every text is escaped unless it is markup already."""

import html
from collections.abc import Iterable

_VOID = frozenset({"br", "meta", "link", "img", "hr", "col"})


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


Child = str | int | float | None | Iterable["Child"]


def escape(value: object) -> Markup:
    """`value` as markup: itself if it is markup, else its text, escaped; characters that no page may hold go."""
    if isinstance(value, Markup):
        return value
    text = str(value).encode("utf-8", "replace").decode("utf-8")
    return Markup(html.escape("".join(c if c >= " " or c in "\n\t" else " " for c in text), quote=True))


def element(tag: str, *children: Child, **attributes: object) -> Markup:
    """An element; None and False children and attributes are left out, True is an attribute without a value.

    `class_` and `for_` stand for the attributes that Python reserves; other underscores become hyphens.
    """
    parts = [f"<{tag}"]
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        name = name.rstrip("_").replace("_", "-")
        parts.append(f" {name}" if value is True else f' {name}="{escape(value)}"')
    parts.append(">")
    if tag not in _VOID:
        parts += [joined(*children), f"</{tag}>"]
    return Markup("".join(parts))


def joined(*children: Child) -> Markup:
    """Markup of the children, one after another; lists are opened up."""
    parts = []
    for child in children:
        if child is None or child is False:
            continue
        nested = not isinstance(child, str | int | float)
        parts.append(joined(*child) if nested else escape(child))  # type: ignore[misc]
    return Markup("".join(parts))
