"""Docstrings of the standard library by the names people use; choosing is left to `documents.py`.

Modules written in Python are parsed, never imported. Modules written in C have no source, so those
are imported, which does nothing but load them.
"""

import ast
import importlib
import inspect
import os.path
import sys
import sysconfig
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.machinery import ExtensionFileLoader, PathFinder
from pathlib import Path
from typing import NamedTuple

# Not documentation people search: tests, demos, generated tables, the installer, examples in C.
_LEFT_OUT = frozenset(
    "antigravity this idlelib lib2to3 turtledemo test ensurepip encodings pydoc_data xxlimited "
    "xxlimited_35 xxsubtype sre_compile sre_constants sre_parse".split()
)
# Gone in Python 3.13; importing some of them warns.
_REMOVED = frozenset(
    "aifc asynchat asyncore audioop cgi cgitb chunk crypt distutils imghdr imp msilib nis nntplib "
    "ossaudiodev pipes smtpd sndhdr spwd sunau telnetlib uu xdrlib".split()
)
# Where the source of a module is that has no file under its own name.
_KEPT_ELSEWHERE = {"os.path": os.path.__name__, "collections.abc": "_collections_abc"}
# Known to people as `os`, `os.path`.
_HIDDEN = frozenset({"posix", "nt", "posixpath", "ntpath", "genericpath"})
# Loading these touches the terminal or a window system.
_NEVER_IMPORTED = frozenset({"readline", "_tkinter"})
# Some of their types exist only at run time; `inspect` has imported both.
_ALSO_IMPORTED = frozenset({"re", "types"})


class Entry(NamedTuple):
    """A docstring as written and the signature, empty where unknown."""

    signature: str
    doc: str


@dataclass
class _Source:
    """What one module says: its entries by dotted name, and where its other names come from."""

    doc: str = ""
    entries: dict[str, Entry] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    imported: list[tuple[str, str, str]] = field(
        default_factory=list
    )  # module, name there or "*", name here
    borrowed: set[str] = field(
        default_factory=set
    )  # names imported one by one, for its own use if not exported
    bases: list[tuple[str, str]] = field(default_factory=list)  # class, base class
    instances: dict[str, str] = field(default_factory=dict)  # name, its class
    bound: list[tuple[str, str, str]] = field(default_factory=list)  # name, instance, method


