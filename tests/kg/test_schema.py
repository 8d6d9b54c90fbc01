"""The shipped schema is the published one; schemas are validated and survive a round trip."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mhgrn.errors import UserError
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.kg.schema import WORDINGS, Relation, Schema, load_schema, shipped_schemas

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


# Names of any letters, marks and spaces that a UTF-8 file can hold.
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).filter(str.strip)
names = texts.filter(lambda text: not text.startswith("*"))
glosses = texts.filter(lambda text: not set("{}") & set(text))
templates = st.tuples(glosses, glosses, glosses, st.booleans()).map(
    lambda t: t[0] + ("{head}" if t[3] else "{tail}") + t[1] + ("{tail}" if t[3] else "{head}") + t[2]
)


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    relations = []
    for name in draw(st.lists(names, min_size=1, max_size=4, unique_by=str.lower)):
        options = st.builds(lambda gloss, some, both: (gloss, tuple(some), both), glosses, st.lists(templates), st.booleans())
        relations.append((name, *draw(options)))
    taken = [name.lower() for name, *_ in relations]
    others = draw(st.lists(names.filter(lambda text: text.lower() not in taken), max_size=4, unique_by=str.lower))
    built = [
        Relation(name, (name, *(draw(st.sampled_from(["", "*"])) + o for o in others[i :: len(relations)])), *rest)
        for i, (name, *rest) in enumerate(relations)
    ]
    pruned = draw(st.lists(st.sampled_from([r.name for r in built]), unique=True))
    return Schema(draw(texts), tuple(built), tuple(pruned), tuple(draw(st.lists(texts, max_size=3))))


@settings(max_examples=50)
@given(schemas())
def test_a_schema_survives_json_and_yaml(tmp_path_factory: pytest.TempPathFactory, schema: Schema) -> None:
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    path = tmp_path_factory.mktemp("schemas") / "schema.yaml"
    path.write_bytes(schema.to_yaml().encode())
    assert load_schema(path) == schema


@settings(max_examples=40)
@given(st.lists(names, min_size=1, max_size=5))
def test_a_derived_schema_can_be_written_out_and_edited(tmp_path_factory: pytest.TempPathFactory, relations: list[str]) -> None:
    schema = Schema.derived(relations)
    assert {name.lower() for name in relations} == set(schema.lookup)
    path = tmp_path_factory.mktemp("schemas") / "schema.yaml"
    path.write_bytes(schema.to_yaml().encode())
    assert load_schema(path) == schema


@pytest.mark.parametrize("name", shipped_schemas())
def test_shipped_schemas_survive_json_and_yaml(name: str, tmp_path: Path) -> None:
    schema = load_schema(name)
    assert schema == Schema.shipped(name) == Schema.from_dict(json.loads(json.dumps(schema.to_dict())))
    (tmp_path / "mine.yaml").write_text(schema.to_yaml(), encoding="utf-8")
    assert load_schema(tmp_path / "mine.yaml") == schema


def test_conceptnets_relations_have_several_templates() -> None:
    for relation in Schema.shipped("conceptnet").relations:
        said = {relation.sentence("furniture_store", "desk", pick)[0] for pick in range(50)}
        assert len(said) == len(relation.templates) >= 3
        assert all("furniture store" in text and "desk" in text for text in said)
        assert not relation.symmetric  # the paper's graph keeps facts in one direction


@given(template=templates, head=texts, tail=texts, more=st.lists(templates, max_size=2), pick=st.integers(-9, 9))
def test_the_spans_of_a_sentence_are_head_and_tail(template: str, head: str, tail: str, more: list[str], pick: int) -> None:
    relation = Relation("R", templates=(template, *more))
    text, (start, end), (tail_start, tail_end) = relation.sentence(head, tail, pick)
    assert (text[start:end], text[tail_start:tail_end]) == (head.replace("_", " "), tail.replace("_", " "))
    (first, last), (second, second_last) = sorted([(start, end), (tail_start, tail_end)])
    around = [text[:first], text[last:second], text[second_last:]]
    picked = relation.templates[pick % (1 + len(more))]
    assert around == picked.replace("{head}", "\0").replace("{tail}", "\0").split("\0") or "\0" in picked


def test_a_derived_schema_names_every_relation_once_in_order() -> None:
    schema = Schema.derived(["made_of", "IsA", "made_of"])
    assert schema.relations == (
        Relation("IsA", ("IsA",), "is a", ("{head} is a {tail}",)),
        Relation("made_of", ("made_of",), "made of", ("{head} made of {tail}",)),
    )
    assert len(schema) == 2
    assert not schema.pruned_ids
    assert not schema.pruned_concepts


def test_a_relation_name_with_a_star_is_refused() -> None:
    with pytest.raises(UserError, match=r"'\*eats' begins with \*"):
        Schema.derived(["*eats"])


OWN = """\
name: mine
relations:
  - name: Eats
    members: [eats, "*eaten_by"]
    templates: ["{tail} is food for {head}"]
  - {name: Meets, symmetric: true}
