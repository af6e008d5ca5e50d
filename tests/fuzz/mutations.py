"""Mutate valid bytes: flip, cut, insert, repeat, change the encoding."""

import random
from collections.abc import Callable, Sequence

TOKENS: Sequence[bytes] = (
    *(b"\x00", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\x1a"),
    *(b"\n", b"\r", b"\r\n", b"\n\n", b"\x0b", b"\x0c", b"\xc2\x85", b"\xe2\x80\xa8", b"\t", b" "),
    *(b'"', b'""', b"'", b",", b";", b"{", b"}", b"[", b"]", b":", b"\\", b"\\u", b"\\ud800", b"\\u0000"),
    *(b"NaN", b"-Infinity", b"1e999", b"-0", b"0x10", b"1" * 400, b"null", b"true", b"9223372036854775808"),
    *(b"{}", b"[]", b'{"a":' * 40, b"[" * 2000, b"(" * 300, b"a" * 5000, b"=1+1", b"../../x", b"\xf0\x9f\x92\xa9"),
    *(b"2026-02-30T00:00:00Z", b"0000-01-01", b"9999-12-31T23:59:59.999999-14:00", b"PAR1", b"\x1f\x8b"),
)


def mutated(rnd: random.Random, content: bytes) -> bytes:
    """Apply one to five mutations to the content."""
    for _ in range(rnd.choice((1, 1, 1, 2, 3, 5))):
        content = rnd.choice(_MUTATIONS)(rnd, content)
    return content


def _span(rnd: random.Random, content: bytes) -> tuple[int, int]:
    low = rnd.randint(0, len(content))
    return low, min(len(content), low + rnd.choice((1, 1, 2, 8, 64, 1000)))


def _flip(rnd: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(min(len(content), rnd.choice((1, 1, 2, 16)))):
        changed[rnd.randrange(len(content))] ^= 1 << rnd.randrange(8)
    return bytes(changed)


def _set(rnd: random.Random, content: bytes) -> bytes:
    low, high = _span(rnd, content)
    return content[:low] + bytes([rnd.choice((0, 1, 0x7F, 0x80, 0xFF))]) * (high - low) + content[high:]


def _cut_out(rnd: random.Random, content: bytes) -> bytes:
    low, high = _span(rnd, content)
    return content[:low] + content[high:]


def _cut_short(rnd: random.Random, content: bytes) -> bytes:
    return content[: rnd.randint(0, len(content))]


def _repeat(rnd: random.Random, content: bytes) -> bytes:
    low, high = _span(rnd, content)
    return content[:high] + content[low:high] * rnd.choice((1, 1, 3, 50)) + content[high:]


def _insert(rnd: random.Random, content: bytes) -> bytes:
    at = rnd.randint(0, len(content))
    return content[:at] + rnd.choice(TOKENS) + content[at:]


def _noise(rnd: random.Random, content: bytes) -> bytes:
    at = rnd.randint(0, len(content))
    return content[:at] + rnd.randbytes(rnd.choice((1, 4, 40))) + content[at:]


def _encoded(rnd: random.Random, content: bytes) -> bytes:
    """Change the encoding of the text, or of a part of it."""
    low, high = _span(rnd, content) if rnd.randrange(2) else (0, len(content))
    text = content[low:high].decode("utf-8", "replace")
    return (
        content[:low] + text.encode(rnd.choice(("utf-16", "utf-16-be", "cp1252", "utf-7")), "replace") + content[high:]
    )


_MUTATIONS: Sequence[Callable[[random.Random, bytes], bytes]] = (
    *(_flip, _flip, _set, _cut_out, _cut_short, _repeat, _insert, _insert, _insert, _noise, _encoded),
)
