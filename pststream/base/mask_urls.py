"""Mask the parts of URLs that may be secret, before a text is printed, logged or stored."""

import re

MASK = "***"
_SEPARATOR = "://"


def mask_urls(text: str) -> str:
    """Return a text with each URL in it as by `mask_url`. Takes a time linear in the text."""
    return re.sub(r"\S+", lambda word: mask_url(word[0]) if "/" in word[0] else word[0], text)


def mask_url(url: str) -> str:
    """Return a URL, or the path of one, with user, password, query and fragment as `***`; the rest of it unchanged.

    What follows the scheme is masked as a whole where the end of a password cannot be seen.
    """
    scheme, separator, rest = url.partition(_SEPARATOR)
    if not separator:
        return _without_query(url)
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    path = rest[len(authority) :]
    if "@" in path or _SEPARATOR in rest:
        return f"{scheme}{separator}{MASK}"
    user, _, host = authority.rpartition("@")
    return f"{scheme}{separator}{MASK + '@' if user else ''}{host}{_without_query(path)}"


def _without_query(text: str) -> str:
    mark = re.search("[?#].", text)
    return text[: mark.start() + 1] + MASK if mark else text
