"""Return the measured imbalance of the workers, and whether it violates `sigma`, for `pststream balance check`.

Reads the ledgers of the last batches and changes nothing.
"""

from typing import Any

from pststream.pipeline.replan.measured_loads import is_out_of_balance, measure_loads
from pststream.plans.imbalance import finite_imbalance
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.state.plans import current_version


def check_balance(home: Home, settings: Settings) -> dict[str, Any]:
    """Return the measured imbalance of the plan in force, and whether it violates `sigma` as for `balance local`.

    The imbalance is None while a worker is idle. Without a plan, plan_version is 0 and nothing is measured.
    """
    home.check()
    version = current_version(home)
    if version == 0:
        return {"plan_version": 0, "batches": 0, "measured_imbalance": 1.0, "sigma": settings.sigma, "violated": False}
    measured = measure_loads(home, version, settings.balance_batches)
    return {
        "plan_version": version,
        "batches": measured.batches,
        "measured_imbalance": finite_imbalance(measured.imbalance),
        "sigma": settings.sigma,
        "violated": is_out_of_balance(measured, settings),
    }
