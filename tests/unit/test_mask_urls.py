"""No user, password, query or fragment of a URL is left in a text; everything else is."""

import pytest

from pststream.base.texts import mask_url, mask_urls

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("http://127.0.0.1:9000", "http://127.0.0.1:9000"),
        ("https://h/a/b", "https://h/a/b"),
        ("http://s3cr3t@h/", "http://***@h/"),
        ("http://user:s3cr3t@h:9000/a", "http://***@h:9000/a"),
        ("http://user:@h", "http://***@h"),
        ("http://user:s3c@r3t@h", "http://***@h"),
        ("http://[::1]:80/?token=s3cr3t", "http://[::1]:80/?***"),
        ("https://h/hook?token=s3cr3t#s3cr3t", "https://h/hook?***"),
        ("https://h#s3cr3t", "https://h#***"),
        ("https://h/?", "https://h/?"),
        ("https://h/?a=s3cr3t@s3cr3t", "https://***"),
        ("http://user:s3/cr3t@h", "http://***"),
        ("http://user:s3?cr3t@h", "http://***"),
        ("http://h,http://user:s3cr3t@h", "http://***"),
        ("/api/v1?key=s3cr3t", "/api/v1?***"),
        ("s3://key:s3cr3t@bucket/prefix", "s3://***@bucket/prefix"),
        ("", ""),
    ],
)
def test_a_url(url: str, masked: str) -> None:
    assert mask_url(url) == masked
    assert mask_urls(url) == masked


def test_urls_in_a_sentence() -> None:
    text = (
        "401 Error: (url: http://user:s3cr3t@h/a), 'https://h/x?t=s3cr3t': retries with url: /api?key=s3cr3t (why?)\n"
        "is this / that? 3/4 of http://h/path  and a@b.example"
    )
    masked = mask_urls(text)
    assert SECRET not in masked
    assert masked.endswith("is this / that? 3/4 of http://h/path  and a@b.example")
    assert "http://***@h/a)" in masked and "(why?)" in masked
