"""Render an HTML page from its Jinja2 template: every value is escaped, style and script are inside the page."""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined

from pststream.base import texts
from pststream.plans.imbalance import imbalance_text
from pststream.reports.plots.bar_chart import segment_style
from pststream.reports.plots.plan_map import worker_style

_FILTERS = (
    *(texts.byte_size, texts.clock, texts.counted, texts.duration, texts.moment, texts.percent, texts.short),
    *(texts.time_ago, texts.whole, texts.whole_or_short, imbalance_text, segment_style, worker_style),
)
_CONTROL_CHARACTERS = {code: " " for code in range(32) if chr(code) not in "\n\t"}


def render_page(template: str, forms: bool = False, scripts: Sequence[str] = ("page.js",), **values: object) -> str:
    """Render `templates/<template>` as a self-contained page.

    Style and script are part of the page. Whatever the tables contain, its content security policy allows only this
    script and no request to any address; with `forms`, forms may be sent to the server of the page. `scripts` are the
    files that the script is made of.
    Characters that HTML does not allow become spaces or question marks.
    """
    script = "".join(map(_read_file, scripts))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    form_action = "'self'" if forms else "'none'"
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none';"
        f" form-action {form_action}"
    )
    document = {"policy": policy, "style": _read_file("page.css"), "script": script}
    page = _environment().get_template(template).render(values, **document)
    return page.translate(_CONTROL_CHARACTERS).encode("utf-8", "replace").decode("utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {function.__name__: function for function in _FILTERS}
    return environment


def _read_file(name: str) -> str:
    return (files(__package__) / name).read_text("utf-8")
