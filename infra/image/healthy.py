"""Check the health of a container: that a server answers, and that a component of Airflow is healthy.

    healthy.py URL [COMPONENT]      COMPONENT: its name in the answer of Airflow's API server, e.g. triggerer

Does not import Airflow, as `airflow jobs check` does, which takes seconds. Exit codes: 0 healthy; 1 not healthy.
"""

import json
import sys
import urllib.request


def main(url: str, component: str | None = None) -> int:
    """Check the health; return the exit code."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=5) as response:
            answer = response.read()
        if component and (status := json.loads(answer)[component]["status"]) != "healthy":
            raise ValueError(f"{component} is {status}")
    except (OSError, ValueError, KeyError) as error:
        print(f"{url}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
