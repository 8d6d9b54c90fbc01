"""A question format of another package: one file with an entry point, used by its ending and by its name."""

from pathlib import Path

import pytest
from harness import Command

from mhgrn.errors import UserError
from mhgrn.kg import KnowledgeGraph
from mhgrn.questions.reading import read_questions
from mhgrn.subgraphs.prepared import PreparedData
from plugin_package import install

CODE = '''
from mhgrn.questions.reader import QuestionReader


class SlashReader(QuestionReader):
    """One question a line: stem / choice / choice / ..."""

    name = "slashes"
    endings = (".slashes",)

    def rows(self, file, path):
        for number, line in enumerate(file, start=1):
            stem, *choices = (part.strip() for part in line.decode().split("/"))
            yield number, {"question": stem, "choices": choices}
'''


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install(tmp_path / "site", CODE, "mhgrn.question_readers", "slashes = my_package.plugin")
    monkeypatch.syspath_prepend(tmp_path / "site")
    (tmp_path / "q.slashes").write_text("Where would a child sit at a desk? / school / farm\n", encoding="utf-8")
    return tmp_path


def test_a_format_of_another_package_is_read(installed: Path) -> None:
    (question,) = read_questions(installed / "q.slashes")
    assert question.choices == ("school", "farm")
    (installed / "my.yaml").write_text("format: slashes\nsplits: {test: q.txt}\n", encoding="utf-8")
    (installed / "q.slashes").rename(installed / "q.txt")
    assert list(read_questions(installed / "q.txt", installed / "my.yaml")) == [question]
    (installed / "q.txt").write_text("Where? / here\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"q\.txt:1: a question needs at least two choices"):
        list(read_questions(installed / "q.txt", installed / "my.yaml"))


def test_mhgrn_prepare_reads_it(installed: Path, starter_graph: KnowledgeGraph, here: Command) -> None:
    data = installed / "data"
    assert starter_graph.folder is not None
    assert here("prepare", installed / "q.slashes", "--kg", starter_graph.folder, "-o", data).code == 0
    assert PreparedData.load(data).questions[0].choices == ("school", "farm")
