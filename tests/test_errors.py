"""Messages suggest the name that was probably meant."""

from mhgrn.errors import did_you_mean


def test_a_near_name_is_suggested_and_all_names_otherwise() -> None:
    assert did_you_mean("AtLocatoin", ["AtLocation", "IsA"]) == " Did you mean AtLocation?"
    assert did_you_mean("zzz", ["b", "a"]) == " Known: a, b."
