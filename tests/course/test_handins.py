"""Whatever the layout, the audit finds the same mistakes in flawed results, and none in right ones."""

import pytest
from course.audit import audit
from course.handins import LAYOUTS, write_handin

SHARES = {
    "no BOS": "sums below 1000 among",
    "0 is PAD": "without a further 0",
    "homework, no BOS": "sums below 1000 among",
}


def found_in(results, layout, folder):
    write_handin(results, layout, folder)
    findings = [finding for finding in audit(folder).findings if finding.kind != "deliverables missing"]
    return {(finding.kind, finding.certainty, finding.says.split()[0].rstrip(":")) for finding in findings}, findings


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("results", SHARES)
def test_the_mistakes_of_the_reports_are_found_in_every_layout(results, layout, tmp_path):
    found, findings = found_in(results, layout, tmp_path)
    expected = {
        ("share of sums", "certain", "The"),
        ("far from the training log", "certain", "The"),
        ("opposite numbers", "certain", "sinusoidal"),
    }
    expected |= {
        (kind, "certain", encoding)
        for kind in ("class share", "dead training")
        for encoding in ("sinusoidal", "learned")
    }
    if layout == "one_each":  # there the files come in another order
        expected = expected - {("opposite numbers", "certain", "sinusoidal")} | {
            ("opposite numbers", "certain", "learned")
        }
    assert found == expected
    assert SHARES[results] in next(finding.says for finding in findings if finding.kind == "share of sums")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_right_results_give_no_finding(layout, tmp_path):
    found, _ = found_in("right", layout, tmp_path)
    assert not found and (layout != "as_assigned" or not audit(tmp_path).findings)
