"""Health check of a container: does a server answer, and is a component of Airflow healthy?

    healthy.py URL [COMPONENT]      COMPONENT: as the answer of Airflow's API server names it, e.g. triggerer

Costs no start of Airflow, as `airflow jobs check` would. Exit codes: 0 healthy; 1 not.
"""

import json
import sys
import urllib.request


def main(url: str, component: str | None = None) -> int:
    """Ask, and tell by the exit code."""
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
