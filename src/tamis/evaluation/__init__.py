"""Measures, per-query values, paired tests, tables, plots and the HTML report."""

from tamis.evaluation.agreement import Agreement, agree
from tamis.evaluation.comparison_tables import agreement_table, agreements, comparison_table
from tamis.evaluation.comparisons import Comparisons
from tamis.evaluation.evaluate import Evaluation, QueryValue, evaluate, write_per_query
from tamis.evaluation.judged_ranks import Judged, join
from tamis.evaluation.measures import Measure, parse_measure, parse_measures
from tamis.evaluation.significance import (
    Comparison,
    Interval,
    PValue,
    bonferroni,
    bootstrap_interval,
    compare,
    fails,
    holm,
    randomisation_test,
    t_interval,
    t_test,
)
from tamis.evaluation.tables import (
    as_json,
    footnotes,
    html_table,
    latex,
    markdown,
    plain_text,
    rich_table,
)

__all__ = [
    "Agreement",
    "Comparison",
    "Comparisons",
    "Evaluation",
    "Interval",
    "Judged",
    "Measure",
    "PValue",
    "QueryValue",
    "agree",
    "agreement_table",
    "agreements",
    "as_json",
    "bonferroni",
    "bootstrap_interval",
    "compare",
    "comparison_table",
    "evaluate",
    "fails",
    "footnotes",
    "holm",
    "html_table",
    "join",
    "latex",
    "markdown",
    "parse_measure",
    "parse_measures",
    "plain_text",
    "randomisation_test",
    "rich_table",
    "t_interval",
    "t_test",
    "write_per_query",
]
