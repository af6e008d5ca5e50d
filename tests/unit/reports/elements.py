"""Read a page as a browser does: start tags with their attributes, and texts."""

from html.parser import HTMLParser


class Elements(HTMLParser):
    """All start tags with their attributes, all texts, and the texts joined."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        self.text += " " if tag in ("th", "td") else ""

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of each element with a tag."""
        return [attrs for name, attrs in self.tags if name == tag]

    def of(self, class_name: str) -> list[dict[str, str | None]]:
        """Return the attributes of each element of a class."""
        return [attrs for _, attrs in self.tags if class_name in (attrs.get("class") or "").split()]
