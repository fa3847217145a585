"""Hidden calls go beyond the public ones, and are judged by the solutions."""

from course.edition import checks, hidden, solutions


def test_public_calls_come_first_and_hidden_ones_are_others():
    calls, public = hidden.calls("attention"), checks.calls("attention")
    assert calls[: len(public)] == public and len(calls) == (1 + len(hidden.HIDDEN_SEEDS)) * len(public)
    assert all(call not in public for call in calls[len(public) :])


def test_a_function_that_remembers_the_public_answers_is_found():
    known = {str(call): hidden.answer("interpolated", call)["value"] for call in checks.calls("interpolated")}

    def remembers(length, trained):
        return known.get(str({"length": length, "trained": trained}), [0.0] * length)

    calls = hidden.calls("interpolated")
    results = [checks.run(remembers, call) for call in calls]
    assert checks.sentence("interpolated", calls[:6], results[:6], hidden.answer) == ""
    assert hidden.sentence("interpolated", calls, results) != ""


def test_solutions_are_right_on_all_calls():
    for task in ("multi_head", "hard_negative", "add_positions", "rejected_sorted"):
        calls = hidden.calls(task)
        assert hidden.sentence(task, calls, [checks.run(getattr(solutions, task), call) for call in calls]) == ""


def test_results_that_are_missing_are_told():
    calls = hidden.calls("tokens")
    results = [checks.run(solutions.tokens, call) for call in calls]
    assert "not called to the end" in hidden.sentence("tokens", calls, results[:-1])
    assert "not called to the end" in hidden.sentence("tokens", calls, None)


def test_texts_have_no_calls():
    assert hidden.calls("discussion") == [] and hidden.sentence("discussion", [], []) == ""
