"""The service shows where the facts of a concept come from, if the graph keeps it."""

from pathlib import Path

import pytest

import mhgrn
from mhgrn.kg import Fact, ImportOptions, build
from mhgrn.starter import FACTS

pytest.importorskip("fastapi")

from mhgrn.serve.models import ServedModel
from mhgrn.serve.schemas import ConceptFactsBody


def test_facts_of_a_concept_have_ids_and_provenance(tmp_path: Path) -> None:
    graph, _ = build([FACTS], "conceptnet", ImportOptions(provenance=True))
    graph.save(tmp_path / "graph")
    for kept, folder in ((False, None), (True, tmp_path / "graph")):
        found = ServedModel("model", mhgrn.load(kg=folder)).concept("child", 5)
        body = ConceptFactsBody.model_validate(found)
        assert len(body.facts) == 5
        for one in body.facts:
            fact = Fact(*one.fact)
            assert one.id == fact.id
            assert graph.fact(one.number) == fact
            expected = graph.provenance(fact)
            assert expected is not None
            assert (one.provenance is not None) == kept
            if one.provenance is not None:
                assert one.provenance.model_dump(exclude_defaults=True) == expected.to_dict()
