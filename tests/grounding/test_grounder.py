"""Grounding: the published rules against themselves written out naively, and each rule of ours on a text that needs it.

All of our rules together are compared with the plain reference in tests/test_networkx_reference.py.
"""

import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mhgrn.grounding.grounder import Grounder, Mentions
from mhgrn.grounding.index import ConceptIndex
from mhgrn.grounding.kernels import MOST_SPANS, MOST_WORDS
from mhgrn.grounding.lemmas import BLACKLIST, STOP_WORDS, lemma, tokenize
from mhgrn.grounding.statements import fill_in_the_blank
from mhgrn.kg import KnowledgeGraph

EDGE = set("my you it its your i he she his her they them their our we".split())
WORDS = """desk desks school schools bake bakes baker bak the of it want wanted make one something store child children go going
    went see saw seen to my could be at""".split()
phrases = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
vocabularies = st.lists(phrases.map(lambda p: p.replace(" ", "_")), min_size=2, max_size=25, unique=True)
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=10).map(" ".join)


def graph_of(*names: str) -> KnowledgeGraph:
    return KnowledgeGraph.from_facts([(name, "RelatedTo", "zebra") for name in names])


def naive_pattern(concept: str) -> list[str] | None:
    words = tokenize(concept)
    if len(words) >= 5 or words[0] in EDGE or words[-1] in EDGE:
        return None
    if all(w in STOP_WORDS or lemma(w) in STOP_WORDS or lemma(w) in BLACKLIST for w in words):
        return None
    return [lemma(w) for w in words]


def naive_ground(vocabulary: set[str], text: str, answer: str | None) -> set[str]:
    words = tokenize(text)
    spans: dict[str, set[str]] = {}
    for concept in vocabulary:
        pattern = naive_pattern(concept)
        if pattern is None:
            continue
        for start in range(len(words)):
            span = words[start : start + len(pattern)]
            if [lemma(w) for w in span] != pattern or (answer is not None and span == tokenize(answer)):
                continue
            candidates = spans.setdefault(" ".join(span), set())
            candidates.add(concept)
            if len(pattern) == 1:
                candidates.add(lemma(concept))
    found = set()
    for span_text, candidates in spans.items():
        shortest = sorted(candidates, key=lambda c: (len(c), c))[:3]
        for concept in shortest:
            if concept not in BLACKLIST:
                root = "_".join(lemma(w) for w in tokenize(concept))
                found.add(root if root in shortest else concept)
        found |= {c for c in candidates if c == span_text.replace(" ", "_")}
    return found


def naive_hard_ground(vocabulary: set[str], text: str) -> set[str]:
    whole = text.lower().replace(" ", "_")
    return {lemma(w) if lemma(w) in vocabulary else w for w in tokenize(text)} & vocabulary | {whole} & vocabulary


def naive_mentions(vocabulary: set[str], statement: str, choice: str) -> tuple[set[str], set[str]]:
    answer = naive_ground(vocabulary, choice, None)
    question = naive_ground(vocabulary, statement, choice) - answer
    answer = answer or naive_hard_ground(vocabulary, choice)
    question = question or naive_hard_ground(vocabulary, statement)

    def pruned(side: set[str]) -> set[str]:
        return {
            c for c in side & vocabulary if not (c.endswith("er") and c[:-2] in side) and not (c.endswith("e") and c[:-1] in side)
        }

    question = {c for c in pruned(question) if not any(w in STOP_WORDS for w in c.split("_"))}
    answer = {c for c in pruned(answer) if not all(w in STOP_WORDS for w in c.split("_"))}
    return question - answer, answer


@settings(max_examples=80)
@given(vocabulary=vocabularies, text=texts, answer=st.one_of(st.none(), phrases))
def test_the_concepts_of_a_text_are_those_of_the_published_rules(vocabulary: list[str], text: str, answer: str | None) -> None:
    graph = graph_of(*vocabulary)
    assert Grounder(graph, published=True).concepts(text, answer) == sorted(naive_ground({*vocabulary, "zebra"}, text, answer))


