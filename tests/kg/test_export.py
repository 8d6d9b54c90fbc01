"""Import → export → import is the identity."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mhgrn.errors import UserError
from mhgrn.kg import ImportOptions, KnowledgeGraph, build
from mhgrn.starter import FACTS

names = st.sampled_from(["cat", "Black Cat", "café", "x-ray", "a\u00a0b", "ΣΑΣ", "İ", "person", '"q"', "c,d", "é"]) | st.text(
    min_size=1
)
rows = st.lists(
    st.tuples(names, st.sampled_from(["IsA", "HasA", "isa", "HasContext", "MotivatedByGoal"]), names, st.floats(0, 9, width=32)),
    min_size=1,
)


def arrays(graph: KnowledgeGraph) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in graph._arrays.items()}


def again(graph: KnowledgeGraph, folder: Path, options: ImportOptions) -> KnowledgeGraph:
    graph.export(folder)
    return build([folder / "facts.tsv"], str(folder / "schema.yaml"), options, folder / "concepts.txt")[0]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=rows, prune=st.booleans(), loops=st.booleans(), weights=st.booleans(), schema=st.sampled_from(["conceptnet", None]))
def test_a_graph_comes_back(
    tmp_path: Path, rows: list[tuple[str, str, str, float]], prune: bool, loops: bool, weights: bool, schema: str | None
) -> None:
    def cell(text: str) -> str:
        return text.replace("\t", " ").replace("\n", " ").replace("\r", " ").encode("utf-8", "ignore").decode()

    (tmp_path / "facts.tsv").write_text(
        "".join(f"{cell(h)}\t{r}\t{cell(t)}\t{w}\n" for h, r, t, w in rows), encoding="utf-8", newline=""
    )
    options = ImportOptions(prune=prune, self_loops=loops, weights=weights, max_bad=1)
    try:
        graph, _ = build([tmp_path / "facts.tsv"], schema, options)
    except UserError:  # no row was usable
        return
    copy = again(graph, tmp_path / "exported", options)
    assert (copy.fingerprint, arrays(copy)) == (graph.fingerprint, arrays(graph))


def test_the_starter_graph_comes_back(starter_graph: KnowledgeGraph, tmp_path: Path) -> None:
    assert arrays(again(starter_graph, tmp_path / "exported", ImportOptions())) == arrays(starter_graph)


def test_swapped_members_are_written_so_that_they_are_read_back(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("name: own\nrelations:\n  - {name: part, members: ['*has']}\n  - {name: near}\n")
    (tmp_path / "facts.tsv").write_text("car\thas\twheel\ncar\tnear\thouse\n")
    graph, _ = build([tmp_path / "facts.tsv"], str(tmp_path / "own.yaml"))
    assert graph.facts_of("wheel") == [("wheel", "part", "car")]
    assert arrays(again(graph, tmp_path / "exported", ImportOptions())) == arrays(graph)


def test_a_list_of_concepts_that_cannot_be_read_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist; name a file of concepts"):
        build([FACTS], "conceptnet", concepts=tmp_path / "none.txt")
    (tmp_path / "bad.txt").write_bytes(b"\xff")
    with pytest.raises(UserError, match="not UTF-8"):
        build([FACTS], "conceptnet", concepts=tmp_path / "bad.txt")
