"""Check that a watcher is alive: it has rewritten `watch.json` in the folder PSTSTREAM_HOME in the last 30 seconds.

Imports nothing of the project, so that a probe costs little. Exit codes: 0 alive; 1 not.
"""

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

SECONDS = 30.0


def main() -> int:
    """Check the heartbeat; return the exit code."""
    file = Path(os.environ["PSTSTREAM_HOME"]) / "watch.json"
    try:
        heartbeat = json.loads(file.read_text("utf-8"))
        silent = (datetime.now(UTC) - datetime.fromisoformat(heartbeat["at"])).total_seconds()
        state = heartbeat["state"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"{file}: {error!r}", file=sys.stderr)
        return 1
    if silent > SECONDS or state in ("stopped", "failed"):
        print(f"the watcher is {state}, last heard of {silent:.0f} s ago", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
