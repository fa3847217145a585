"""What is printed: for a terminal, or as Markdown for a comment. Whatever comes from the files is escaped."""

import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .addition import addition_findings
from .extrapolation import extrapolation_findings
from .extrapolation import remarks as length_remarks
from .files import file_findings, other_files
from .finding import CERTAIN, LIKELY, QUESTION, Finding, worst_first
from .reading import File, read_folder
from .recognising import Found, recognise
from .training import lengths_and_log, training_findings
from .training import remarks as training_remarks

MOST_OF_A_KIND = 12
WIDTH = 110


@dataclass(frozen=True)
class Audit:
    """Of one folder."""

    folder: str
    files: list[File]
    found: Found
    findings: list[Finding]
    remarks: list[str]

    def text(self) -> str:
        return "\n".join(lines(self, terminal))

    def markdown(self) -> str:
        return "\n".join(lines(self, markdown))


def audit(folder: str | Path) -> Audit:
    """Read the folder and look for what cannot be right. Nothing in it is run, and nothing is written."""
    files = read_folder(folder)
    found = recognise(files)
    checks = (
        file_findings(files, found),
        addition_findings(found),
        extrapolation_findings(found),
        training_findings(found),
    )
    findings = [finding for check in (*checks, lengths_and_log(found)) for finding in check]
    remarks = [*length_remarks(found), *training_remarks(found)]
    return Audit(str(folder), files, found, worst_first(dict.fromkeys(findings)), remarks)


# --- escaping --------------------------------------------------------------------------------------------------------


def terminal(text: str) -> str:
    """No character that moves the cursor, changes colours or the direction of writing."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def markdown(text: str) -> str:
    """No character that formats, links, or calls somebody."""
    escaped = re.sub(r"([\\`*_{}\[\]<>#|~$])", r"\\\1", terminal(text).replace("&", "&amp;"))
    return escaped.replace("\\<", "&lt;").replace("@", "&#64;").replace("://", "&#58;//").replace("www.", "www&#46;")


# --- lines -----------------------------------------------------------------------------------------------------------


def lines(audit: Audit, escape: type[str] | object) -> Iterator[str]:
    plain = escape is terminal
    yield from reading_lines(audit, plain)
    shown = list(few_of_each(audit.findings))
    counts = Counter(finding.certainty for finding in audit.findings)
    words = ", ".join(f"{counts[name]} {name}" for name in (CERTAIN, LIKELY, QUESTION) if counts[name])
    yield from [
        "",
        heading(f"Findings: {len(audit.findings)}" + (f" ({words}), worst first" if words else ""), plain),
        "",
    ]
    for number, finding in enumerate(shown, start=1):
        yield from finding_lines(number, finding, plain)
    if len(shown) < len(audit.findings):
        yield f"... and {len(audit.findings) - len(shown)} more of kinds that are shown {MOST_OF_A_KIND} times."
    if not audit.findings:
        yield "None."


def few_of_each(findings: list[Finding]) -> Iterator[Finding]:
    kinds = Counter[str]()
    for finding in findings:
        kinds[finding.kind] += 1
        if kinds[finding.kind] <= MOST_OF_A_KIND:
            yield finding


def heading(text: str, plain: bool) -> str:
    return text if plain else f"### {text}"


def reading_lines(audit: Audit, plain: bool) -> Iterator[str]:
    escape = terminal if plain else markdown
    yield heading(f"Audit of {escape(short(audit.folder))}", plain)
    yield ""
    bullet = "  " if plain else "- "
    read = [file for file in audit.files if file.document is not None]
    known = [file for file in read if audit.found.named.get(file.name)]
    yield f"Read: {len(read)} files, {len(known)} with results that were recognised."
    yield from [""] * (not plain)
    for file in read[:40]:
        notes = [f"{audit.found.named.get(file.name, 0)} values", *file.notes]
        notes += ["only its first part was looked at"] if file.name in audit.found.cut else []
        yield f"{bullet}{escape(short(file.name))}: {escape(', '.join(notes))}"
    if len(read) > 40:
        yield f"{bullet}... and {len(read) - 40} more"
    skipped = [f"{short(file.name)} {file.unread}" for file in audit.files if file.unread]
    others = other_files(audit.files)
    skipped += [f"{len(others)} files of other kinds (pictures, weights, code) were not opened"] if others else []
    skipped += [
        f"{short(file.name)}: no numbers were recognised"
        for file in audit.files
        if file.path.suffix and file.holds_results and file.document is None and not file.unread
    ]
    yield from parts_of("Not read:", skipped, bullet, plain)
    yield from parts_of("Remarks, no findings:", audit.remarks, bullet, plain)


def parts_of(title: str, entries: list[str], bullet: str, plain: bool) -> Iterator[str]:
    escape = terminal if plain else markdown
    if entries:
        yield from ["", title, *[""] * (not plain)]
        yield from (f"{bullet}{escape(entry)}" for entry in entries[:20])
        if len(entries) > 20:
            yield f"{bullet}... and {len(entries) - 20} more"


def finding_lines(number: int, finding: Finding, plain: bool) -> Iterator[str]:
    title = f"[{finding.certainty}] {finding.kind}, in {short(finding.file)}"
    parts = {"": finding.says, "Means: ": finding.means, "Check: ": finding.check, "Mend: ": finding.mend}
    if plain:
        yield terminal(f"{number}. {title}")
        for name, text in parts.items():
            yield from textwrap.wrap(terminal(name + text), WIDTH, initial_indent="   ", subsequent_indent="   ")
    else:
        yield f"{number}. **{markdown(title)}**"
        yield from (f"   - {f'*{name.strip()}* ' if name else ''}{markdown(text)}" for name, text in parts.items())
    yield ""


def short(name: str) -> str:
    return name if len(name) <= 120 else f"{name[:50]}...{name[-60:]}"
