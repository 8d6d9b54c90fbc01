"""The example with diseases and signs, on an ontology of ten terms."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[1] / "examples" / "phenotypes.py"
TERM = '[Term]\nid: HP:{0}\nname: Sign {0}\nsynonym: "Trouble {0}" EXACT layperson []\nsynonym: "Thing {0}" BROAD []\n'


@pytest.fixture
def example() -> Any:
    spec = importlib.util.spec_from_file_location("phenotypes", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_questions_have_one_right_choice_and_hide_what_states_it(tmp_path: Path, example: Any) -> None:
    obo = tmp_path / "hp.obo"
    obo.write_text(
        "format-version: 1.2\n\n"
        + "\n".join(TERM.format(i) for i in range(30))
        + "\n[Term]\nid: HP:99\nname: x\nis_obsolete: true\n"
    )
    terms = example.read_terms(obo)
    assert terms["HP:3"] == ["Sign 3", "Trouble 3"]
    assert len(terms) == 30
    hpoa = tmp_path / "phenotype.hpoa"
    rows = [f"OMIM:{d}\tDisease {d}\t\tHP:{(3 * d + i) % 30}\tP\n" for d in range(10) for i in range(9)]
    rows += ["OMIM:0\tDisease 0\tNOT\tHP:29\tP\n", "OMIM:0\tDisease 0\t\tHP:28\tI\n"]
    hpoa.write_text("#version\ndatabase_id\tdisease_name\tqualifier\thpo_id\taspect\n" + "".join(rows))
    names, signs = example.read_annotations(hpoa)
    assert signs["OMIM:0"] == {f"HP:{i}" for i in range(9)}
    questions = example.make_questions(terms, names, signs, 10)
    assert questions == example.make_questions(terms, names, signs, 10)
    for question in questions:
        right = question["choices"]["ABCDE".index(question["answer"])]
        held_out = {sign for _, _, sign in question["hide"]}
        assert {disease for disease, _, _ in question["hide"]} == {right}
        assert [names[d] for d in names if held_out & signs[d] and names[d] in question["choices"]] == [right]
        assert all(terms[sign][1].lower() in question["question"] for sign in held_out)