@settings(max_examples=80)
@given(vocabulary=vocabularies, before=texts, choice=phrases, after=texts)
def test_the_sides_of_a_statement_are_those_of_the_published_rules(
    vocabulary: list[str], before: str, choice: str, after: str
) -> None:
    graph = graph_of(*vocabulary)
    statement = f"{before} {choice} {after}"
    question, answer = naive_mentions({*vocabulary, "zebra"}, statement, choice)
    expected = Mentions(sorted(map(graph.id, question)), sorted(map(graph.id, answer)))
    assert Grounder(graph, published=True).mentions(statement, choice) == expected


def test_exact_mentions_of_the_answer_are_skipped_but_not_their_parts() -> None:
    grounder = Grounder(graph_of("furniture_store", "store", "furniture", "desk"))
    text = "Furniture store desks are in a furniture store, not in furniture stores"
    assert grounder.concepts(text) == ["desk", "furniture", "furniture_store", "store"]
    assert "furniture_store" not in grounder.concepts("A desk in a furniture store", "Furniture Store")
    assert {"furniture", "store"} <= set(grounder.concepts("A desk in a furniture store", "furniture store"))
    assert "furniture_store" in grounder.concepts(text, "furniture store")  # the plural is another span


def test_the_three_shortest_are_kept_and_the_one_spelled_out() -> None:
    names = ["see_dog", "sees_dog", "saw_dogs", "seeing_dog", "seeing_dogs"]
    grounder = Grounder(graph_of(*names))
    assert grounder.concepts("saw dog") == ["see_dog"]  # the others are forms of it
    assert grounder.concepts("seeing dogs") == ["see_dog", "seeing_dogs"]


def names(graph: KnowledgeGraph, found: Mentions) -> tuple[list[str], list[str]]:
    return [graph.name(c) for c in found.question], [graph.name(c) for c in found.answer]


def test_a_longer_form_of_the_same_word_is_dropped() -> None:
    graph = graph_of("high", "higher", "farm", "farmer")
    statement = "a farmer has a farm higher up"
    assert names(graph, Grounder(graph).mentions(statement, "hill")) == (["high", "farm", "farmer"], [])
    assert names(graph, Grounder(graph, published=True).mentions(statement, "hill")) == (["high", "farm"], [])
    assert Grounder(graph).concepts("higher") == ["high"]
    assert Grounder(graph_of("higher")).concepts("higher") == ["higher"]


def test_a_lemma_that_is_not_a_concept_does_not_replace_one() -> None:
    assert Grounder(graph_of("running")).concepts("she runs") == ["running"]
    assert Grounder(graph_of("running"), published=True).concepts("she runs") == ["run"]  # which is then dropped
    assert Grounder(graph_of("running", "run")).concepts("she runs") == ["run"]


def test_a_stop_word_in_a_concept_of_the_question_drops_it_by_the_published_rules_only() -> None:
    graph = graph_of("go_to_school", "school", "have_fun", "why", "of_the")
    statement, choice = "Why do children go to school and have fun of the bus", "bus"
    assert names(graph, Grounder(graph).mentions(statement, choice))[0] == ["go_to_school", "school", "have_fun"]
    assert names(graph, Grounder(graph, published=True).mentions(statement, choice))[0] == ["school"]
    for published in (False, True):
        found = Grounder(graph, published).mentions("Children often", "go to school")
        assert names(graph, found)[1] == ["go_to_school", "school"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("She rides a bike", ["ride_bike"]),
        ("riding the bike", ["ride_bike", "riding_bike"]),
        ("he rode his bike", ["ride_bike"]),
        ("They wait their turn.", ["wait_turn"]),
        ("apply for a job at the store", ["apply_for_job"]),
        ("ride a new bike", []),
        ("ride, a bike", []),
        ("the bike they ride", []),
        ("they watched the sky in the city at night", ["watch_sky_in_city"]),
    ],
)
def test_articles_and_possessives_inside_a_span_are_skipped(text: str, found: list[str]) -> None:
    graph = graph_of("ride_bike", "riding_bike", "wait_turn", "apply_for_job", "watch_sky_in_city")
    assert Grounder(graph).concepts(text) == found
    assert Grounder(graph, published=True).concepts(text) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("the dog's bowl", ["bowl", "dog", "dog_bowl"]),
        ("James' car", ["car", "james"]),
        ("an x-ray of ice-cream", ["ice_cream", "x-ray"]),
        ("an x ray of Ice Cream", ["ice_cream", "x-ray"]),
        ("ice creams, X-RAYS", ["ice_cream", "x-ray"]),
        ("a grey theatre in colour", ["color", "gray", "theater"]),
        ("Grey hair colours", ["color", "gray", "gray_hair"]),
        ("travelling travellers", ["travel", "traveller"]),
        ("the cafe\u0301, CAFÉ, ｃａｆé", ["cafe"]),
        ("naïve", ["naive"]),
        ("3rd of 2,000 in 10", ["10", "2000", "3rd"]),
        ("“DOG”", ["dog"]),
        ("🐶 dog🐶", ["dog", "🐶"]),
        ("playing", ["play"]),
    ],
)
def test_unusual_texts(text: str, found: list[str]) -> None:
    graph = graph_of(
        *"dog bowl dog_bowl james car x-ray ice_cream gray theater color gray_hair travel traveller".split(),
        *"cafe naive 10 2000 3rd 🐶 play".split(),
    )
    assert Grounder(graph).concepts(text) == found


