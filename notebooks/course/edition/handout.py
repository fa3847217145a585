"""The course's handout, from one source: `python -m course.edition.handout` writes what students and teachers get.

Masters are Markdown files; solution cells are filled from the project's own modules, each with all that it uses, so
that a cell runs alone. Neither otter-grader nor nbgrader is used: both grade by assertions that run in the process of
the student's notebook, and what is needed here is a sentence about returned values, made outside of that process.
"""

import ast
import importlib
import json
import re
import shutil
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from course.edition import checks, hidden, solutions
from course.edition.checks import TASKS, Task
from problem1.dataset import SPLIT_SEEDS, encode_pairs, split_pairs
from problem1.shared.commands import Parser, one_sentence, parse_path
from problem2.dataset import LONG_LENGTHS, Item, long_items, split_items

HERE = Path(__file__).parent
MASTERS = HERE / "masters"
NEEDED = ("torch", "numpy", "matplotlib", "jupyter", "pypandoc_binary", "typst")  # by the student's folder
PACKAGES = ("problem1", "problem2", "course")
HAND_IN = (HERE / "submit.py", HERE / "handin", HERE.parent / "audit")  # what a student runs in the end
NOT_WRITTEN = 'raise NotImplementedError("write this")'
WRITE_HERE = "*Write here.*"

# --- solutions and all that they use ---------------------------------------------------------------------------------


class Source(NamedTuple):
    """Top-level code of modules, gathered in an order in which it runs."""

    imports: dict[str, None]  # a dict keeps the order
    parts: dict[str, str]  # what defines it -> its lines


def gather(name: str, module: ModuleType, source: Source, rename: str = "") -> None:
    """Add what defines `name` in a module of the project, after all that it uses."""
    text = Path(str(module.__file__)).read_text()
    node = next((n for n in ast.parse(text).body if name in defined(n)), None)
    if node is None:
        return  # a builtin
    if isinstance(node, ast.Import | ast.ImportFrom):
        alias = next(alias for alias in node.names if name in (alias.asname, alias.name))
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] in PACKAGES:
            gather(alias.name, importlib.import_module(str(node.module)), source)
        else:
            line = type(node)(**{**vars(node), "names": [alias]})
            source.imports[ast.unparse(line)] = None
        return
    definition: Any = node
    key = f"{module.__name__}.{ast.unparse(node)[:60]}"
    if key in source.parts:
        return
    method = method_of(node, module)
    if method:
        definition, module, text = method
    source.parts[key] = ""  # a name that it uses may use it in turn
    for used in names_in(definition):
        gather(used, module, source)
    del source.parts[key]  # now behind all that it uses
    lines = lines_of(definition, text)
    source.parts[key] = lines.replace(f"def {definition.name}(", f"def {name}(", 1) if method else lines


def defined(node: ast.stmt) -> set[str]:
    """Names that a top-level statement makes."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return {alias.asname or alias.name for alias in names}
        case ast.Assign() | ast.AnnAssign():
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            return {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}
    return set()


def method_of(node: ast.stmt, module: ModuleType) -> tuple[Any, ModuleType, str] | None:
    """Of `name = Class.method` the method itself, its module and that module's text."""
    if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute)):
        return None
    function = getattr(module, next(iter(defined(node))))
    owner = importlib.import_module(function.__module__)
    class_name, method = function.__qualname__.split(".")
    text = Path(str(owner.__file__)).read_text()
    owner_class: Any = next(n for n in ast.parse(text).body if class_name in defined(n))
    return next(n for n in owner_class.body if method in defined(n)), owner, text


def names_in(node: ast.AST) -> list[str]:
    """Names that a definition uses, without its decorators if it is a function: those register, or save memory."""
    parts = [*node.body, node.args, *filter(None, [node.returns])] if isinstance(node, ast.FunctionDef) else [node]
    inner = [n for part in parts for n in ast.walk(part)]
    own = {n.arg for n in inner if isinstance(n, ast.arg)}
    return list(dict.fromkeys(n.id for n in inner if isinstance(n, ast.Name) and n.id not in own))