class StandardLibrary:
    """The standard library under a folder, by default the running interpreter's own."""

    def __init__(self, root: Path | None = None) -> None:
        self._root = root or Path(sysconfig.get_paths()["stdlib"])
        self._resolved: dict[str, _Source] = {}

    def modules(self) -> list[str]:
        """Names of public modules, sorted."""
        tops = sys.stdlib_module_names - _LEFT_OUT - _REMOVED - _HIDDEN
        names = set(_KEPT_ELSEWHERE)
        for top in tops:
            if not _is_private(top):
                names.update(self._with_submodules(top, self._root / top))
        return sorted(names)

    def entries(self, module: str) -> Iterator[tuple[str, Entry]]:
        """Public dotted names with their entries; the module's own docstring first."""
        source = self._resolve(module)
        yield module, Entry("", source.doc)
        prefix = "" if module == "builtins" else module + "."
        for name, entry in source.entries.items():
            first = name.partition(".")[0]
            is_borrowed = source.exported and first in source.borrowed - source.exported
            if not (_is_private(name) or is_borrowed):
                yield prefix + name, entry

    def _with_submodules(self, name: str, folder: Path) -> Iterator[str]:
        yield name
        if not (folder / "__init__.py").is_file():
            return
        for path in folder.iterdir():
            if _is_private(path.stem) or path.stem in {"test", "tests"}:
                continue
            if path.is_dir():
                if (path / "__init__.py").is_file():
                    yield from self._with_submodules(f"{name}.{path.name}", path)
            elif path.suffix == ".py":
                yield f"{name}.{path.stem}"

    def _resolve(self, module: str) -> _Source:
        """The module with the names it takes over from hidden modules and hidden base classes."""
        if module in self._resolved:
            return self._resolved[module]
        source = self._resolved[module] = self._read(module)
        for origin, name, local_name in source.imported:
            if _is_hidden(origin, module):
                _keep_longest(source.entries, self._taken_over(origin, name, local_name))
                source.borrowed.add(local_name)
        for cls, base in source.bases:
            _keep_longest(source.entries, self._inherited(source, cls, base))
        for name, instance, method in source.bound:
            entry = source.entries.get(f"{source.instances.get(instance)}.{method}")
            if entry:
                _keep_longest(source.entries, [(name, entry)])
        return source

    def _taken_over(self, origin: str, name: str, local_name: str) -> Iterator[tuple[str, Entry]]:
        target = self._resolve(origin)
        for dotted, entry in list(target.entries.items()):
            first, *names = dotted.split(".")
            if name == "*" and (
                first in target.exported if target.exported else not _is_private(first)
            ):
                yield dotted, entry
            elif name == first:
                yield ".".join([local_name, *names]), entry

    def _inherited(self, source: _Source, cls: str, base: str) -> list[tuple[str, Entry]]:
        """Members a class has from a base that people cannot name, such as `_socket.socket`."""
        module, _, name = base.rpartition(".")
        if not (
            _is_private(base) or any(local_name == base for _, _, local_name in source.imported)
        ):
            return []
        entries = self._resolve(module).entries if _is_private(module) else source.entries
        inherited = [(d, e) for d, e in entries.items() if d.startswith(name + ".")]
        return [
            (cls + d[len(name) :], e)
            for d, e in inherited
            if cls + d[len(name) :] not in source.entries
        ]

    def _read(self, module: str) -> _Source:
        text, is_package = self._text(module)
        if text is None:
            return _loaded(module) if _is_compiled(module) else _Source()
        source = _parsed(text, module if is_package else module.rpartition(".")[0])
        if module in _ALSO_IMPORTED:
            _keep_longest(source.entries, _loaded(module).entries.items())
        return source

    def _text(self, module: str) -> tuple[str | None, bool]:
        stem = self._root.joinpath(*_KEPT_ELSEWHERE.get(module, module).split("."))
        for path, is_package in (
            (stem.with_name(stem.name + ".py"), False),
            (stem / "__init__.py", True),
        ):
            if path.is_file():
                return path.read_text(encoding="utf-8"), is_package
        return None, False


def _is_private(dotted: str) -> bool:
    return any(name.startswith("_") for name in dotted.split("."))


def _is_hidden(origin: str, module: str) -> bool:
    """Whether people know what `origin` defines by the name of `module`, which imports it."""
    return _is_private(origin) or origin in _HIDDEN or origin.startswith(module + ".")


def _keep_longest(entries: dict[str, Entry], more: Iterable[tuple[str, Entry]]) -> None:
    """Where a name is documented twice, as in C and in Python, the longer docstring stays."""
    for name, entry in more:
        if name not in entries or len(entry.doc) > len(entries[name].doc):
            entries[name] = entry


def _is_compiled(module: str) -> bool:
    """Whether a module without source is written in C, not merely shipped without its source."""
    if module in _NEVER_IMPORTED or "." in module:
        return False
    spec = PathFinder.find_spec(module)
    is_extension = spec is not None and isinstance(spec.loader, ExtensionFileLoader)
    return is_extension or module in sys.builtin_module_names


def _loaded(module: str) -> _Source:
    """A module as it is at run time; empty where it does not load."""
    try:
        loaded = importlib.import_module(module)
    except ImportError:
        return _Source()
    source = _Source(doc=loaded.__doc__ or "")
    _keep_longest(source.entries, _members(vars(loaded), ""))
    return source


def _members(namespace: Mapping[str, object], prefix: str) -> Iterator[tuple[str, Entry]]:
    for name, value in sorted(namespace.items()):
        original = namespace.get(f"__{name}__")  # programs replace sys.excepthook and its like
        value = original if inspect.isbuiltin(original) else value
        if name.startswith("__") or not _is_documented(value):
            continue
        signature = getattr(value, "__text_signature__", None)
        doc = value.__doc__ if isinstance(value.__doc__, str) else ""
        yield prefix + name, Entry(_signature_in_words(name, signature), doc)
        if isinstance(value, type) and not prefix:
            yield from _members(vars(value), name + ".")


