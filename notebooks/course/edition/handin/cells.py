"""A function out of a notebook, without the trainings around it.

Of the code cells, only what the function needs is run: its definition, whatever binds a name that it reads, and so on.
What cannot be read is told and left out: a notebook may be damaged, and what is left of it counts.
"""

import __future__

import ast
import json
import re
import symtable
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

MAGIC = re.compile(r"^([ \t]*)[%!?].*|^([ \t]*)[\w.]+\?+[ \t]*$", re.MULTILINE)  # for IPython, not for Python
BLANK = "*Write here.*"  # stands in a text that is not written yet
LATE_ANNOTATIONS = __future__.annotations.compiler_flag  # an annotation is not worth an error


class NotThere(Exception):
    """Its sentence says what is missing."""


class Statement(NamedTuple):
    tree: ast.stmt
    cell: int  # counted from 1 among the code cells
    binds: set[str]
    reads: set[str]


def cells(path: Path, kind: str) -> list[tuple[str, dict[str, Any]]]:
    """The sources and metadata of the cells of this kind, as far as it is a notebook."""
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))["cells"]
    except FileNotFoundError:
        raise NotThere(f"{path.name} is missing.") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise NotThere(f"{path.name} is not a notebook that can be read.") from None
    sources = []
    for cell in found if isinstance(found, list) else []:
        if isinstance(cell, dict) and cell.get("cell_type") == kind:
            source, metadata = cell.get("source"), cell.get("metadata")
            lines = source if isinstance(source, list) else [source]
            text = "".join(line for line in lines if isinstance(line, str))
            sources.append((text, metadata if isinstance(metadata, dict) else {}))
    return sources


def text_of(path: Path, name: str) -> str:
    """What is written in the cell of this task."""
    texts = [text for text, metadata in cells(path, "markdown") if metadata.get("task") == name]
    written = [text for text in texts if text.strip() and BLANK not in text]
    if not texts:
        raise NotThere(f"{path.name} has no text cell of the task {name} any more.")
    if not written:
        raise NotThere(f"The text {name} in {path.name} is not written yet.")
    return max(written, key=len)


def parsed(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except SyntaxError:
        return ast.parse(MAGIC.sub(r"\1\2pass", source))


def statements(sources: list[str]) -> tuple[list[Statement], list[str]]:
    """What stands at the top level of all cells, and a few words on each cell that is not Python."""
    found, unread = [], []
    for number, source in enumerate(sources, 1):
        try:
            trees = [(tree, names(tree)) for tree in parsed(source).body]
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            unread.append(f"code cell {number} is not Python ({error})")
            continue
        found += [Statement(tree, number, binds, reads) for tree, (binds, reads) in trees]
    return found, unread


def names(tree: ast.stmt) -> tuple[set[str], set[str]]:
    """The global names that a statement binds or changes, and those that it or a function in it reads."""
    table = symtable.symtable(ast.unparse(tree), "cell", "exec")
    symbols = table.get_symbols()
    binds = {symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported()}
    binds |= {symbol.get_name() for symbol in symbols if symbol.is_namespace()}
    reads = {symbol.get_name() for symbol in symbols if symbol.is_referenced()}
    inner = table.get_children()
    for each in inner:
        inner += each.get_children()
        reads |= {symbol.get_name() for symbol in each.get_symbols() if symbol.is_global()}
    return binds | set(changed(tree)), reads


def changed(tree: ast.stmt) -> Iterator[str]:
    """`Model.forward = f`, `table[3] = 4` and `table.append(4)` change a name without binding it."""
    if isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return
    for node in ast.walk(tree):
        stored = isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del)
        called = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        root: ast.AST = node.value.func if called else node  # type: ignore[attr-defined]
        if stored or (called and isinstance(root, ast.Attribute)):
            while isinstance(root, ast.Attribute | ast.Subscript | ast.Call):
                root = root.func if isinstance(root, ast.Call) else root.value
            if isinstance(root, ast.Name):
                yield root.id


def needed(found: list[Statement], name: str) -> list[Statement]:
    """The statements behind a name, in the order of the notebook. A call of a module (`plt.show()`) changes nothing."""
    modules = {each for one in found if isinstance(one.tree, ast.Import) for each in one.binds} - {"sys"}
    wanted = {name, "sys"}
    while True:
        chosen = []
        for one in found:
            binds = one.binds - modules if isinstance(one.tree, ast.Expr) else one.binds
            star = isinstance(one.tree, ast.ImportFrom) and one.tree.names[0].name == "*"
            if star or binds & wanted:
                chosen.append(one)
        more = wanted.union(*(one.reads for one in chosen))
        if more == wanted:
            return chosen
        wanted = more


def load(path: Path, name: str) -> Callable[..., Any]:
    """The function of this name in a notebook. What fails is tried again at the end: cells may have changed places."""
    found, unread = statements([source for source, _ in cells(path, "code")])
    module = types.ModuleType("notebook")
    sys.modules["notebook"] = module  # where dataclasses look for it
    failed: list[tuple[Statement, str]] = [(one, "") for one in needed(found, name)]
    for _ in range(2):
        waiting, failed = failed, []
        for one, _ in waiting:
            code = compile(
                ast.Module([one.tree], []), f"{path.name}, code cell {one.cell}", "exec", LATE_ANNOTATIONS, True
            )
            try:
                exec(code, vars(module))
            except (Exception, SystemExit) as error:
                failed.append((one, f"code cell {one.cell} fails ({type(error).__name__}: {error})"))
    function = vars(module).get(name)
    if not callable(function):
        reasons = "; ".join([*unread, *(words for _, words in failed)][:3])
        raise NotThere(f"{path.name} defines no function {name}" + (f": {reasons}." if reasons else "."))
    return function
