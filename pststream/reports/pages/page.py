"""Define the pages with which the Airflow plugin answers requests: text, type and HTTP status."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Page:
    """A page, its HTTP status and its type: 200; 404 for an unknown home or id; 503 if tables cannot be read."""

    status: int
    text: str
    type: str = "text/html; charset=utf-8"