def _is_documented(value: object) -> bool:
    """Whether a docstring is about the value itself, not about its type."""
    return isinstance(value, type) or inspect.isroutine(value) or inspect.isdatadescriptor(value)


def _signature_in_words(name: str, signature: object) -> str:
    if not isinstance(signature, str):
        return ""
    first, comma, parameters = signature.partition(", ")
    if first.startswith("($"):
        signature = "(" + parameters.removeprefix("/, ") if comma else "()"
    return name + ("()" if signature == "(/)" else signature)


def _parsed(text: str, package: str) -> _Source:
    """What a module's text says. `package` is what its relative imports start from."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of invalid escapes, which are not ours to mend
        tree = ast.parse(text)
    source = _Source(doc=ast.get_docstring(tree, clean=False) or "")
    for node in _statements(tree.body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            _keep_longest(source.entries, _defined(node, ""))
        if isinstance(node, ast.ClassDef):
            source.bases += [(node.name, ast.unparse(base)) for base in node.bases]
        elif isinstance(node, ast.FunctionDef) and node.name == "__getattr__":
            lazy = [inner for inner in ast.walk(node) if isinstance(inner, ast.ImportFrom)]
            source.imported += [
                (_origin(i, package), a.name, a.name) for i in lazy for a in i.names
            ]
        elif isinstance(node, ast.ImportFrom):
            source.imported += [
                (_origin(node, package), a.name, a.asname or a.name) for a in node.names
            ]
        elif isinstance(node, ast.Assign | ast.AugAssign):
            _note_assignment(source, node)
    return source


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a module, with those under `if` and `try`."""
    for node in body:
        yield node
        if isinstance(node, ast.If):
            yield from _statements([*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            handled = [inner for handler in node.handlers for inner in handler.body]
            yield from _statements([*node.body, *handled, *node.orelse])


def _origin(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    names = package.split(".")
    return ".".join(
        [*names[: len(names) - node.level + 1], *([node.module] if node.module else [])]
    )


def _note_assignment(source: _Source, node: ast.Assign | ast.AugAssign) -> None:
    target = node.target if isinstance(node, ast.AugAssign) else node.targets[0]
    if not isinstance(target, ast.Name):
        return
    match node.value:
        case ast.List(elts=items) | ast.Tuple(elts=items) if target.id == "__all__":
            source.exported.update(str(i.value) for i in items if isinstance(i, ast.Constant))
        case ast.Call(func=ast.Name(id=cls)):
            source.instances[target.id] = cls
        case ast.Attribute(value=ast.Name(id=instance), attr=method):
            source.bound.append((target.id, instance, method))


def _defined(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, prefix: str
) -> Iterator[tuple[str, Entry]]:
    name, doc = prefix + node.name, ast.get_docstring(node, clean=False) or ""
    if not isinstance(node, ast.ClassDef):
        is_method = bool(prefix) and not any(
            ast.unparse(d) == "staticmethod" for d in node.decorator_list
        )
        is_property = any("property" in ast.unparse(d) for d in node.decorator_list)
        yield name, Entry("" if is_property else _signature(node.name, node.args, is_method), doc)
        return
    functions = [inner for inner in node.body if isinstance(inner, ast.FunctionDef)]
    init = next((inner for inner in functions if inner.name == "__init__"), None)
    if init is None:
        yield name, Entry("", doc)
    else:
        docs = [inspect.cleandoc(d) for d in (doc, ast.get_docstring(init, clean=False)) if d]
        yield name, Entry(_signature(node.name, init.args, True), "\n\n".join(docs))
    for inner in _statements(node.body):
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _defined(inner, name + ".")


def _signature(name: str, arguments: ast.arguments, is_method: bool) -> str:
    parameters = ast.unparse(arguments)
    if is_method:
        parameters = parameters.partition(", ")[2].removeprefix("/, ")
    return f"{name}({parameters})"
