from problem1.shared.words import listing, number, span


def test_span_says_a_number_once():
    assert span([0.111, 0.5, 0.19]) == "0.11 to 0.50" and span([1.0, 0.999]) == "1.00" and span([3, 5], "d") == "3 to 5"


def test_zero_has_no_sign():
    assert number(-0.001) == "0.00" and number(-0.01) == "-0.01" and span([-0.001, 0.5]) == "0.00 to 0.50"


def test_listing():
    assert [listing(x) for x in ([], ["a"], ["a", "b"], "abc")] == ["none", "a", "a and b", "a, b and c"]
