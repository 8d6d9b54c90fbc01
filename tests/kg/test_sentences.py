"""Facts read as sentences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mhgrn.errors import UserError
from mhgrn.kg import KnowledgeGraph
from mhgrn.kg.graph import Fact
from mhgrn.kg.schema import FORMS, Relation, Schema
from mhgrn.kg.sentences import fact_sentence, label, phrase, state

CONCEPTNET = Schema.shipped("conceptnet")


@pytest.mark.parametrize(
    ("fact", "sentence"),
    [
        ("child AtLocation classroom", "A child is found in a classroom."),
        ("classroom IsA schoolroom", "A classroom is a kind of schoolroom."),
        ("chimney AtLocation roof", "A chimney is found on a roof."),
        ("guest AtLocation party", "A guest is found at a party."),
        ("students AtLocation school", "Students are found at a school."),
        ("water AtLocation glass", "Water is found in glass."),
        ("paris IsA city", "Paris is a city."),
        ("statue AtLocation new_york", "A statue is found in New York."),
        ("hot Antonym cold", "“Hot” is the opposite of “cold”."),
        ("dog CapableOf bark", "A dog can bark."),
        ("planet CapableOf orbit_sun", "A planet can orbit the sun."),
        ("mattress ReceivesAction flip", "A mattress can be flipped."),
        ("visiting_nurse IsA nurse", "A visiting nurse is a kind of nurse."),
        ("drinking_water IsA water", "Drinking water is a kind of water."),
        ("manure HasProperty smelly", "Manure is smelly."),
        ("pisciculture IsA farming", "Pisciculture is a kind of farming."),
        ("father CapableOf drive_car", "A father can drive a car."),
        ("airplane CapableOf flying", "An airplane can fly."),
        ("play_football Causes injury", "Playing football can lead to an injury."),
        ("rain Causes flood", "Rain can lead to a flood."),
        ("painting CreatedBy artist", "A painting is created by an artist."),
        ("dog Desires play_outside", "A dog wants to play outside."),
        ("people Desires food", "People want food."),
        ("go_to_school HasSubevent learn", "Going to school involves learning."),
        ("four_wheels PartOf car", "Four wheels are part of a car."),
        ("quark HasContext physics", "“Quark” is a word used in physics."),
        ("ice HasProperty cold", "Ice is cold."),
        ("table MadeOf wood", "A table is made of wood."),
        ("stone NotCapableOf swim", "A stone cannot swim."),
        ("cat NotDesires take_bath", "A cat does not want to take a bath."),
        ("children NotDesires homework", "Children do not want homework."),
        ("bread ReceivesAction bake", "Bread can be baked."),
        ("child RelatedTo toy", "“Child” is related to “toy”."),
        ("scissors UsedFor cutting_paper", "Scissors are used for cutting paper."),
        ("swimming_pool UsedFor swim", "A swimming pool is used for swimming."),
        ("tv UsedFor entertainment", "A TV is used for entertainment."),
    ],
)
def test_facts_of_conceptnet(fact: str, sentence: str) -> None:
    assert fact_sentence(CONCEPTNET, Fact(*fact.split())) == sentence


@pytest.mark.parametrize(
    ("relation", "sentence"),
    [
        ("treats", "An aspirin treats a headache."),
        ("relatedTo", "An aspirin is related to a headache."),
        ("madeOf", "An aspirin is made of a headache."),
        ("instance_of", "An aspirin is an instance of a headache."),
        ("sideEffect", "The side effect of an aspirin is a headache."),
        ("hasURL", "An aspirin has URL a headache."),
    ],
)
def test_relations_of_any_graph(relation: str, sentence: str) -> None:
    graph = KnowledgeGraph.from_facts([("pill", relation, "headache")])
    (fact,) = graph.facts()
    assert fact_sentence(graph.schema, fact._replace(head="aspirin2")) == sentence.replace("aspirin", "aspirin2")


def test_a_relation_with_templates_is_said_by_the_first_one() -> None:
    relation = Relation("Eats", templates=("{head} eats {tail}.", "{tail} is eaten by {head}."))
    assert fact_sentence(Schema("own", (relation,)), Fact("cats", "Eats", "fish")) == "Cats eat fish."


def test_a_statement_survives_json_and_yaml_and_changes_no_identity() -> None:
    own = Schema("own", (Relation("Eats", statement="{head} eats {tail:plain}"),))
    assert Schema.from_dict(own.to_dict()) == own
    assert Schema._read(own.to_yaml(), "own.yaml") == own
    assert own.identity() == Schema("own", (Relation("Eats"),)).identity()
    assert Schema.from_dict(CONCEPTNET.identity()) == CONCEPTNET  # a graph that was stored before there were statements


@pytest.mark.parametrize("statement", ["{head} eats", "{head} {head} {tail}", "{head} eats {tail} {", "{head:big} eats {tail}"])
def test_a_wrong_statement_is_refused(statement: str) -> None:
    with pytest.raises(UserError, match="statement"):
        Relation("Eats", statement=statement)


@given(st.text(), st.text(), st.sampled_from(FORMS))
def test_every_name_can_be_said(head: str, tail: str, form: str) -> None:
    """Also empty names, spaces and braces; the words themselves stay."""
    text = state("{head} eats {tail:plain}", head, tail)
    assert text.endswith(".")
    assert label(tail).strip().rstrip(".") in text
    assert isinstance(phrase(head, form), str)
