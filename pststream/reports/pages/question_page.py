"""Render the page of a question: its form, a map to draw it on, its answer."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from pststream.queries.kinds.registry import QUESTION_KINDS
from pststream.reports.pages.answer_section import AnsweredQuestion, draw_places, prepare_answer
from pststream.reports.pages.plan_sections import CITIES, LegendItem, sampled
from pststream.reports.pages.render_page import render_page

LONGEST_VALUE = 50_000
"""Characters of a field of the form: a polygon of 1,000 corners has about 20,000."""


class FormField(NamedTuple):
    """A field of the form; `usual` is the value that the script fills in, `kinds` are those that have the field."""

    name: str
    label: str
    hint: str
    usual: str = ""
    wide: bool = False

    @property
    def kinds(self) -> list[str]:
        """The kinds of question that read the field."""
        return [
            kind.name for kind in QUESTION_KINDS.values() if self.name in (*kind.fields, "where", "as_of", "version")
        ]


_FORM_FIELDS = (
    FormField("keywords", "Keywords", "Words with AND, OR and parentheses; of topk words alone.", wide=True),
    FormField("bbox", "Box", "west,south,east,north in degrees"),
    FormField("circle", "Circle", "longitude,latitude,radius in metres"),
    FormField("geometry", "Polygon", "GeoJSON; exactly one of box, circle and polygon"),
    FormField("point", "Point", "longitude,latitude"),
    FormField("k", "Number of rows (k)", "How many objects or words.", usual="10"),
    FormField("limit", "Limit", "Only the newest objects, that many. Empty: all."),
    FormField("alpha", "Alpha", "Weight of the place in the score, 0 to 1.", usual="0.5"),
    FormField("distance_scale_m", "Distance scale", "Metres from which on the place scores 0. Empty: 25,000."),
    FormField("max_distance_m", "Greatest distance", "Metres beyond which objects do not count. Empty: any."),
    FormField("stop_words", "Stop words", "A language, such as en, or a JSON list of words. Empty: all words count."),
    FormField("where", "Where", 'Conditions on attributes as JSON, such as {"magnitude": {"gte": 5}}. Empty: none.'),
    FormField("window", "Window", "How far back, such as 72h; of knn and topk also objects=1000. Empty: all."),
    FormField("as_of", "As of", "A time, such as 2026-03-01T12:00:00Z. Empty: the newest object."),
    FormField("version", "Version", "Of the table objects. Empty: the newest."),
)

QUESTION_FIELDS = ("kind", *(field.name for field in _FORM_FIELDS))


def render_question(home: str, fields: Mapping[str, str], places: np.ndarray, problem: str = "") -> str:
    """Render the form with these values, without an answer; `problem` says why there is none, if a question was asked.

    places  float64[n,2]  longitude and latitude of a sample of the objects
    """
    drawn, dots = draw_places(places)
    legend: list[LegendItem] = [("dot objects-dot", sampled(len(places), "object")), CITIES]
    return _render(home, fields, form=True, problem=problem, map=drawn, dots=dots, legend=legend)


def render_answer(home: str, fields: Mapping[str, str], answered: AnsweredQuestion, form: bool) -> str:
    """Render an answer; `form`: with the form, for a server that answers it, and links to the pages of objects."""
    section = prepare_answer(answered)
    legend: list[LegendItem] = [("dot match-dot", "objects of the answer")] if section.map.dots else []
    legend += [("dot asked-dot", "the point")] if section.map.spot else []
    return _render(home, fields, form=form, answer=section, legend=[*legend, CITIES])


def _render(home: str, fields: Mapping[str, str], **values: object) -> str:
    empty = {"problem": "", "answer": None, "map": None, "dots": ""}
    return render_page(
        "question.html",
        forms=bool(values["form"]),
        scripts=("page.js", "question.js"),
        subtitle=home,
        fields=fields,
        longest=LONGEST_VALUE,
        kinds=[(kind.name, kind.title) for kind in QUESTION_KINDS.values()],
        form_fields=_FORM_FIELDS,
        **{**empty, **values},
    )
