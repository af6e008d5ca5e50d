"""The rules for Prometheus and the board for Grafana: well formed, and every metric and label that they use exists."""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from pststream.reports.commands.metrics import METRICS, PREFIX

INFRA = Path(__file__).parents[2] / "infra"
RULES = INFRA / "prometheus" / "pststream.rules.yaml"
[GROUP] = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
ALERTS: list[dict[str, Any]] = [rule for rule in GROUP["rules"] if "alert" in rule]
RECORDS: dict[str, str] = {rule["record"]: rule["expr"] for rule in GROUP["rules"] if "record" in rule}
BOARD = json.loads((INFRA / "grafana" / "pststream.json").read_text("utf-8"))
PANELS: list[dict[str, Any]] = BOARD["panels"]
VARIABLES: dict[str, dict[str, Any]] = {one["name"]: one for one in BOARD["templating"]["list"]}
PROMTOOL = shutil.which("promtool")

TARGET_LABELS = {"job", "instance"}
"""Labels that Prometheus itself adds to each sample."""

UP = "up"
"""Metric that Prometheus itself stores for each target: 1 if it could be read."""

TOKEN = re.compile(r"(?P<matchers>\{[^}]*\})|(?P<range>\[[^]]*\])|(?P<word>[a-zA-Z_:][\w:]*)|(?P<other>[^\s\w])")
FUNCTIONS = {"sum", "increase", "rate", "absent", "time"}
GROUPINGS = {"by", "without"}
OPERATORS = {"and", "or", "unless"}
DURATION = re.compile(r"(\d+(ms|[smhdwy]))+")
TEMPLATES = re.compile(r"\{\{\s*(?:\$labels\.(\w+)|\$value(?:\s*\|\s*(\w+))?)\s*\}\}")
TEMPLATE_FUNCTIONS = {"humanize", "humanizeDuration", "humanizePercentage"}
UNITS = {"seconds": "s", "bytes": "bytes"}
"""Unit of a metric, and that of a panel in Grafana."""


