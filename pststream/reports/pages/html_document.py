"""A self-contained page: its style and its one script inside, nothing to fetch, nothing else allowed to run."""

import base64
import hashlib
from importlib.resources import files

from pststream.reports.plots.html import Child, Markup, element


def whole_page(title: str, *body: Child, forms: bool = False) -> str:
    """The page as text; with `forms`, these may be sent to where the page came from."""
    style = Markup((files(__package__) / "page.css").read_text("utf-8"))
    script = Markup((files(__package__) / "page.js").read_text("utf-8"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    target = "'self'" if forms else "'none'"
    # Only this script may run and nothing may be fetched, whatever the tables hold.
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none';"
        f" form-action {target}"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        element("style", style),
    )
    tip = element("div", id="tip", hidden=True, role="status")
    return "<!doctype html>\n" + element(
        "html", head, element("body", *body, tip, element("script", script)), lang="en"
    )
