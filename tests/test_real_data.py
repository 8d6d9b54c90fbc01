"""The published data sets, where they are."""

import gzip
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from mhgrn.kg import ImportReport, KnowledgeGraph, build
from mhgrn.questions.reading import check_questions, read_splits
from mhgrn.subgraphs.prepared import PreparedData, PrepareOptions, prepare

FIRST_ROWS = 60_000


def accounted(report: ImportReport) -> int:
    dropped = report.duplicates + report.self_loops + report.pruned + report.other_language + report.not_alphabetic
    return report.kept + dropped + report.other_relations.total() + report.bad


@pytest.fixture(scope="module")
def first_rows(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[KnowledgeGraph, ImportReport]:
    folder = tmp_path_factory.mktemp("conceptnet")
    with gzip.open(shared_data / "conceptnet" / "assertions-en.csv.gz", "rb") as rows:
        (folder / "first.csv").write_bytes(b"".join(islice(rows, FIRST_ROWS)))
    graph, report = build([folder / "first.csv"])
    graph.save(folder / "graph")
    return KnowledgeGraph.load(folder / "graph"), report


def test_the_first_rows_of_conceptnet(first_rows: tuple[KnowledgeGraph, ImportReport]) -> None:
    graph, report = first_rows
    assert report.rows == FIRST_ROWS == accounted(report)
    assert report.bad == 0
    assert graph.schema.name == "conceptnet"
    assert graph.fact_count == report.kept == len(graph.relation) > 0.8 * FIRST_ROWS
    assert 0.3 * report.kept < len(graph) < 2 * report.kept
    assert not np.any(graph.heads() == graph.tail)


@pytest.mark.long
def test_the_whole_of_conceptnet(shared_data: Path, tmp_path: Path) -> None:
    graph, report = build([shared_data / "conceptnet" / "assertions-en.csv.gz"])
    assert report.rows == 1_378_349 == accounted(report)
    assert report.bad == 0
    assert 500_000 < len(graph) < 600_000
    assert 1_000_000 < graph.fact_count < 1_200_000
    counts = graph.relation_counts()
    assert counts.pop("HasContext") == 0
    assert min(counts.values()) > 500
    assert graph.holds("cat", "IsA", "animal")
    assert graph.holds("wheel", "PartOf", "car")
    graph.save(tmp_path / "graph")
    assert KnowledgeGraph.load(tmp_path / "graph").facts_of("cat") == graph.facts_of("cat")


def prepared(source: Path, graph: KnowledgeGraph, tmp_path: Path) -> PreparedData:
    """The first 30 questions of each split."""
    folder = tmp_path / "questions"
    folder.mkdir()
    for path in source.glob("*.jsonl"):
        with path.open("rb") as lines:
            (folder / path.name).write_bytes(b"".join(islice(lines, 30)))
    return prepare(folder, graph, tmp_path / "data", PrepareOptions(workers=2))


@pytest.mark.parametrize(("name", "choices", "statement"), [("csqa", 5, "fill-in-the-blank"), ("obqa", 4, "append")])
def test_questions_are_grounded_in_conceptnet(
    shared_data: Path, first_rows: tuple[KnowledgeGraph, ImportReport], tmp_path: Path, name: str, choices: int, statement: str
) -> None:
    data = prepared(shared_data / name, first_rows[0], tmp_path)
    assert data.about["splits"] == {"train": 30, "dev": 30, "test": 30}
    assert data.about["settings"]["statement"] == statement
    assert data.about["statements"] == 90 * choices
    answered = {split: sum(data.questions[i].answer is not None for i in data.split(split)) for split in data.splits}
    assert answered == {"train": 30, "dev": 30, "test": 0 if name == "csqa" else 30}
    report = data.about["report"]
    assert report["without question concepts"] < 0.05 * data.about["statements"]
    assert report["without answer concepts"] < 0.15 * data.about["statements"]
    assert 2 < report["question concepts a statement"]["mean"] < 15
    assert 1 <= report["answer concepts a statement"]["mean"] < 6
    assert report["nodes a statement"]["mean"] > report["question concepts a statement"]["mean"] + 3
    assert report["facts a statement"]["mean"] > report["nodes a statement"]["mean"] / 2


def test_the_published_splits_have_their_published_sizes(shared_data: Path) -> None:
    sizes = {name: {split: len(found) for split, found in read_splits(shared_data / name).items()} for name in ("csqa", "obqa")}
    assert sizes == {
        "csqa": {"train": 8_500, "dev": 1_221, "test": 1_241},
        "obqa": {"train": 4_957, "dev": 500, "test": 500},
    }


@pytest.mark.parametrize(
    ("dataset", "folder", "sizes", "answered", "statements"),
    [
        ("commonsenseqa", "csqa", (9_741, 1_221, 1_140), (9_741, 1_221, 0), 60_510),
        ("commonsenseqa-inhouse", "csqa", (8_500, 1_221, 1_241), (8_500, 1_221, 1_241), 54_810),
        ("openbookqa", "obqa", (4_957, 500, 500), (4_957, 500, 500), 23_828),
        ("openbookqa-fact", "obqa", (4_957, 500, 500), (4_957, 500, 500), 23_828),
    ],
)
def test_the_shipped_declarations_read_the_published_files(
    shared_data: Path, dataset: str, folder: str, sizes: tuple[int, ...], answered: tuple[int, ...], statements: int
) -> None:
    found = check_questions(shared_data / folder, dataset)
    assert found.problems == []
    assert found.dataset == dataset
    assert list(found.splits) == ["train", "dev", "test"]
    assert tuple(split.questions for split in found.splits.values()) == sizes
    assert tuple(split.answered for split in found.splits.values()) == answered
    assert found.statements == statements


def test_questions_of_commonsenseqa_carry_their_concept(shared_data: Path) -> None:
    assert all(q.concept for questions in read_splits(shared_data / "csqa", "commonsenseqa").values() for q in questions)


def test_the_gold_fact_goes_before_the_stem(shared_data: Path) -> None:
    plain, with_fact = (read_splits(shared_data / "obqa", name) for name in ("openbookqa", "openbookqa-fact"))
    book = {line.strip().strip('"').lower() for line in (shared_data / "obqa" / "openbook.txt").read_text().splitlines()}
    known = 0
    for split, questions in plain.items():
        for one, two in zip(questions, with_fact[split], strict=True):
            fact = two.stem.removesuffix(one.stem)
            assert two.id == one.id
            assert two.choices == one.choices
            assert two.answer == one.answer
            assert two.stem.endswith(one.stem)
            assert fact.endswith(". ")
            known += fact.removesuffix(". ").lower() in book
    assert known > 0.95 * sum(map(len, plain.values()))