def lines_of(node: Any, text: str) -> str:
    first = min(
        [node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []) if isinstance(node, ast.ClassDef))]
    )
    lines = text.splitlines()[first - 1 : node.end_lineno]
    return "\n".join(line[node.col_offset :] for line in lines)


def solution(task: str, docstring: str = "") -> str:
    """A cell that defines a task's function, with all that it uses and the docstring of the task."""
    source = Source({}, {})
    gather(task, solutions, source)
    *used, own = source.parts.values()
    body = ast.parse(own).body[0].body[0]  # type: ignore[attr-defined]
    lines = own.splitlines()
    lines.insert(body.lineno - 1, docstring)
    blocks = ["\n".join(sorted(source.imports)), *used, "\n".join(lines)]
    return re.sub(r"\n{4,}", "\n\n\n", "\n\n\n".join(filter(None, blocks)))


# --- masters ---------------------------------------------------------------------------------------------------------


class Part(NamedTuple):
    """A piece of a master: kind is 'text', 'python', 'task' or 'write'."""

    kind: str
    name: str
    text: str


def parts_of(master: str) -> list[Part]:
    parts = []
    for i, piece in enumerate(re.split(r"^```(python|task|write)(?: (\w+))?\n(.*?)^```\n?", master, flags=re.M | re.S)):
        if i % 4 == 0:
            parts += [
                Part("text", "", text.strip()) for text in re.split(r"(?m)^(?=## |\{task:)", piece) if text.strip()
            ]
        elif i % 4 == 1:
            kind = piece
        elif i % 4 == 2:
            name = piece or ""
        else:
            parts.append(Part(kind, name, piece.strip("\n")))
    return parts


def heading(task: Task) -> str:
    number = [t.name for t in TASKS.values() if t.problem == task.problem].index(task.name) + 1
    return f"## {number}. {task.title}\n\n*{task.points} points, about {task.minutes} minutes. {task.learns}*"


def filled(text: str) -> str:
    """Text with what is computed."""
    text = re.sub(r"\{task:(\w+)\}", lambda match: heading(TASKS[match[1]]), text)
    for problem in (1, 2):
        text = text.replace(f"{{budget{problem}}}", budget(problem))
    return text


def budget(problem: int) -> str:
    tasks = [task for task in TASKS.values() if task.problem == problem]
    points, hours = sum(task.points for task in tasks), sum(task.minutes for task in tasks) / 60
    return f"{points} points, about {hours:.0f} hours, of which one for the text at the end."


def notebook(name: str, teacher: bool) -> NotebookNode:
    """A master as a notebook, with blanks for the student or with solutions for the teacher."""
    cells: list[NotebookNode] = []
    for part in parts_of((MASTERS / f"{name}.md").read_text()):
        if part.kind == "text":
            cells.append(new_markdown_cell(filled(part.text)))
        elif part.kind == "python":
            cells.append(new_code_cell(part.text))
        elif part.kind == "write":
            cells.append(new_markdown_cell(WRITE_HERE, metadata={"task": part.name}))
        else:
            text = solution(part.name, docstring_of(part.text)) if teacher else f"{part.text}\n    {NOT_WRITTEN}"
            cells += [new_code_cell(text, metadata={"task": part.name}), new_code_cell(f"check({part.name})")]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return new_notebook(cells=cells, metadata=kernel)


def docstring_of(text: str) -> str:
    """The lines of a blank below its signature."""
    return text[text.index('    """') :]


# --- data ------------------------------------------------------------------------------------------------------------


def sums(split: str) -> list[dict[str, list[int]]]:
    source, target = encode_pairs(split_pairs(split))
    return [{"input": a, "target": b} for a, b in zip(source.tolist(), target.tolist(), strict=True)]


def sequences(items: Iterable[Item]) -> list[dict[str, Any]]:
    return [{"sequence": row, "is_sorted": int(label), "length": len(row)} for row, label in items]


