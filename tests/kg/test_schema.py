"""The shipped schema is the published one; schemas of one's own are checked."""

from pathlib import Path

import pytest

from mhgrn.errors import UserError
from mhgrn.kg.importers import load_schema
from mhgrn.kg.schema import Relation, Schema

PUBLISHED_ORDER = """antonym atlocation capableof causes createdby isa desires hassubevent partof hascontext hasproperty madeof
    notcapableof notdesires receivesaction relatedto usedfor""".split()
PUBLISHED_MERGES = {
    "atlocation": "AtLocation LocatedNear",
    "capableof": "CapableOf",
    "causes": "Causes CausesDesire *MotivatedByGoal",
    "createdby": "CreatedBy",
    "desires": "Desires",
    "antonym": "Antonym DistinctFrom",
    "hascontext": "HasContext",
    "hasproperty": "HasProperty",
    "hassubevent": "HasSubevent HasFirstSubevent HasLastSubevent HasPrerequisite Entails MannerOf",
    "isa": "IsA InstanceOf DefinedAs",
    "madeof": "MadeOf",
    "notcapableof": "NotCapableOf",
    "notdesires": "NotDesires",
    "partof": "PartOf *HasA",
    "relatedto": "RelatedTo SimilarTo Synonym",
    "usedfor": "UsedFor",
    "receivesaction": "ReceivesAction",
}


def test_conceptnets_relations_have_the_published_order_members_and_pruning() -> None:
    schema = Schema.shipped("conceptnet")
    assert [r.name.lower() for r in schema.relations] == PUBLISHED_ORDER
    expected = {
        member.removeprefix("*").lower(): (PUBLISHED_ORDER.index(merged), member.startswith("*"))
        for merged, members in PUBLISHED_MERGES.items()
        for member in members.split()
    }
    assert schema.lookup == expected
    assert schema.pruned_ids == {PUBLISHED_ORDER.index("hascontext")}
    assert set(schema.pruned_concepts) == {"uk", "us", "take", "make", "object", "person", "people"}
    assert schema.relations[0].gloss == "is the antonym of"
    assert schema.relations[14].gloss == "is"


def test_a_schema_survives_being_plain_data() -> None:
    for schema in (Schema.shipped("conceptnet"), Schema.derived(["b_c", "a"])):
        assert Schema.from_dict(schema.to_dict()) == schema


def test_a_derived_schema_names_every_relation_once_in_order() -> None:
    schema = Schema.derived(["made_of", "IsA", "made_of"])
    assert schema.relations == (Relation("IsA", ("IsA",), "IsA"), Relation("made_of", ("made_of",), "made of"))
    assert len(schema) == 2
    assert not schema.pruned_ids
    assert not schema.pruned_concepts


def test_a_relation_cannot_be_part_of_two() -> None:
    relations = [{"name": "A", "members": ["X"]}, {"name": "B", "members": ["*x"]}]
    with pytest.raises(UserError, match="member of two relations"):
        _ = Schema.from_dict({"name": "mine", "relations": relations}).lookup


def test_a_schema_of_ones_own_is_read_from_yaml(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\nrelations:\n - {name: Eats, members: [eats, '*eaten_by']}\npruned_concepts: [thing]\n")
    schema = load_schema(str(path))
    assert schema.lookup == {"eats": (0, False), "eaten_by": (0, True)}
    assert schema.pruned_concepts == ("thing",)
    assert schema.relations[0].gloss == "Eats"


@pytest.mark.parametrize(
    "text",
    ["", "[", "name: x", "relations: [IsA]", "name: x\nrelations: [{name: A}]", "name: x\nrelations: [{members: [A]}]", "- a"],
)
def test_a_file_that_is_no_schema_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match="is not a schema"):
        load_schema(str(path))


def test_members_must_be_a_list(tmp_path: Path) -> None:
    """A lone word would otherwise be taken for the list of its letters."""
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\nrelations: [{name: Eats, members: eats}]\n")
    try:
        schema = load_schema(str(path))
    except UserError:
        return
    assert "eats" in schema.lookup


def test_an_unknown_schema_suggests_a_known_one() -> None:
    with pytest.raises(UserError, match="Did you mean conceptnet"):
        load_schema("conceptnett")
