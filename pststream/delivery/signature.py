"""Signatures of webhook requests: HMAC-SHA256 over the time and the body.

    Pststream-Signature: t=<seconds since 1970>,v1=<hexadecimal HMAC-SHA256 of "<t>.<body>">

A receiver computes the same over the bytes it got, compares in constant time, and refuses old times: a request that
was overheard cannot be sent again later.
"""

import hashlib
import hmac

HEADER = "Pststream-Signature"


def sign(secret: str, seconds: int, body: bytes) -> str:
    """The header's value."""
    digest = hmac.new(secret.encode(), b"%d." % seconds + body, hashlib.sha256).hexdigest()
    return f"t={seconds},v1={digest}"
