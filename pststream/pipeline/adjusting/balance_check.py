"""Whether the workers are in balance, as `balance local` would see it: read from the ledgers, nothing computed."""

from typing import Any

from pststream.pipeline.adjusting.measured_loads import measured_balance, out_of_balance
from pststream.settings import Settings
from pststream.state.home import Home
from pststream.state.plans import current_version


def check_balance(home: Home, settings: Settings) -> dict[str, Any]:
    """The measured imbalance of the plan in force, and whether it violates `sigma`.

    plan_version is 0, and nothing measured, where there is no plan yet.
    """
    home.check()
    version = current_version(home)
    if version == 0:
        return {"plan_version": 0, "batches": 0, "measured_imbalance": 1.0, "sigma": settings.sigma, "violated": False}
    measured = measured_balance(home, version, settings.balance_batches)
    return {
        "plan_version": version,
        "batches": measured.batches,
        "measured_imbalance": round(measured.imbalance, 4),
        "sigma": settings.sigma,
        "violated": out_of_balance(measured, settings),
    }
