"""Reads the names of measures in the grammar of ir_measures, and checks the parameters of those
that tamis computes itself. What stands for a name elsewhere, `measures.py` says.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, NamedTuple

CUTOFF = "cutoff"


@dataclass(frozen=True)
class Parameter:
    """What a parameter may be; without a default it is always written."""

    type: type
    default: Any = None
    choices: tuple[Any, ...] = ()
    required: bool = False

    def accepts(self, value: Any) -> bool:
        """Whether it may have this value."""
        return isinstance(value, self.type) and (not self.choices or value in self.choices)


REL, JUDGED_ONLY = Parameter(int, 1), Parameter(bool, False)
OPTIONAL_CUTOFF, REQUIRED_CUTOFF = Parameter(int), Parameter(int, required=True)
DCG = Parameter(str, "log2", ("log2", "exp-log2"))
_AP = {CUTOFF: OPTIONAL_CUTOFF, "rel": REL, "judged_only": JUDGED_ONLY}
_P = {CUTOFF: REQUIRED_CUTOFF, "rel": REL, "judged_only": JUDGED_ONLY}
_SET = {"rel": REL, "judged_only": JUDGED_ONLY}
PARAMETERS: dict[str, dict[str, Parameter]] = {
    "AP": _AP,
    "AP_found": _AP,
    "Judged": {CUTOFF: OPTIONAL_CUTOFF},
    "nDCG": {CUTOFF: OPTIONAL_CUTOFF, "dcg": DCG, "gains": Parameter(dict),
             "judged_only": JUDGED_ONLY},
    "nDCG_uncut": _AP,
    "NumRel": {"rel": REL},
    "NumRet": {"rel": Parameter(int)},
    "P": _P,
    "R": _P,
    "Rprec": _SET,
    "RR": _AP,
    "SetAP": _SET,
    "SetF": {"rel": REL, "beta": Parameter(float, 1.0), "judged_only": JUDGED_ONLY},
    "SetP": {"rel": REL, "relative": Parameter(bool, False), "judged_only": JUDGED_ONLY},
    "SetR": {"rel": REL},
    "Success": _P,
}  # fmt: skip
"""The parameters of every measure that tamis computes itself."""
PRESETS: dict[str, tuple[str, dict[str, Any]]] = {
    "NumRelRet": ("NumRet", {"rel": 1}),
    "SetRelP": ("SetP", {"relative": True}),
}
"""Names that stand for a measure with some parameters."""


class ReadName(NamedTuple):
    """A measure as it is written: a name, parameters in their order, and what stands after `@`."""

    name: str
    params: dict[str, Any]
    at: Any


def read_name(text: str) -> ReadName:
    """Read a measure as an expression of Python; `ValueError` where it is none.

    >>> read_name("nDCG(dcg='exp-log2')@10")
    ReadName(name='nDCG', params={'dcg': 'exp-log2'}, at=10)
    """
    try:
        body = ast.parse(text).body
    except SyntaxError as error:
        raise ValueError(str(error)) from error
    if len(body) != 1 or not isinstance(body[0], ast.Expr):
        raise ValueError("not one expression")
    node, at, params = body[0].value, None, {}
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        at, node = _value(node.right), node.left
    if isinstance(node, ast.Call):
        if node.args or any(keyword.arg is None for keyword in node.keywords):
            raise ValueError("parameters need names")
        params = {str(keyword.arg): _value(keyword.value) for keyword in node.keywords}
        node = node.func
    if not isinstance(node, ast.Name):
        raise ValueError("not a name")
    return ReadName(node.id, params, at)


def _value(node: ast.expr | None) -> Any:
    if isinstance(node, ast.Constant) and not isinstance(node.value, bytes | EllipsisType):
        return node.value
    if isinstance(node, ast.Dict) and not any(isinstance(key, ast.Dict) for key in node.keys):
        return dict(zip(map(_value, node.keys), map(_value, node.values), strict=True))
    raise ValueError("a value is a number, a text, True, False or a dictionary")


def check_params(params: Mapping[str, Any], supported: Mapping[str, Parameter]) -> dict[str, Any]:
    """The parameters, whole numbers as floats where these are meant; `ValueError` says what is
    wrong, in the words a user typed.

    >>> check_params({"beta": 2}, PARAMETERS["SetF"])
    {'beta': 2.0}
    """
    for name in params:
        if name not in supported:
            allowed = ", ".join(name for name in supported if name != CUTOFF) or "none"
            shown = "@" if name == CUTOFF else repr(name)
            raise ValueError(f"no parameter {shown}; it takes {allowed}")
    if supported.get(CUTOFF, REL).required and CUTOFF not in params:
        raise ValueError("needs a cutoff")
    checked = {
        name: float(value) if supported[name].type is float and isinstance(value, int) else value
        for name, value in params.items()
    }
    for name, value in checked.items():
        if not supported[name].accepts(value):
            raise ValueError(f"cannot take {name}={value!r}")
    return checked
