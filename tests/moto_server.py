"""Run moto's server (AWS services for tests) with the arguments of `moto.server`, but find the service of a host once.

For each request moto looks through the folders of its 200 services, a third of the time of a small request to S3.
"""

import logging
from functools import lru_cache

from moto.moto_server.werkzeug_app import DomainDispatcherApplication as Application
from moto.server import main

if __name__ == "__main__":
    Application.get_backend_for_host = lru_cache(Application.get_backend_for_host)  # type: ignore[method-assign]
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # instead of a line for each request, which nobody reads
    main()
