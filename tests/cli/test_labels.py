"""Graphs with ids, labels and aliases on the command line, and where else a user names a concept."""

import json
import shlex
from pathlib import Path

import pytest
from harness import Command, Refused

from mhgrn.errors import UserError
from mhgrn.kg import KnowledgeGraph
from mhgrn.open.topics import TopicFinder

FACTS = "Q308\tpart of\tQ544\nQ925\tkind of\tQ11344\nQ544\thas\tQ308\n"
LABELS = """\
Q308\tMercury\ten
Q925\tMercury\ten
Q925\tHg\ten\talias
Q925\tQuecksilber\tde
Q544\tSolar System\ten
Q11344\telement\ten
"""


@pytest.fixture
def planets(tmp_path: Path, here: Command) -> Path:
    (tmp_path / "facts.tsv").write_text(FACTS, encoding="utf-8")
    (tmp_path / "labels.tsv").write_text(LABELS, encoding="utf-8")
    files = [str(tmp_path / "facts.tsv"), "--labels", str(tmp_path / "labels.tsv"), "--language", "en,de"]
    said = here("kg", "build", *files, "-o", tmp_path / "graph").out
    assert "4 concepts, 3 facts from 3 rows" in said
    assert "5 labels, 1 aliases; 2 concepts share a label with another one" in said
    return tmp_path / "graph"


def test_show_takes_ids_labels_and_aliases(planets: Path, here: Command, refused: Refused) -> None:
    shown = {here("kg", "show", planets, text).out for text in ("Q925", "hg", "quecksilber", "mercury (q925)")}
    assert shown == {"Mercury (Q925) —kind of→ element\n"}
    [found] = json.loads(here("kg", "show", planets, "Q925", "--json", "--details").out)
    assert found["concepts"] == ["Q925", "Q11344"]
    assert here("kg", "path", planets, "Q308", "solar system").out == "Mercury (Q308) —part of→ ←has— Solar System\n"
    refused(["kg", "show", str(planets), "mercury"], ["Mercury (Q308), Mercury (Q925). Give the id of one"])


def test_the_printed_command_builds_an_exported_graph_again(planets: Path, tmp_path: Path, here: Command) -> None:
    said = json.loads(here("kg", "export", planets, "-o", tmp_path / "text", "--json").out)
    command = [word if word != "GRAPH" else str(tmp_path / "again") for word in shlex.split(said["command"])]
    assert here(*command[1:]).code == 0
    assert KnowledgeGraph.load(tmp_path / "again").fingerprint == KnowledgeGraph.load(planets).fingerprint


def test_topics_of_questions_without_choices(planets: Path) -> None:
    graph = KnowledgeGraph.load(planets)
    one, two, system = (graph.id(text) for text in ("Q308", "Q925", "Q544"))
    assert TopicFinder(graph).find("What is [Q925]?").concepts == [two]
    assert TopicFinder(graph).find("What is [Hg] in the [solar system]?").concepts == sorted([two, system])
    assert TopicFinder(graph).find("What is mercury?").concepts == [one, two]
    assert TopicFinder(graph, marks=True).find("what is mercury").concepts == [one, two]
    with pytest.raises(UserError, match="'mercury' may mean 2 concepts"):
        TopicFinder(graph).find("What is [mercury]?")
    assert TopicFinder(graph).find_known("What is [mercury]?").concepts == [one, two]


def test_agents_get_the_id(planets: Path) -> None:
    pytest.importorskip("mcp")
    from mhgrn.serve.mcp import _facts_about

    found = _facts_about(KnowledgeGraph.load(planets), "hg", 5)
    assert (found["concept"], found["id"], found["total"]) == ("Mercury (Q925)", "Q925", 1)
    assert found["facts"][0]["concepts"] == ["Q925", "Q11344"]
