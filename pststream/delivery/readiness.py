"""Whether a sink could be told something, as far as that shows without telling it: for `doctor`."""

import os
from pathlib import Path
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError

from pststream.delivery.allowed_addresses import networks_of, resolve
from pststream.delivery.contract import SinkDown
from pststream.delivery.sqs_sns import aws_session
from pststream.sink_settings import PREFIX, SinkSettings


def fault_of(sink: SinkSettings) -> str:
    """What is wrong, without anything secret; empty if all looks well."""
    if not sink.target:
        return f"it has no target: set {PREFIX}{sink.name.upper()}_TARGET"
    if sink.kind == "file":
        return _file(Path(sink.target))
    return _webhook(sink) if sink.kind == "webhook" else _aws()


def _file(folder: Path) -> str:
    there = next((path for path in (folder, *folder.absolute().parents) if path.exists()), Path("/"))
    return "" if there.is_dir() and os.access(there, os.W_OK | os.X_OK) else "its folder cannot be written"


def _webhook(sink: SinkSettings) -> str:
    if not sink.secret:
        return f"it has no secret: set {PREFIX}{sink.name.upper()}_SECRET"
    parts = urlsplit(sink.target)
    try:
        resolve(parts.hostname or "", parts.port or 443, networks_of(sink.networks))
    except SinkDown as error:
        return str(error)
    return ""


def _aws() -> str:
    try:
        session = aws_session()
        if session.get_credentials() is None:
            return "no credentials in AWS's standard chain"
    except BotoCoreError as error:
        return str(error)
    return "" if session.region_name else "no region: set AWS_REGION"