def data_sets() -> dict[str, list[dict[str, Any]]]:
    """{name: items} in the assignment's own layout."""
    sets: dict[str, list[dict[str, Any]]] = {f"problem1_{split}": sums(split) for split in SPLIT_SEEDS}
    sets |= {f"problem2_{split}": sequences(split_items(split)) for split in SPLIT_SEEDS}
    return sets | {f"problem2_length{length}": sequences(long_items(length)) for length in LONG_LENGTHS}


# --- words with tables -----------------------------------------------------------------------------------------------


def table(rows: Iterable[tuple[Any, ...]], names: tuple[str, ...]) -> str:
    lines = [names, ("---",) * len(names), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def students_readme(text: str) -> str:
    rows = [(task.problem, task.title, f"`{task.name}`", task.points, task.minutes) for task in TASKS.values()]
    text = text.replace("{tasks}", table(rows, ("problem", "task", "name", "points", "minutes")))
    return text.replace("{points}", str(sum(task.points for task in TASKS.values())))


def teachers_readme(text: str) -> str:
    tasks = TASKS.values()
    rubric = table([(f"`{task.name}`", task.title, task.points) for task in tasks], ("task", "title", "points"))
    times = [(f"problem {n}", sum(t.minutes for t in tasks if t.problem == n)) for n in (1, 2)]
    goals = table([(f"`{task.name}`", task.learns) for task in tasks], ("task", "what it teaches"))
    text = (
        text.replace("{goals}", goals)
        .replace("{budget}", table(times, ("part", "minutes")))
        .replace("{rubric}", rubric)
    )
    return text.replace("{discussion}", str(TASKS["discussion"].points)).replace(
        "{explanation}", str(TASKS["explanation"].points)
    )


# --- folders ---------------------------------------------------------------------------------------------------------


def public_answers() -> dict[str, checks.Result]:
    """What is right for the public calls and for the questions that mistakes answer."""
    asked = [pair for task in TASKS for pair in checks.asked(task, checks.calls(task))]
    return {checks.key(task, call): hidden.answer(task, call) for task, call in asked}


def write_shared(folder: Path, teacher: bool) -> None:
    """What both folders hold."""
    (folder / "data").mkdir(parents=True)
    for name in ("problem1", "problem2"):
        nbformat.write(notebook(name, teacher), folder / f"{name}.ipynb")
    for name in ("checks.py", "given.py"):
        shutil.copy(HERE / name, folder)
    (folder / "answers.json").write_text(json.dumps(public_answers()))
    for name, items in data_sets().items():
        (folder / "data" / f"{name}.json").write_text(json.dumps(items, separators=(",", ":")))
    (folder / "requirements.txt").write_text("".join(f"{name}=={version(name)}\n" for name in NEEDED))


def write_student(folder: Path) -> None:
    write_shared(folder, teacher=False)
    (folder / "README.md").write_text(students_readme((MASTERS / "student.md").read_text()))
    for part in HAND_IN:
        if part.is_dir():
            shutil.copytree(part, folder / part.name, ignore=shutil.ignore_patterns("__pycache__"))
        elif part.exists():
            shutil.copy(part, folder)


def write_teacher(folder: Path) -> None:
    write_shared(folder, teacher=True)
    (folder / "README.md").write_text(teachers_readme((MASTERS / "teacher.md").read_text()))
    shutil.copy(HERE / "hidden.py", folder)


def write_handout(folder: Path) -> None:
    """Both folders, each whole or not at all; other things in `folder` stay."""
    writers: dict[str, Callable[[Path], None]] = {"student": write_student, "teacher": write_teacher}
    for name, write in writers.items():
        new = folder / f".{name}-new"
        shutil.rmtree(new, ignore_errors=True)
        write(new)
        shutil.rmtree(folder / name, ignore_errors=True)
        new.rename(folder / name)


def main() -> None:
    parser = Parser(prog="python -m course.edition.handout", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=parse_path, default="handout", help="where to write (default handout)")
    folder = Path(parser.parse_args().folder)
    with one_sentence(parser.prog):
        write_handout(folder)
    print(f"{folder / 'student'} goes to students, {folder / 'teacher'} stays with you.")


if __name__ == "__main__":
    main()
