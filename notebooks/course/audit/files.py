"""Findings about the files themselves: missing, unreadable, damaged, and sets that are not the assignment's."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatch

from .addition import of_problem
from .catalogue import finding
from .finding import CERTAIN, Finding, listed
from .reading import SKIPPED, File
from .recognising import Found

ONE = (
    "training_log.json",
    "attention_patterns/example_*.png",
    "head_analysis/ablation_results.json",
    "head_analysis/head_specialization.json",
    "head_analysis/head_importance.png",
)
TWO = (
    *(f"{encoding}/training_log.json" for encoding in ("sinusoidal", "learned", "none")),
    *(f"{encoding}/training_curves.png" for encoding in ("sinusoidal", "learned", "none")),
    "extrapolation/extrapolation_results.json",
    *(f"extrapolation/{name}.png" for name in ("extrapolation_curves", "encoding_comparison")),
    "extrapolation/learned_position_embeddings.png",
)
DELIVERABLES = {1: ONE, 2: TWO}  # the files that graders look for


def file_findings(files: Sequence[File], found: Found) -> Iterator[Finding]:
    if not any(found.named.values()):
        says = f"None of the {len(files)} files holds results that could be recognised."
        yield finding("no results", CERTAIN, ".", says)
    skipped = [file.name for file in files if file.unread == SKIPPED]
    if skipped:
        yield finding("unread", CERTAIN, ".", f"{len(skipped)} files were not read, {skipped[0]} the first of them.")
    for file in files:
        if file.unread and file.unread != SKIPPED and (file.holds_results or deliverable(file.name)):
            yield unreadable(file.name, file.unread)
        elif file.damaged:
            yield damaged(file, found)
        elif deliverable(file.name) and not file.size:
            yield unreadable(file.name, "is empty")
    for name, where, value in {name: (name, where, value) for name, where, value in reversed(found.strange)}.values():
        yield finding("no number", CERTAIN, name, f"There is {value} at {where or 'a place without a name'}.")
    for name, problem, of in found.sets:
        if not of:
            says = f"These items of problem {problem} are none of the assignment's sets."
            yield finding("other items", CERTAIN, name, says)
    yield from missing(files, found)


def unreadable(name: str, why: str) -> Finding:
    return finding("unreadable", CERTAIN, name, f"This {why}.", weight=1 if deliverable(name) else 0)


def damaged(file: File, found: Found) -> Finding:
    more = f"These are {found.named.get(file.name, 0)} values."
    if "===" in file.damaged:
        more += " Lines of = are left behind by a merge that git could not finish."
    return finding("damaged", CERTAIN, file.name, f"This {file.damaged}.", more, 1 if deliverable(file.name) else 0)


# --- deliverables ----------------------------------------------------------------------------------------------------


def deliverable(name: str) -> bool:
    return any(fnmatch(name, f"*{wanted}") for wanted in ONE + TWO)


def problems_of(files: Sequence[File], found: Found) -> set[int]:
    """The problems of which something was handed in."""
    problems = {of_problem(file.name) for file in files if file.holds_results or deliverable(file.name)} - {0}
    if found.heads or found.attention:
        problems.add(1)
    if found.lengths or any(curve.encoding for curve in found.curves):
        problems.add(2)
    return problems


def missing(files: Sequence[File], found: Found) -> Iterator[Finding]:
    names = [file.name for file in files]
    for problem in sorted(problems_of(files, found)):
        wanted = DELIVERABLES[problem]
        gone = [name for name in wanted if not any(fits(there, name, problem) for there in names)]
        if gone:
            says = f"{len(gone)} of {len(wanted)} files that graders look for are missing: {listed(gone, 12)}."
            yield finding("deliverables missing", CERTAIN, f"problem {problem}", says, instead(gone, found))


def fits(name: str, wanted: str, problem: int) -> bool:
    return fnmatch(name, wanted) or (fnmatch(name, f"*/{wanted}") and of_problem(name) in (0, problem))


def instead(gone: Sequence[str], found: Found) -> str:
    """Files under other names that hold what is missing."""
    held = {
        "head_analysis/ablation_results.json": {value.file for value in found.heads},
        "head_analysis/head_specialization.json": {value.file for value in found.attention},
        "extrapolation/extrapolation_results.json": {value.file for value in found.lengths},
    }
    said = [f"{listed(sorted(held[name]), 3)} holds such numbers" for name in gone if held.get(name)]
    return f"Under other names: {'; '.join(said)}." if said else ""


def other_files(files: Sequence[File]) -> list[str]:
    """What was neither read nor expected: weights, pictures, code."""
    return [file.name for file in files if not file.holds_results and not file.unread]
