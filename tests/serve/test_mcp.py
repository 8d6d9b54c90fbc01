"""The server for agents, used by the package's own client over standard input and output."""

import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

mcp = pytest.importorskip("mcp")
anyio = pytest.importorskip("anyio")

from mhgrn.kg import ImportOptions, KnowledgeGraph, build  # noqa: E402
from mhgrn.starter import FACTS  # noqa: E402

COMMAND = [sys.executable, "-c", "import sys; sys.argv[0] = 'mhgrn'; from mhgrn.cli import run; run()", "mcp"]
DESK = {"question": "Where would a child sit at a desk?", "choices": ["schoolroom", "patio"]}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeGraph:
    """The starter graph with provenance."""
    kept, _ = build([FACTS], "conceptnet", ImportOptions(provenance=True))
    kept.save(tmp_path_factory.mktemp("kept") / "graph")
    return kept


def with_client(folder: Path, use: Callable[[Any], Awaitable[None]]) -> None:
    """Start the server as a client does, use it, and stop it."""
    arguments = [*COMMAND[1:], "starter", "--kg", str(folder)]
    parameters = mcp.StdioServerParameters(command=COMMAND[0], args=arguments, env=dict(os.environ))

    async def main() -> None:
        with anyio.fail_after(120):
            async with mcp.Client(parameters) as client:
                await use(client)

    with ThreadPoolExecutor(1) as pool:  # the tests of the page leave an event loop in this thread
        pool.submit(anyio.run, main).result()


def test_a_client_uses_every_tool(graph: KnowledgeGraph) -> None:
    assert graph.folder is not None

    async def use(client: Any) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"ask", "evidence", "facts_about", "paths_between"}
        for tool in tools.values():
            assert tool.description
            assert all(field.get("description") for field in tool.input_schema["properties"].values())
        assert tools["ask"].input_schema["required"] == ["question"]

        async def called(name: str, **arguments: Any) -> dict[str, Any]:
            result = await client.call_tool(name, arguments)
            assert not result.is_error, result.content
            assert json.loads(result.content[0].text) == result.structured_content
            return dict(result.structured_content)

        async def refused(name: str, **arguments: Any) -> str:
            result = await client.call_tool(name, arguments)
            assert result.is_error
            message = str(result.content[0].text)
            assert "Traceback" not in message
            assert str(graph.folder) not in message
            return message

        answer = await called("ask", **DESK)
        assert answer["choice"] == "schoolroom"
        assert sum(answer["probabilities"].values()) == pytest.approx(1)
        ranked = await called("ask", question=DESK["question"], n=3)
        assert ranked["ranking"]["answers"][0]["concept"] == ranked["choice"] in ("classroom", "schoolroom")
        assert all(one["paths"] for one in ranked["ranking"]["answers"])
        for choices in (None, DESK["choices"]):
            found = await called("evidence", question=DESK["question"], choices=choices, budget=80)
            assert 0 < found["tokens"] <= 80
            assert found["items"][0]["facts"][0]["provenance"]["file"] == "facts.tsv"
        about = await called("facts_about", concept="Furniture store", limit=2)
        assert (about["concept"], len(about["facts"])) == ("furniture store", 2)
        assert about["total"] == len(graph.facts_of("furniture store"))
        assert about["facts"][0]["provenance"]["row"] >= 1
        paths = await called("paths_between", source="child", target="schoolroom", limit=3)
        assert (paths["distance"], len(paths["paths"])) == (1, 3)
        known = {one["id"] for one in paths["facts"]}
        assert all(fact in known for path in paths["paths"] for step in path["facts"] for fact in step)

        assert "Did you mean" in await refused("facts_about", concept="childd")
        assert "different concepts" in await refused("paths_between", source="child", target="child")
        assert "given twice" in await refused("ask", question="Where?", choices=["sea", "sea"])
        assert "at least 2 items" in await refused("ask", question="Where?", choices=["sea"])
        assert "at most 10000 characters" in await refused("evidence", question="x" * 10_001)
        assert "at most 100 items" in await refused("ask", question="Where?", choices=[str(i) for i in range(101)])
        assert "less than or equal to 10000" in await refused("evidence", question="Where?", budget=10**9)
        assert (await called("ask", **DESK)) == answer  # the server still works

    with_client(graph.folder, use)


def test_standard_output_carries_only_the_protocol() -> None:
    first = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": first},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    text = "".join(json.dumps(message) + "\n" for message in messages)
    done = subprocess.run(COMMAND, input=text, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert {1, 2} >= {answer["id"] for answer in answers}
    assert 1 in {answer["id"] for answer in answers}
    assert "Traceback" not in done.stderr


def test_a_wrong_run_is_one_message() -> None:
    done = subprocess.run([*COMMAND, "no-such-run"], input="", capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "no-such-run" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