pruned_relations: [meets]
pruned_concepts: [Any Thing]
"""


def test_a_schema_is_read_from_yaml(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(OWN)
    schema = load_schema(str(path))
    assert schema.lookup == {"eats": (0, False), "eaten_by": (0, True), "meets": (1, False)}
    assert schema.pruned_ids == {1}
    assert schema.pruned_concepts == ("any_thing",)
    assert [r.gloss for r in schema.relations] == ["eats", "meets"]
    assert [r.symmetric for r in schema.relations] == [False, True]
    assert schema.relations[0].sentence("cat", "mouse")[0] == "mouse is food for cat"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", " is empty; a schema needs `name` and `relations`"),
        ("# nothing\n", " is empty"),
        ("- a", ":1: a schema is a mapping with `name` and `relations`, not ['a']"),
        ("name: x", ":1: a schema needs `relations`"),
        ("relations: [{name: A}]", ":1: a schema needs `name`"),
        ("name: x\nrelations:", ":2: relations is empty, not a list"),
        ("name: x\nrelations: []", ":2: relations is empty; name at least one"),
        ("name: x\nrelations: {IsA: 1}", ":2: relations is {'IsA': 1}, not a list"),
        ("name: x\nrelations:\n- IsA\n", ":3: a relation is a mapping with `name`, not 'IsA'"),
        ("name: x\nrelations:\n- {members: [A]}", ":3: a relation needs `name`"),
        ("name: yes\nrelations:\n- {name: A}", ":1: name is True, not a text; put it in quotes"),
        ("name: x\nrelations:\n- {name: 5}", ":3: name is 5, not a text"),
        ("name: x\nrelations:\n- {name: ''}", ":3: name is an empty text"),
        ("name: x\nrelations:\n- name: A\n  members: eats", ":4: relation A: members is 'eats', not a list; write [eats]"),
        ("name: x\nrelations:\n- name: A\n  members: []", ":4: relation A: members is empty"),
        ("name: x\nrelations:\n- name: A\n  members: [B, '*']", ":4: relation A: a member without a name"),
        ("name: x\nrelations:\n- name: A\n  members:\n  - B\n  - 2", ":6: an entry of relation A: members is 2, not a text"),
        ("name: x\nrelations:\n- name: A\n  members: [B, '*b']", ":4: relation A: a member is given twice"),
        (
            "name: x\nrelations:\n- {name: A, members: [X]}\n- {name: B, members: ['*x']}",
            ":4: x is a member of two relations, A and B",
        ),
        ("name: x\nrelations:\n- {name: A}\n- {name: B}\n- {name: a}", ":5: relation a is given twice (A before; case"),
        ("name: x\nrelations:\n- {name: A}\n- {name: A}", ":4: relation A is given twice."),
        ("name: x\nrelations:\n- name: A\n  glos: is", ":4: unknown key glos of a relation. Did you mean gloss?"),
        ("name: x\nrelation: []", ":2: unknown key relation of a schema. Did you mean relations?"),
        ("name: x\nname: y\nrelations:\n- {name: A}", ":2: the key name is given twice"),
        ("name: x\nrelations:\n- name: A\n  gloss: a\n  gloss: b", ":5: the key gloss is given twice"),
        ("name: x\nrelations:\n- name: A\n  gloss: a {tail}", ":4: relation A: the gloss 'a {tail}' contains a brace"),
        ("name: x\nrelations:\n- name: A\n  symmetric: maybe", ":4: relation A: symmetric is 'maybe', not true or false"),
        (
            "name: x\nrelations:\n- name: A\n  templates:\n  - 'only {head}'",
            ":5: relation A: the template 'only {head}' must contain",
        ),
        ("name: x\nrelations:\n- {name: A, templates: ['{head} {tail} {head}']}", ":3: relation A: the template"),
        ("name: x\nrelations:\n- {name: A, templates: ['{head} {tail} {x}']}", ":3: relation A: the template"),
        ("name: x\nrelations:\n- {name: A, templates: ['{{head}} {tail}']}", ":3: relation A: the template"),
        ("name: x\nrelations:\n- name: A\n  templates:\n  - {head} eats {tail}", ":5: not YAML"),
        ("name: x\nrelations:\n- name: A\n  ask_tail: ['{tail}?']", ":4: relation A: '{tail}?' must contain {head} once"),
        ("name: x\nrelations:\n- name: A\n  ask_head: []", ":4: relation A: ask_head is empty"),
        ("name: x\nrelations:\n- name: A\n  describe_head: a {tail}", ":4: relation A: describe_head is 'a {tail}', not a list"),
        (f"name: x\nrelations:\n- name: A\n  templates: [{'x' * 9000}]", ":4: relation A: the template 'xxx"),
        (f"name: x\nrelations:\n- name: A\n  gloss: '{'{' * 9000}'", ":4: relation A: the gloss '{{{"),
        (f"name: x\nrelations:\n- name: A\n- name: {'b' * 9000}\n- name: {'b' * 9000}", ":5: relation bbb"),
        ("name: x\nrelations:\n- name: A\n  members: [*HasA]", ":4: not YAML"),
        ("name: x\nrelations: [", ":2: not YAML"),
        ("name: x\n\trelations: 1", ":2: not YAML"),
        ("name: !!python/object:os.system x", ":1: not YAML"),
        ("name: x\0", " is not YAML"),
        ("name: 2001-99-99", " is not YAML"),
        ("[" * 20_000, ":1: not YAML (nested more than 50 levels deep)"),
        ("&a [*a]", ":1: not YAML (an alias that contains itself)"),
        (OWN.replace("[meets]", "[Meet]"), ":7: pruned relation Meet is not one of the relations. Did you mean Meets?"),
        (OWN.replace("[meets]", "meets"), ":7: pruned_relations is 'meets', not a list; write [meets]"),
        (OWN.replace("[Any Thing]", "[1]"), ":8: an entry of pruned_concepts is 1, not a text"),
        (OWN.replace("pruned_concepts", "pruned"), ":8: unknown key pruned of a schema. Known: name, pruned_concepts"),
    ],
)
def test_an_invalid_schema_is_refused_with_file_and_line(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(UserError) as refused:
        load_schema(path)
    assert str(refused.value).startswith(f"{path}{says}")
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < len(str(path)) + 400


def test_a_file_in_another_encoding_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_bytes("name: é".encode("latin-1"))
    with pytest.raises(UserError, match=r"mine\.yaml is not UTF-8"):
        load_schema(tmp_path / "mine.yaml")


def test_an_unknown_schema_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'conceptnett' is neither a shipped schema nor a file\. Did you mean conceptnet"):
        load_schema("conceptnett")
    with pytest.raises(UserError, match=r"nowhere\.yaml' is neither a shipped schema nor a file"):
        load_schema(tmp_path / "nowhere.yaml")
    with pytest.raises(UserError, match="is a folder"):
        load_schema(tmp_path)
    with pytest.raises(UserError, match="'other' is not a shipped schema"):
        Schema.shipped("other")


def test_the_schema_in_the_documentation_is_valid(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "knowledge-graphs.md").read_text(encoding="utf-8")
    (block,) = [text for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "relations:" in text]
    (tmp_path / "mine.yaml").write_text(block, encoding="utf-8")
    schema = load_schema(tmp_path / "mine.yaml")
    assert schema.lookup == {"partof": (0, False), "hasa": (0, True), "goeswith": (1, False), "soldby": (2, False)}
    assert (schema.pruned_ids, schema.pruned_concepts) == ({2}, ("thing", "kitchen_stuff"))
    assert [relation.symmetric for relation in schema.relations] == [False, True, False]


questions = st.tuples(glosses, glosses)


@st.composite
def worded_relations(draw: st.DrawFn) -> Relation:
    made = {
        name: tuple(f"{a}{{{'head' if name.endswith('tail') else 'tail'}}}{b}" for a, b in draw(st.lists(questions, max_size=2)))
        for name in WORDINGS
    }
    return Relation(draw(st.sampled_from(["IsA", "other"])), **{k: v for k, v in made.items() if v or draw(st.booleans())})


@settings(max_examples=50)
@given(worded_relations(), st.sampled_from(["conceptnet", "mine"]))
def test_question_wordings_survive_json_and_yaml_and_change_no_identity(
    tmp_path_factory: pytest.TempPathFactory, relation: Relation, name: str
) -> None:
    schema = Schema(name, (relation,))
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    path = tmp_path_factory.mktemp("schemas") / "schema.yaml"
    path.write_bytes(schema.to_yaml().encode())
    assert load_schema(path) == schema
    assert schema.identity() == Schema(name, (Relation(relation.name),)).identity()


def test_a_schema_stored_before_question_wordings_gets_those_of_its_shipped_schema() -> None:
    shipped = Schema.shipped("conceptnet")
    assert shipped.to_dict() == shipped.identity()
    assert Schema.from_dict(json.loads(json.dumps(shipped.identity()))) == shipped
    other = Schema.from_dict({"name": "mine", "relations": [{"name": "IsA", "gloss": "is a"}]}).relations[0]
    assert other.question("house_cat", "tail") == "House cat is a what?"
    assert other.question("house_cat", "head") == "What is a house cat?"
    assert other.description("house_cat", "head") == "something that is a house cat"


def test_the_fingerprint_of_a_graph_does_not_depend_on_question_wordings() -> None:
    facts = [("cat", "IsA", "animal")]
    graph = KnowledgeGraph.from_facts(facts, Schema.shipped("conceptnet"))
    assert graph.fingerprint == "d52483aa4cb3b59d29e0"  # as of the versions before there were question wordings
    asked = Schema("s", (Relation("IsA", ask_tail=("{head}?",), describe_head=()),))
    assert (
        KnowledgeGraph.from_facts(facts, asked).fingerprint
        == KnowledgeGraph.from_facts(facts, Schema("s", (Relation("IsA"),))).fingerprint
    )


def test_conceptnets_relations_have_several_questions_for_each_end() -> None:
    for relation in Schema.shipped("conceptnet").relations:
        for asked in ("head", "tail"):
            said = {relation.question("furniture_store", asked, pick) for pick in range(60)}
            assert len(said) >= 3
            assert all("furniture store" in text.lower() and text[0].isupper() and text.endswith("?") for text in said)
