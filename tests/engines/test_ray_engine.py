"""Work on a Ray cluster of two nodes on this machine: equal bytes, order, resumption, failures."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import engine_functions
import mhgrn
from mhgrn.engines import Work, engine_named
from mhgrn.engines.ray_engine import RayEngine
from mhgrn.errors import UserError
from mhgrn.kg import KnowledgeGraph
from mhgrn.subgraphs import prepared
from mhgrn.subgraphs.extract import SubgraphLimits
from mhgrn.subgraphs.extracting import extraction_context, subgraphs_of_part
from mhgrn.subgraphs.prepared import PreparedData, PrepareOptions, prepare
from ray_cluster import NODE, content

pytest.importorskip("ray")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="Ray clusters on one machine need Linux or macOS")
OPTIONS = PrepareOptions(statement="fill-in-the-blank", workers=1)


def items(*ids: str, **more: Any) -> list[list[dict[str, Any]]]:
    """Parts of one item each."""
    return [[{"id": name} | more] for name in ids]


def mapped(output: Path, function: Any, context: dict[str, Any], parts: list[list[dict[str, Any]]]) -> list[bytes]:
    with RayEngine().session(output) as session:
        return list(session.map(Work(function, context, parts)))


def calls(log: Path) -> list[str]:
    return sorted(path.name.split("-")[0] for path in log.iterdir())


@pytest.mark.usefixtures("cluster")
class TestTwoNodes:
    def test_prepared_data_has_the_bytes_of_one_machine(
        self, starter_graph: KnowledgeGraph, small_questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(prepared, "PART", 9)
        local = prepare(small_questions, starter_graph, tmp_path / "a" / "data", OPTIONS)
        on_ray = prepare(small_questions, starter_graph, tmp_path / "b" / "data", OPTIONS, engine=engine_named("ray"))
        assert content(on_ray.folder) == content(local.folder)
        assert [path.name for path in (tmp_path / "b").iterdir()] == ["data"]

    def test_results_are_in_the_order_of_the_parts(self, tmp_path: Path) -> None:
        (tmp_path / "log").mkdir()
        parts = [[{"id": "slow", "seconds": 2}], *items("b", "c", "d")]
        found = mapped(tmp_path / "output", engine_functions.logged, {"log": str(tmp_path / "log")}, parts)
        assert found == [b"slow", b"b", b"c", b"d"]
        assert calls(tmp_path / "log") == ["b", "c", "d", "slow"]

    def test_finished_parts_are_not_computed_again(self, tmp_path: Path) -> None:
        (tmp_path / "log").mkdir()
        context = {"log": str(tmp_path / "log")}
        parts = items("a", "b", "c", "d", "e", "f", "g", "h")

        def stop_at(last: bytes | None) -> list[bytes]:
            found = []
            with RayEngine().session(tmp_path / "output") as session:
                for result in session.map(Work(engine_functions.logged, context, parts)):
                    found.append(result)
                    if result == last:
                        raise InterruptedError
            return found

        with pytest.raises(InterruptedError):
            stop_at(b"b")
        stored = sorted((tmp_path / ".output.parts").iterdir())
        assert len(stored) >= 2
        stored[0].write_bytes(stored[0].read_bytes()[:-1] + b"?")  # a damaged one is computed again
        whole = [path.read_bytes()[16:].decode() for path in stored[1:]]
        assert stop_at(None) == [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h"]
        assert all(calls(tmp_path / "log").count(name) == 1 for name in whole)
        assert not (tmp_path / ".output.parts").exists()

    def test_a_poisoned_question_fails_alone_and_is_named(
        self, small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path
    ) -> None:
        context = extraction_context(starter_graph, "append", SubgraphLimits())
        rows = [{"id": str(number), "stem": "Where is a child?", "choices": ["school", "moon"]} for number in range(12)]
        parts = [rows[start : start + 3] for start in range(0, 12, 3)]
        with pytest.raises(UserError, match=r"1 of the questions failed.*\n  4: ZeroDivisionError: this question is poisoned"):
            mapped(tmp_path / "output", engine_functions.poisoned, context | {"poison": "4"}, parts)
        assert len(list((tmp_path / ".output.parts").iterdir())) == 3  # the other parts are done

    def test_a_worker_without_memory_tells_the_user(self, tmp_path: Path) -> None:
        with (
            pytest.raises(UserError, match=r"^node .*: out of memory in the part a"),
            RayEngine().session(tmp_path / "o") as session,
        ):
            list(session.map(Work(engine_functions.hungry, {}, items("a"))))

    def test_a_worker_that_is_killed_again_and_again_tells_the_user(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match=r"a worker of the cluster died in the part a, 4 times"):
            mapped(tmp_path / "output", engine_functions.dying, {}, items("a"))

    def test_another_graph_is_refused(self, starter_graph: KnowledgeGraph, tmp_path: Path) -> None:
        context = extraction_context(starter_graph, "append", SubgraphLimits()) | {"fingerprint": "0" * 20}
        rows = [{"id": "1", "stem": "Where is a child?", "choices": ["school", "moon"]}]
        with pytest.raises(UserError, match=r"^node .*: the graph .* has the fingerprint .*, not 0000"):
            mapped(tmp_path / "output", subgraphs_of_part, context, [rows])

    def test_a_node_with_another_version_is_refused(self, cluster: Any, tmp_path: Path) -> None:
        package = tmp_path / "other" / "mhgrn"
        shutil.copytree(Path(mhgrn.__file__).parent, package)
        (package / "extra.py").write_text("# another version\n")
        (tmp_path / "log").mkdir()
        many = items(*map(str, range(40)), seconds=1)
        path = os.pathsep.join([str(package.parent), os.environ["PYTHONPATH"]])
        node = cluster.add_node(**NODE, env_vars={"PYTHONPATH": path})
        try:
            with pytest.raises(UserError, match=r"^node .* has mhgrn .*, not mhgrn .*; install the same version on all nodes"):
                mapped(tmp_path / "output", engine_functions.logged, {"log": str(tmp_path / "log")}, many)
        finally:
            cluster.remove_node(node)


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(UserError, match="Did you mean ray"):
        engine_named("rays")
    with pytest.raises(UserError, match="--engine ray"):
        engine_named("local", "auto")
