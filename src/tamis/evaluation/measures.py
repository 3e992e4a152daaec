"""Measures as values that print as themselves: `nDCG@10`, `AP(rel=2)@100`.

Names and parameters are those of ir_measures, and two more that papers define their own way:
`AP_found@k` and `nDCG_uncut@k`, which take AP's parameters. Names of trec_eval and others are
understood too: one table, `ALIASES`, says what each stands for.
"""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError, require
from tamis.evaluation.formulas import FORMULAS
from tamis.evaluation.judged_ranks import Judged
from tamis.evaluation.measure_names import CUTOFF, PARAMETERS, PRESETS, check_params, read_name

OTHERS = (
    "Accuracy", "BPM", "BPref", "Bpref", "Compat", "ERR_IA", "nERR_IA", "alpha_DCG", "α_DCG",
    "alpha_nDCG", "α_nDCG", "NRBP", "nNRBP", "AP_IA", "MAP_IA", "P_IA", "StRecall", "ERR", "INST",
    "INSQ", "infAP", "IPrec", "NERR8", "NERR9", "NERR10", "NERR11", "NumQ", "RBP", "SDCG",
)  # fmt: skip
"""Measures that ir_measures computes, from the extra `measures`."""
SUMMED = ("NumQ", "NumRel", "NumRet")
DESCRIPTIVE = (*SUMMED, "Judged")
HINT = "for example nDCG@10, RR@10, AP, AP(rel=2)@100, P@5, R@1000, Success@5, Judged@10"


@dataclass(frozen=True, slots=True)
class Measure:
    """What to measure: a name, what stands after the `@`, and named parameters.

    >>> str(Measure("AP", 100, (("rel", 2),)))
    'AP(rel=2)@100'
    """

    name: str
    cutoff: int | float | None = None
    params: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        inner = ",".join(f"{name}={_written(value)}" for name, value in self.params)
        at = "" if self.cutoff is None else f"@{self.cutoff}"
        return f"{self.name}({inner}){at}" if inner else f"{self.name}{at}"

    def param(self, name: str, default: Any) -> Any:
        """A parameter's value, or the default."""
        return dict(self.params).get(name, default)

    @property
    def summed(self) -> bool:
        """Whether a run is summed up by the total over queries, as counts are, not the mean."""
        return self.name in SUMMED

    @property
    def says_better(self) -> bool:
        """Whether more of it is better; how many are retrieved or judged is neither."""
        return self.name not in DESCRIPTIVE

    @property
    def has_formula(self) -> bool:
        """Whether tamis computes it itself; anything else goes through ir_measures."""
        return self.name in FORMULAS

    def values(self, judged: Judged) -> NDArray[np.float64]:
        """The value of every query; only for a measure that has a formula here."""
        source = judged.condensed() if self.param("judged_only", False) else judged
        return FORMULAS[self.name](source, self)


ALIASES = {
    # trec_eval
    "map": "AP",
    "map_cut": "AP",
    "ndcg": "nDCG",
    "ndcg_cut": "nDCG",
    "recip_rank": "RR",
    "recall": "R",
    "p": "P",
    "success": "Success",
    "rprec": "Rprec",
    "bpref": "Bpref",
    "infap": "infAP",
    "iprec_at_recall": "IPrec",
    "set_p": "SetP",
    "set_relative_p": "SetRelP",
    "set_recall": "SetR",
    "set_f": "SetF",
    "set_map": "SetAP",
    "num_q": "NumQ",
    "num_ret": "NumRet",
    "num_rel": "NumRel",
    "num_rel_ret": "NumRelRet",
    # ranx, scikit-learn, papers
    "average_precision": "AP",
    "mean_average_precision": "AP",
    "mrr": "RR",
    "reciprocal_rank": "RR",
    "mean_reciprocal_rank": "RR",
    "precision": "P",
    "hit_rate": "Success",
    "r_precision": "Rprec",
    "f1": "SetF",
    "setf1": "SetF",
    "set_f1": "SetF",
}
"""Names that others use, in lower case, and the name that ir_measures has for each."""
_FORM = re.compile(r"(?P<name>[^\W\d]\w*?)(?:[_.](?P<cutoff>\d+(?:\.\d+)?))?(?P<rest>[(@].*)?")


def parse_measure(text: str | Measure) -> Measure:
    """Read a measure as ir_measures writes it, or by a name of trec_eval or others, in any case.

    >>> [str(parse_measure(name)) for name in ("nDCG@10", "MAP", "P(rel=2)@5", "AP_found@3")]
    ['nDCG@10', 'AP', 'P(rel=2)@5', 'AP_found@3']
    >>> [str(parse_measure(name)) for name in ("ndcg_cut_10", "recip_rank", "mrr@10", "recall_100")]
    ['nDCG@10', 'RR', 'RR@10', 'R@100']
    """
    if isinstance(text, Measure):
        return text
    text = _check_text(text)
    name, parameters = _split(text)
    name = _names().get(name.lower(), name)
    try:
        read = read_name(name + parameters)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{text!r} does not read as a measure", hint=HINT) from error
    if read.name in OTHERS:
        return _parse_other(text, name + parameters)
    own_name, preset = PRESETS.get(read.name, (read.name, {}))
    if own_name not in PARAMETERS:
        raise InputError(f"unknown measure {text!r}", hint=_near(text))
    supported = PARAMETERS[own_name]
    at = {} if read.at is None else {CUTOFF: read.at}
    try:
        values = check_params({**preset, **read.params, **at}, supported)
    except ValueError as error:
        raise InputError(f"measure {text!r}: {error}", hint=HINT) from error
    cutoff = values.pop(CUTOFF, None)
    _check_cutoff(text, cutoff, CUTOFF)
    params = ((key, value) for key, value in values.items() if value != supported[key].default)
    return Measure(own_name, cutoff, tuple((key, _frozen(value)) for key, value in params))