@dataclass
class Expression:
    """What an expression of PromQL uses: metrics with the labels of their matchers, ranges, labels of groupings."""

    text: str
    metrics: list[tuple[str, set[str]]] = field(default_factory=list)
    ranges: list[str] = field(default_factory=list)
    by: set[str] = field(default_factory=set)
    without: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._check_parentheses()
        tokens = list(TOKEN.finditer(self.text))
        following = [token[0] for token in tokens[1:]] + [""]
        in_grouping: set[str] | None = None
        for token, after in zip(tokens, following):
            word, kind = token[0], token.lastgroup
            if kind == "range":
                self.ranges.append(word[1:-1])
            elif word in GROUPINGS:
                in_grouping = self.by if word == "by" else self.without
            elif in_grouping is not None:
                if kind == "word":
                    in_grouping.add(word)
                in_grouping = None if word == ")" else in_grouping
            elif kind == "word" and (after == "(" or after in GROUPINGS):
                assert word in FUNCTIONS, f"{self.text}: the function {word} is not known here"
            elif kind == "word" and word not in OPERATORS:
                matched = (
                    set(re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"[^"]*"', after)) if after.startswith("{") else set()
                )
                self.metrics.append((word, matched))

    def _check_parentheses(self) -> None:
        depth = 0
        for character in re.sub(r'"[^"]*"', "", self.text):
            depth += {"(": 1, ")": -1}.get(character, 0)
            assert depth >= 0, self.text
        assert depth == 0, self.text

    @property
    def labels(self) -> set[str]:
        """Labels that a result may have."""
        return self.by or set().union(*(labels_of(name) for name, _ in self.metrics)) - self.without

    def check(self) -> None:
        """Fail for a metric or a label that does not exist, and for the rate of what is no counter."""
        assert self.metrics
        for name, matched in self.metrics:
            assert matched <= labels_of(name), self.text
            if name not in RECORDS and name != UP:
                is_counter = METRICS[name.removeprefix(PREFIX)].type == "counter"
                assert is_counter == bool(self.ranges), f"{self.text}: rates are of counters, and counters have rates"
        every = set().union(*(labels_of(name) for name, _ in self.metrics))
        assert self.by | self.without <= every, self.text


def labels_of(metric: str) -> set[str]:
    """Return the labels of a metric, or of one that a rule records. Fails for an unknown one."""
    if metric in RECORDS:
        return Expression(RECORDS[metric]).labels
    if metric == UP:
        return TARGET_LABELS
    assert metric.startswith(PREFIX) and metric.removeprefix(PREFIX) in METRICS, f"{metric} does not exist"
    return {*METRICS[metric.removeprefix(PREFIX)].labels, *TARGET_LABELS}


def targets() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    return [(panel, target) for panel in PANELS for target in panel["targets"]]


@pytest.mark.parametrize(
    "text",
    [
        "pststream_no_such_metric > 1",
        'pststream_sink_up{sinks="x"}',
        "rate(pststream_lag_seconds[5m])",
        "pststream_matches_total",
        "sum by (colour) (pststream_pending_rows)",
        "(pststream_lag_seconds",
        "guess(pststream_lag_seconds)",
    ],
)
def test_an_expression_that_is_wrong_is_recognised(text: str) -> None:
    with pytest.raises(AssertionError):
        Expression(text).check()


def test_rules_have_the_structure_that_prometheus_reads() -> None:
    assert yaml.safe_load(RULES.read_text("utf-8")).keys() == {"groups"} and GROUP.keys() == {"name", "rules"}
    assert len({rule["alert"] for rule in ALERTS}) == len(ALERTS) == len(GROUP["rules"]) - len(RECORDS)
    for rule in GROUP["rules"]:
        if "record" in rule:
            assert rule.keys() == {"record", "expr"} and re.fullmatch(r"[a-z_]+:[a-z_]+:\w+", rule["record"])
            continue
        assert (
            {"alert", "expr", "labels", "annotations"}
            <= rule.keys()
            <= {"alert", "expr", "for", "labels", "annotations"}
        )
        assert re.fullmatch(r"PSTStream[A-Za-z]+", rule["alert"]) and rule["labels"]["severity"] in (
            "warning",
            "critical",
        )
        assert rule["annotations"].keys() == {"summary", "description"}
        assert DURATION.fullmatch(rule.get("for", "0s")), rule["alert"]


@pytest.mark.parametrize("text", [*RECORDS.values(), *(rule["expr"] for rule in ALERTS)])
def test_the_rules_use_metrics_and_labels_that_exist(text: str) -> None:
    expression = Expression(text)
    expression.check()
    assert all(DURATION.fullmatch(one) for one in expression.ranges)


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: str(rule["alert"]))
def test_the_texts_of_an_alert_use_labels_that_its_samples_have(rule: dict[str, Any]) -> None:
    labels = Expression(rule["expr"]).labels
    for text in rule["annotations"].values():
        assert len(TEMPLATES.findall(text)) == text.count("{{")
        for label, function in TEMPLATES.findall(text):
            assert not label or label in labels
            assert not function or function in TEMPLATE_FUNCTIONS


def test_every_check_of_the_dag_has_its_alert() -> None:
    """The names are those of the docs; the thresholds are the defaults of the form."""
    expressions = {rule["alert"]: rule["expr"] for rule in ALERTS}
    health = (INFRA.parent / "pststream" / "airflow" / "dags" / "health.py").read_text("utf-8")
    defaults = dict(re.findall(r'"(max_\w+)": forms.field\(\s*"number", "[^"]+", "[^"]+", where, ([\d.]+)', health))
    assert f"> {defaults['max_lag_seconds']} " in expressions["PSTStreamLag"]
    assert expressions["PSTStreamOutOfBalance"].endswith(f"> {defaults['max_imbalance']}")
    assert expressions["PSTStreamRejects"].endswith(f"> {defaults['max_reject_share']}")
    assert {"WatcherDown", "Quarantine", "SinkDown", "DeadLetters"} <= {name[9:] for name in expressions}


def test_each_target_that_the_docs_configure_has_an_alert_of_its_own() -> None:
    (expression,) = (rule["expr"] for rule in ALERTS if Expression(rule["expr"]).metrics == [(UP, {"job"})])
    match = re.fullmatch(r'up\{job=~"(.+)"\} == 0', expression)
    jobs = [
        name
        for page in ("operation", "airflow")
        for name in re.findall(r"- job_name: (\S+)", (INFRA.parent / "docs" / f"{page}.md").read_text("utf-8"))
    ]
    assert match and len(jobs) == 2 and all(re.fullmatch(match[1], job) for job in jobs)