def test_british_and_american_spellings_find_the_same_concepts() -> None:
    graph = graph_of("colour", "color", "gray", "tyre", "tire")
    assert Grounder(graph).concepts("a colour") == ["color", "colour"]
    assert Grounder(graph).concepts("COLOURS") == Grounder(graph).concepts("a color") == ["color"]
    assert Grounder(graph_of("colour")).concepts("a color") == ["colour"]
    assert Grounder(graph).concepts("a grey tyre") == ["gray", "tyre"]


def test_separated_and_misspelled_words_are_found_if_nothing_else_is() -> None:
    graph = graph_of("saltshaker", "salt", "writing_instrument", "instrument", "sit_quietly", "hit", "cable")
    assert Grounder(graph).concepts("a salt shaker") == ["salt", "saltshaker"]
    assert Grounder(graph).concepts("his writing insturment") == ["instrument", "writing_instrument"]
    assert Grounder(graph).concepts("he was sittting quietly") == ["sit_quietly"]
    assert Grounder(graph).concepts("a table") == []  # a word, though it is no concept
    assert Grounder(graph, published=True).concepts("his writing insturment, a salt shaker") == ["salt"]


def test_both_spellings_of_a_hyphenated_concept_are_found() -> None:
    graph = graph_of("x-ray", "x_ray")
    for text in ("x-ray", "x ray"):
        assert Grounder(graph).concepts(text) == ["x-ray", "x_ray"]


def test_a_choice_is_skipped_without_outer_punctuation() -> None:
    graph = graph_of("pretty_flower", "pretty_flowers", "flower")
    assert Grounder(graph).concepts("pretty flowers was it", "Pretty flowers.") == ["flower"]
    assert Grounder(graph).concepts("pretty flowers was it", '"pretty flowers"') == ["flower"]
    assert Grounder(graph_of("3.5")).concepts("it was 3.5", "3.5.") == []


def test_the_fallback_finds_a_whole_text_of_many_words() -> None:
    graph = graph_of("to_go_on_and_on_for_it", "desk")
    for choice in ("To go on and on for it", "to go on and on for it.", "to go on-and-on for it"):
        assert names(graph, Grounder(graph).mentions("desks", choice)) == (["desk"], ["to_go_on_and_on_for_it"])


def test_the_fallback_is_any_word_of_the_vocabulary() -> None:
    graph = graph_of("one", "make", "the", "make_it")
    found = Grounder(graph).mentions("The one we made", "make it")
    assert [graph.name(c) for c in found.answer] == ["make", "make_it"]
    assert [graph.name(c) for c in found.question] == ["one"]


