"""Findings about the files themselves: missing, unreadable, damaged, and sets that are not the assignment's."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatch

from .addition import of_problem
from .finding import CERTAIN, LIKELY, Finding, listed
from .names import encoding_of
from .reading import SKIPPED, File
from .recognising import Found

DELIVERABLES = {  # problem -> the files that graders look for
    1: (
        "training_log.json",
        "attention_patterns/example_*.png",
        "head_analysis/ablation_results.json",
        "head_analysis/head_specialization.json",
        "head_analysis/head_importance.png",
    ),
    2: (
        *(f"{encoding}/{name}" for encoding in ("sinusoidal", "learned", "none") for name in ("training_log.json", "training_curves.png")),
        *(f"extrapolation/{name}" for name in ("extrapolation_results.json", "extrapolation_curves.png", "encoding_comparison.png", "learned_position_embeddings.png")),
    ),
}  # fmt: skip


def file_findings(files: Sequence[File], found: Found) -> Iterator[Finding]:
    if not any(found.named.values()):
        yield Finding(
            "no results", CERTAIN, 1, ".", f"None of the {len(files)} files holds results that could be recognised.", "There is nothing to audit.",
            "Is it the right folder?", "Hand in the JSON or CSV files with accuracies, heads and training logs.",
        )  # fmt: skip
    skipped = [file for file in files if file.unread == SKIPPED]
    if skipped:
        yield Finding(
            "unread", CERTAIN, 2, ".", f"{len(skipped)} files were not read, {skipped[0].name} the first of them.", "The files before them took all the time and room there is.",
            "Is this the folder of one hand-in?", "Audit the folder of the results alone.",
        )  # fmt: skip
    for file in files:
        if file.unread == SKIPPED:
            continue
        if file.unread and file.holds_results and file.name != ".":
            yield unread(file)
        elif file.unread and (deliverable(file.name) or file.name == "."):
            yield unread(file)
        elif file.damaged:
            yield damaged(file, found)
        elif deliverable(file.name) and not file.size:
            yield unread(File(file.name, unread="is empty"))
    for name, where, value in first_of_each(found):
        yield Finding(
            "no number", CERTAIN, 1, name, f"There is {value} at {where or 'a place without a name'}.", "It is no result: a division by 0, a training that diverged, or an empty set.",
            "Find the first step at which it appears.", "Lower the rate or clip gradients if it is a loss; else guard the division.",
        )  # fmt: skip
    for name, problem, of in found.sets:
        if not of:
            yield Finding(
                "other items", CERTAIN, 1, name, f"These items of problem {problem} are none of the assignment's sets: their SHA-256 is another one.",
                "Results on them cannot be compared with anybody else's.", "Compare the first item: the assignment's first test sum is 663 + 497.",
                "Draw the sets with the assignment's seeds, in its order.",
            )  # fmt: skip
    yield from missing(files, found)


def first_of_each(found: Found) -> list[tuple[str, str, float]]:
    return list({name: (name, where, value) for name, where, value in reversed(found.strange)}.values())


def unread(file: File) -> Finding:
    return Finding(
        "unreadable", CERTAIN, 1 if deliverable(file.name) else 2, file.name, f"This {file.unread}.", "What it holds could not be audited.",
        "Open it, at the place named.", "Write it again, with a library that writes JSON or CSV in UTF-8.",
    )  # fmt: skip


def damaged(file: File, found: Found) -> Finding:
    conflict = " Lines of = are left behind by a merge that git could not finish." if "===" in file.damaged else ""
    count = found.named.get(file.name, 0)
    return Finding(
        "damaged", CERTAIN, 1 if deliverable(file.name) else 2, file.name, f"This {file.damaged}.", f"{count} values could be read all the same; further findings about it rest on these.{conflict}",
        "Open it at the place named.", "Write it again, with a library that writes JSON or CSV.",
    )  # fmt: skip


# --- deliverables ----------------------------------------------------------------------------------------------------


def deliverable(name: str) -> bool:
    return any(fnmatch(name, f"*{wanted}") for wanteds in DELIVERABLES.values() for wanted in wanteds)


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
        gone = [wanted for wanted in DELIVERABLES[problem] if not any(fits(name, wanted, problem) for name in names)]
        if gone:
            held = instead(gone, found)
            yield Finding(
                "deliverables missing", CERTAIN, 3, f"problem {problem}", f"{len(gone)} of {len(DELIVERABLES[problem])} files that graders look for are missing: {listed(gone, 12)}.",
                "Under these names the assignment asks for them." + held, "List the folder.", "Write them, or rename what is there.",
            )  # fmt: skip


def fits(name: str, wanted: str, problem: int) -> bool:
    return fnmatch(name, wanted) or (fnmatch(name, f"*/{wanted}") and of_problem(name) in (0, problem))


def instead(gone: Sequence[str], found: Found) -> str:
    """Files under other names that hold what is missing."""
    held = {
        "ablation_results.json": {value.file for value in found.heads},
        "head_specialization.json": {value.file for value in found.attention},
        "extrapolation_results.json": {value.file for value in found.lengths},
    }
    said = [f"{listed(sorted(held[name]), 3)} holds such numbers" for name in held if held[name] and any(name in g for g in gone)]
    return f" Under other names: {'; '.join(said)}." if said else ""


def other_files(files: Sequence[File]) -> list[str]:
    """What was neither read nor expected: weights, pictures, code."""
    return [file.name for file in files if not file.holds_results and not file.unread]


__all__ = ["LIKELY", "encoding_of", "file_findings", "other_files"]
