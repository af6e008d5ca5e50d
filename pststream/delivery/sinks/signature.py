"""Compute the signature header of a webhook request: HMAC-SHA256 over the time and the body.

    Pststream-Signature: t=<seconds since 1970>,v1=<hexadecimal HMAC-SHA256 of "<t>.<body>">

A receiver computes the same over the received bytes, compares in constant time, and refuses old times: an intercepted
request cannot be sent again later.
"""

import hashlib
import hmac

HEADER = "Pststream-Signature"


def sign(secret: str, seconds: int, body: bytes) -> str:
    """Return the header's value."""
    digest = hmac.new(secret.encode(), b"%d." % seconds + body, hashlib.sha256).hexdigest()
    return f"t={seconds},v1={digest}"