@pytest.mark.parametrize(
    ("statement", "choice"), [("", ""), ("?", "!"), ("Nothing known here", "either"), ("desk", "desk"), ("😀", "👍"), (" ", "…")]
)
def test_texts_without_concepts_have_empty_sides(statement: str, choice: str) -> None:
    found = Grounder(graph_of("desk")).mentions(statement, choice)
    assert found == Mentions([], [0] if choice == "desk" else [])


def test_a_graph_of_pronouns_finds_no_concepts() -> None:
    grounder = Grounder(KnowledgeGraph.from_facts([("it", "IsA", "you")]))
    assert grounder.concepts("It is you") == []


def test_grounding_does_not_depend_on_the_hash_seed() -> None:
    script = """
from mhgrn.kg import KnowledgeGraph
from mhgrn.grounding.grounder import Grounder
names = ["saw", "see", "sees", "seen", "seeing", "saw_desk", "see_desks", "seen_desk", "sees_desk", "desk"]
graph = KnowledgeGraph.from_facts([(n, "RelatedTo", "zebra") for n in names])
print(Grounder(graph).concepts("he saw desks"), Grounder(graph).mentions("seen a desk", "saw"))
"""
    runs = [
        subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        )
        for seed in ("1", "2")
    ]
    assert runs[0].stdout == runs[1].stdout
    assert "see" in runs[0].stdout


