"""The compiled index of patterns against its definition in Python."""

from hypothesis import given
from hypothesis import strategies as st

from mhgrn.grounding.lemmas import concept_pattern, dictionary, lemma, tokenise
from mhgrn.kg import KnowledgeGraph

WORDS = "desks desk children was the my i of zorbling zorblings better good x-ray the-desks re-run- a--b -x café ran 3d ''".split()
names = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map("_".join)


@given(st.sets(names, min_size=2, max_size=12))
def test_concepts_are_found_by_their_patterns_and_by_no_others(found: set[str]) -> None:
    first, *others = sorted(found)
    graph = KnowledgeGraph.from_facts([(first, "R", other) for other in others])
    by_pattern: dict[tuple[str, ...], list[str]] = {}
    for name in (first, *others):
        if (pattern := concept_pattern(name)) is not None:
            by_pattern.setdefault(pattern, []).append(name)
    for pattern, expected in by_pattern.items():
        assert sorted(graph.name(c) for c in graph.with_pattern(pattern)) == expected
    assert len(graph._arrays["pattern_concept"]) == sum(map(len, by_pattern.values()))


def test_a_graph_knows_its_words_and_all_that_have_their_lemmas() -> None:
    graph = KnowledgeGraph.from_facts([("desks", "AtLocation", "x-ray_café"), ("zorblings", "IsA", "colours_of_ants")])
    words = {word for name in graph.names for word in tokenise(name)}
    roots = set(map(lemma, words))
    for word, root in dictionary().items():
        assert graph.lemma(word) == (root if root in roots or word in roots else word)
        assert graph.knows_word(word) == (root in roots or word in roots)
    assert all(map(graph.knows_word, words | roots))
    assert graph.lemma("zorblings") == "zorblings"
    assert not graph.knows_word("zorbling")
