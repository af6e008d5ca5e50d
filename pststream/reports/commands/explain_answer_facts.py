"""Show what an explanation has of an answer as texts by label, for a terminal or a page."""

from typing import Any

from pststream.base.format_values import counted

Facts = list[tuple[str, str]]
"""Labels and texts, in order."""

_WORDS = 30


def answer_facts(answer: dict[str, Any] | None) -> Facts:
    """Return the facts of an explained pair with an answer; None: there is none."""
    if not answer:
        return []
    return _report_facts(answer) if "ticks" in answer else _ranked_facts(answer)


def _ranked_facts(answer: dict[str, Any]) -> Facts:
    rows = f"{answer['rows']} of at most {counted(answer['k'], 'object')}"
    facts = [("Answer", f"{rows}, after batch {answer['batch_id']}, as of stream time {answer['as_of']}")]
    if answer["all_objects_compared"] is False:
        facts.append(("Rank", "unknown: too many objects would have to be compared"))
    if "score" in answer:
        place = f"{answer['distance_part']:.6f} for the distance of {answer['distance_m']:,.1f} m"
        text = f"{answer['text_part']:.6f} for the text"
        facts.append(("Score", f"{answer['score']:.6f}: {place} (alpha {answer['alpha']:g}) and {text}"))
        words = ", ".join(f"{word} {weight:.4g}" for word, weight in answer["words"].items())
        facts.append(("Weights", f"{words}; by term statistics {answer['term_statistics_version']}"))
    return facts


def _report_facts(answer: dict[str, Any]) -> Facts:
    later = f"; {answer['later_ticks']:,} more to come" if answer["later_ticks"] else ""
    ticks = f"{answer['ticks']:,}, {answer['first_tick']} to {answer['last_tick']}"
    facts = [("Ticks", f"{ticks}, as of stream time {answer['as_of']}{later}")]
    words = answer.get("words", [])
    if words:
        more = f", and {len(words) - _WORDS} more" if len(words) > _WORDS else ""
        facts.append(("Words", ", ".join(map(_describe_word, words[:_WORDS])) + more))
    return facts


def _describe_word(word: dict[str, Any]) -> str:
    objects = counted(word["count"], "object")
    if word["rank"] is not None:
        return f"{word['word']} (rank {word['rank']}, {objects})"
    if word["missed_by"] == 0:
        return f"{word['word']} ({objects}, as the last word of the report, whose bytes come first)"
    return f"{word['word']} ({objects}, {word['missed_by']} fewer than the last word of the report)"