def parse_measures(measures: str | Measure | Iterable[str | Measure]) -> tuple[Measure, ...]:
    """One measure or several, without repetitions.

    >>> [str(measure) for measure in parse_measures(["map", "AP", "P_5"])]
    ['AP', 'P@5']
    """
    if isinstance(measures, str | Measure) or not isinstance(measures, Iterable):
        return (parse_measure(measures),)
    parsed = tuple(dict.fromkeys(parse_measure(name) for name in measures))
    if not parsed:
        raise InputError("no measure to evaluate", hint="for example nDCG@10")
    return parsed


def _check_text(text: object) -> str:
    if type(text).__module__.partition(".")[0] == "ir_measures":  # their nDCG@10 is an object
        return str(text)
    if not isinstance(text, str):
        raise InputError(f"a measure is a name, not {text!r} ({type(text).__name__})", hint=HINT)
    return text


@cache
def _names() -> dict[str, str]:
    """Every name by its lower case, and the name that is parsed for it."""
    return {name.lower(): name for name in (*OTHERS, *PRESETS, *PARAMETERS)} | ALIASES


def _split(text: str) -> tuple[str, str]:
    """A measure's name, and its parameters and cutoff as ir_measures writes them.

    >>> _split("nDCG(dcg='exp-log2')@10"), _split("recall_100"), _split("iprec_at_recall_0.10")
    (('nDCG', "(dcg='exp-log2')@10"), ('recall', '@100'), ('iprec_at_recall', '@0.10'))
    """
    matched = _FORM.fullmatch(text.strip())
    if matched is None:
        return "", text.strip()
    name, cutoff, parameters = matched.group("name", "cutoff", "rest")
    at = f"@{cutoff}" if cutoff else ""
    if name.lower().endswith("_cut") and not at and "@" not in (parameters or ""):
        raise InputError(f"measure {text!r}: needs a cutoff", hint=f"for example {name}_10")
    return name, (parameters or "") + at


def parse_by_ir_measures(text: str) -> Any:
    """The measure of ir_measures that a text names.

    It reads numbers by names of `ast` that Python deprecates from 3.12 on.
    """
    ir_measures = require("ir_measures")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return ir_measures.parse_measure(text)


def _parse_other(original: str, text: str) -> Measure:
    """A measure that ir_measures computes, its parameters checked by it."""
    measure: Any = None
    try:
        measure = parse_by_ir_measures(text)
        for name, value in measure.params.items():
            parameter = measure.SUPPORTED_PARAMS.get(name)
            if parameter is not None and parameter.dtype is float and isinstance(value, int):
                measure = measure(**{name: float(value)})
        measure.validate_params()
    except AssertionError as error:
        raise InputError(f"measure {original!r}: {_params_problem(measure)}", hint=HINT) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{original!r} does not read as a measure", hint=HINT) from error
    supported = measure.SUPPORTED_PARAMS
    params = tuple(
        (key, _frozen(value))
        for key, value in measure.params.items()
        if key != measure.AT_PARAM and value != supported[key].default
    )
    cutoff = measure.params.get(measure.AT_PARAM)
    _check_cutoff(original, cutoff, measure.AT_PARAM)
    return Measure(measure.NAME, cutoff, params)


def _params_problem(measure: Any) -> str:
    """What is wrong with the parameters, in the words a user typed."""
    supported = measure.SUPPORTED_PARAMS
    for name in measure.params:
        if name not in supported:
            allowed = ", ".join(name for name in supported if name != measure.AT_PARAM) or "none"
            name_shown = "@" if name == measure.AT_PARAM else repr(name)
            return f"no parameter {name_shown}; it takes {allowed}"
    for name, info in supported.items():
        if info.required and name not in measure.params:
            return "needs a cutoff" if name == measure.AT_PARAM else f"needs {name}="
    wrong = [name for name, info in supported.items() if not info.validate(measure[name])]
    return f"cannot take {wrong[0]}={measure.params.get(wrong[0])!r}"


def _near(text: str) -> str:
    name, parameters = _split(text)
    names = _names()
    near = difflib.get_close_matches(name.lower(), list(names), n=3, cutoff=0.5)
    if not near:
        return HINT
    return (
        "did you mean "
        + " or ".join(dict.fromkeys(names[name] + parameters for name in near))
        + "?"
    )


def _check_cutoff(text: str, cutoff: Any, meaning: str) -> None:
    if meaning == "cutoff" and cutoff is not None and cutoff < 1:
        raise InputError(f"measure {text!r} cuts at {cutoff}", hint="cut at 1 or more")


def _frozen(value: Any) -> Any:
    return tuple(sorted(value.items())) if isinstance(value, dict) else value


def _written(value: Any) -> str:
    if isinstance(value, tuple):
        return "{" + ",".join(f"{key}:{mapped}" for key, mapped in value) + "}"
    return repr(value)