@pytest.mark.parametrize(
    "part",
    ["dog ", "the ", "dog the ", "what? ", "what, ", "who ? . ", "people who ", "'s", "-", "a-", "1,000", ". ", "__ ", "é", "😀"],
)
def test_long_texts_take_linear_time(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand characters of anything: a few spans for each word, none of them repeated at length."""
    stem = (part * 10_000)[:10_000]
    words = tokenize(stem)
    statement = fill_in_the_blank(stem, "a dog")
    found = Grounder(graph_of("dog", "cat")).mentions(statement, "a dog")
    assert found.answer == [0]
    assert found.question == []
    monkeypatch.setattr(ConceptIndex, "may_begin_new", lambda *_: True)  # look at every span
    matcher = Grounder(graph_of("dog"))._matcher()
    matcher.find_spans([matcher.numbered(stem)], [b""])
    spans = matcher.spans
    assert spans.count <= MOST_SPANS * len(words)
    assert spans.ptr[spans.count] <= 4 * MOST_WORDS * len(words)


@given(st.lists(st.sampled_from(["dog", "the", "odd"]), min_size=1, max_size=40))
def test_no_text_has_more_spans_than_there_is_room_for(words: list[str]) -> None:
    matcher = Grounder(graph_of("dog").with_facts([(f"{word} x", "RelatedTo", "animal") for word in words]))._matcher()
    _, spans = matcher.find_spans([matcher.numbered(" ".join(words))], [b""])
    assert len(spans) <= MOST_SPANS * len(words)
    assert sum(map(len, (matcher.words_of(span, span + 1)[0] for span in spans.tolist()))) <= MOST_WORDS * len(words)


@settings(max_examples=60)
@given(
    first=vocabularies,
    more=st.lists(st.tuples(phrases, phrases).filter(lambda ends: ends[0] != ends[1]), min_size=1, max_size=4),
    text=st.lists(st.sampled_from([*WORDS, "desksto", "re", "scho", "ol", "ols", "schoool", "ch\u0301ild"]), max_size=10).map(
        " ".join
    ),
    published=st.booleans(),
)
def test_a_graph_with_more_facts_finds_what_the_same_graph_built_at_once_finds(
    first: list[str], more: list[tuple[str, str]], text: str, published: bool
) -> None:
    facts = [(head.replace(" ", "_"), "RelatedTo", tail.replace(" ", "_")) for head, tail in more]
    at_once = KnowledgeGraph.from_facts([*((name, "RelatedTo", "zebra") for name in first), *facts])
    extended = graph_of(*first).with_facts(facts)
    assert Grounder(extended, published).concepts(text) == Grounder(at_once, published).concepts(text)


LONG = 200_000


@pytest.mark.parametrize(
    "text",
    [
        "a" * LONG,
        "ab" * (LONG // 2),
        "a" + "\u0301\u0316" * (LONG // 2),
        "a" + "\uff9e\u0301" * (LONG // 2),
        " " * LONG,
        "-'" * LONG,
    ],
    ids=["one letter", "two letters", "marks", "wide marks", "spaces", "hyphens"],
)
def test_a_word_of_any_length_takes_linear_time(text: str) -> None:
    """Each takes minutes or hours if every letter is compared with every other."""
    for graph in (graph_of("dog", "cat"), graph_of("dog").with_facts([("cat", "RelatedTo", "animal")])):
        assert Grounder(graph).mentions(f"{text} dog", "cat") == Mentions([0], [2])


def test_a_misspelled_word_of_any_length_is_found() -> None:
    word, added = "ab" * (LONG // 4), "ab" * 5_000  # a name of an added fact may have 10,000 characters
    of_facts = graph_of("dog").with_facts([(added, "RelatedTo", "dog"), (added, "RelatedTo", "zebra")])
    for graph, name in ((graph_of(word, "dog"), word), (of_facts, added)):
        for misspelt in (name[:999] + name[1000:], name[:999] + "x" + name[999:], name[:999] + "x" + name[1000:], "ba" + name[2:]):
            assert Grounder(graph).concepts(misspelt) == [name]


def test_the_cache_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mhgrn.grounding.grounder.CACHED", most := 1 << 23)
    grounder = Grounder(graph_of("dog"))
    sizes = []
    for number in range(60):
        grounder.mentions(f"dog {'ab' * 50_000}{number}", f"{'x' * 50_000}{number}")
        sizes += [matcher.size for matcher in grounder._matchers._free]
    assert max(sizes) <= most
    assert sizes.count(min(sizes)) > 1  # began anew


def test_many_statements_are_grounded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    statements = [f"{'the dog ' * number}has a bowl {number}" for number in range(9)]
    choices = ["a bowl", "dogs", "cat"] * 3
    graph = graph_of("dog", "cat", "bowl", "dog_bowl")
    expected = Grounder(graph).mentioned(statements, choices, [3, 3, 3]).mentions()
    monkeypatch.setattr("mhgrn.grounding.grounder.AT_ONCE", 50)
    monkeypatch.setattr("mhgrn.grounding.matching.AT_ONCE", 6)
    assert Grounder(graph).mentioned(statements, choices, [3, 3, 3]).mentions() == expected
    assert Grounder(graph).mentioned([], [], []).mentions() == []


def test_clearing_the_cache_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    grounder = Grounder(graph_of("dog", "cat"))
    first = grounder.mentions("dogs and cats", "cat")
    monkeypatch.setattr("mhgrn.grounding.grounder.CACHED", 0)
    assert grounder.mentions("dogs and cats", "cat") == first == Mentions([0], [2])


def test_a_long_stem_has_the_concepts_of_its_parts() -> None:
    grounder = Grounder(graph_of("dog", "cat", "dog_bowl", "ride_bike"))
    parts = ["Dogs ride a bike.", "The cat's here; so is the dog's bowl!"]
    assert grounder.concepts(" ".join(parts * 200)) == sorted({c for part in parts for c in grounder.concepts(part)})


@given(
    before=st.lists(st.sampled_from(["dog", "the", "a", "big", "sits", "x-ray", "cats,", "ride"]), max_size=6),
    after=st.lists(st.sampled_from(["bike", "the", "dogs", "house.", "'s", "on"]), max_size=6),
    choices=st.lists(st.sampled_from(["dog", "a big dog", "bike", "the", "Dogs.", "ride a", "x"]), min_size=1, max_size=4),
    published=st.booleans(),
)
def test_statements_of_a_question_are_grounded_together_as_one_by_one(
    before: list[str], after: list[str], choices: list[str], published: bool
) -> None:
    graph = graph_of("dog", "big_dog", "ride_bike", "dog_bike", "cat", "house", "dog_house", "x-ray", "bike_house", "sit_on_dog")
    statements = [" ".join([*before, choice, *after]) for choice in choices]
    [together] = Grounder(graph, published).mentioned(statements, choices, [len(choices)]).mentions()
    assert together == [Grounder(graph, published).mentions(*each) for each in zip(statements, choices, strict=True)]
