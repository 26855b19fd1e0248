"""What a study asks of its members."""

import pytest

from hkflow.case.load import load_case
from hkflow.studies.members import as_member

RINGS = "cases/quickstart/rings.toml"


@pytest.mark.parametrize(
    ("curves", "seconds"), [([], 0.0), (["objective", "own"], 0.0), (["objective", "margin"], 5.0)]
)
def test_max_margins_are_sought_where_they_are_drawn(curves, seconds):
    case = as_member(load_case(RINGS), curves).case
    assert (case.error.companions, case.certificate.seconds) == ("none", seconds)


def test_what_a_case_asks_for_stays():
    file = load_case(RINGS, {"certificate.seconds": 2.0, "error.companions": "own"})
    case = as_member(file, []).case
    assert (case.error.companions, case.certificate.seconds) == ("own", 2.0)
    assert load_case(RINGS).case.certificate.seconds == 5.0