def test_a_batch_that_always_runs_is_no_step_that_does_not_end() -> None:
    (expression,) = (rule["expr"] for rule in ALERTS if rule["alert"] == "PSTStreamUnfinishedStep")
    assert {name for name, _ in Expression(expression).metrics} == {
        "pststream_unfinished_steps", "pststream:batches:increase1h",
    } and " unless " in expression  # fmt: skip


def test_a_board_has_the_structure_that_grafana_imports() -> None:
    assert BOARD["id"] is None and BOARD["uid"] and BOARD["title"] and BOARD["schemaVersion"] >= 38
    assert VARIABLES["datasource"]["type"] == "datasource" and VARIABLES["datasource"]["query"] == "prometheus"
    listed = {one["id"] for one in BOARD["__requires"] if one["type"] == "panel"}
    assert {panel["type"] for panel in PANELS} == listed
    assert (
        len({panel["id"] for panel in PANELS})
        == len(PANELS)
        == len({panel["title"] + panel["type"] for panel in PANELS})
    )
    cells: set[tuple[int, int]] = set()
    for panel in PANELS:
        place = panel["gridPos"]
        mine = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not mine & cells and max(x for x, _ in mine) < 24, f"{panel['title']} covers another panel"
        cells |= mine
        assert panel["targets"] and panel["fieldConfig"]["defaults"]["unit"] and panel["description"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    for place in [*PANELS, *(target for _, target in targets()), *(VARIABLES[name] for name in ("job", "instance"))]:
        assert place["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


@pytest.mark.parametrize(("panel", "target"), targets(), ids=lambda one: one.get("expr") or one["title"])
def test_the_board_uses_metrics_and_labels_that_exist(panel: dict[str, Any], target: dict[str, Any]) -> None:
    expression = Expression(target["expr"])
    expression.check()
    assert set(expression.ranges) <= {"$__rate_interval"}
    assert set(re.findall(r"\$(\w+)", target["expr"])) <= {*VARIABLES, "__rate_interval"}
    assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= expression.labels
    [name, *_] = [name.removeprefix(PREFIX) for name, _ in expression.metrics]
    wanted = "s" if name.endswith("_timestamp_seconds") else UNITS.get(METRICS[name].unit)
    assert wanted in (None, panel["fieldConfig"]["defaults"]["unit"])


@pytest.mark.parametrize("name", ["job", "instance"])
def test_a_variable_lists_a_label_that_exists(name: str) -> None:
    query = VARIABLES[name]["query"]["query"]
    match = re.fullmatch(r"label_values\((.+), (\w+)\)", query)
    assert match and VARIABLES[name]["definition"] == query
    Expression(match[1]).check()
    assert match[2] in Expression(match[1]).labels


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
def test_prometheus_own_tool_accepts_the_rules_and_they_fire(tmp_path: Path) -> None:
    home = 'job="pststream", instance="h"'
    rows = [("accepted", "objects", "0+10x90"), ("rejected", "objects", "0+5x90"), ("rejected", "requests", "0x90")]
    series = [(f'pststream_{what}_rows_total{{{home}, kind="{kind}"}}', values) for what, kind, values in rows]
    series += [
        (f"pststream_watcher_up{{{home}}}", "1x30 0x60"),
        (f"up{{{home}}}", "1x90"),
        ('up{job="pststream-malmo", instance="g"}', "1x30 0x60"),
        (f'pststream_build_info{{{home}, version="1"}}', "1x90"),
        (f"pststream_unfinished_steps{{{home}}}", "1x90"),
        (f"pststream_batches_total{{{home}}}", "0+1x90"),
    ]
    quiet: dict[str, list[str]] = {f"PSTStream{name}": [] for name in ("Lag", "NoMetrics", "UnfinishedStep")}
    fired = {"PSTStreamWatcherDown": ["34m"], "PSTStreamTargetDown": ["40m"], "PSTStreamRejects": ["60m"], **quiet}
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in series],
            "promql_expr_test": [
                {
                    "expr": f"count(ALERTS{{alertname='{alert}', alertstate='firing'}}) or vector(0)",
                    "eval_time": (times or ["60m"])[0],
                    "exp_samples": [{"labels": "{}", "value": len(times)}],
                }
                for alert, times in fired.items()
            ],
        }
    ]
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}), "utf-8")
    for words in (["check", "rules", str(RULES)], ["test", "rules", str(file)]):
        done = subprocess.run([str(PROMTOOL), *words], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
