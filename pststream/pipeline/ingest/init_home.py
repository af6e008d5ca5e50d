"""Make a home with its tables, its settings and the suites that the daily check judges by."""

from pststream.input.suite_files import write_default_suites
from pststream.settings import Settings
from pststream.state.home import Home


def init_home(home: Home, settings: Settings) -> bool:
    """Make a home if it does not exist; return whether it is new. May run again after a crash."""
    is_new = home.init(settings.answer_buckets)
    if is_new:
        write_default_suites(home.files)
    return is_new
