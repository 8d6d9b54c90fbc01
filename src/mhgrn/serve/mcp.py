"""A server for agents: the Model Context Protocol over standard input and output.

Needs ``pip install 'mhgrn[mcp]'``. Standard output carries only the protocol; messages go to standard error.
"""

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import anyio
import anyio.to_thread
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from mhgrn.errors import UserError
from mhgrn.grounding.suggestions import check_concepts
from mhgrn.inference import QuestionAnswerer
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.kg.paths import find_paths
from mhgrn.kg.sentences import label
from mhgrn.kg.stated import stated
from mhgrn.serve.settings import Limits
from mhgrn.starter import load

LIMITS = Limits()
LONGEST_LIST = 1_000  # facts, paths
LARGEST_BUDGET = 10_000  # tokens
MOST_HOPS = 4
LISTED = 20  # facts and paths unless asked for more

INSTRUCTIONS = (
    "A knowledge graph and a model that answers questions with it. Use `evidence` to get facts for any question, `ask` to choose"
    " among given choices or, without choices, to rank concepts, `facts_about` and `paths_between` to look into the graph."
)

Asked = Annotated[str, Field(min_length=1, max_length=LIMITS.question, pattern=r"\S", description="the question")]
Choice = Annotated[str, Field(min_length=1, max_length=LIMITS.choice, pattern=r"\S")]
Concept = Annotated[
    str, Field(min_length=1, max_length=LIMITS.name, pattern=r"\S", description="a concept, for example child or furniture store")
]
Listed = Annotated[int, Field(ge=1, le=LONGEST_LIST, description="largest number to list")]


def create_server(qa: QuestionAnswerer) -> MCPServer[Any]:
    """The server of one model. Tools compute one at a time, in a thread, so that the server answers other messages meanwhile."""
    graph = qa.graph
    server: MCPServer[Any] = MCPServer("mhgrn", instructions=INSTRUCTIONS, version=version("mhgrn"), log_level="WARNING")
    limiter = anyio.CapacityLimiter(1)

    async def computed(function: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        try:
            return await anyio.to_thread.run_sync(function, limiter=limiter)
        except UserError as error:  # folders of this machine are not named
            raise ToolError(str(error).replace(f" {graph.folder}", "")) from None

    @server.tool()
    async def ask(
        question: Asked,
        choices: Annotated[
            list[Choice] | None,
            Field(min_length=2, max_length=LIMITS.choices, description="two or more distinct texts; none: concepts are ranked"),
        ] = None,
        paths: Annotated[int, Field(ge=1, le=LIMITS.paths, description="number of paths to show")] = 3,
        n: Annotated[int, Field(ge=1, le=LIMITS.ranked, description="number of answers to a question without choices")] = 10,
    ) -> dict[str, Any]:
        """Answer a question with the facts of the graph behind the answer: the probability of each choice, or without choices a
        ranking of concepts. Brackets in a question without choices mark the concept to start from: who directed [Titanic]"""
        return await computed(lambda: qa.ask(question, choices, paths=paths, n=n).to_dict())

    @server.tool()
    async def evidence(
        question: Asked,
        choices: Annotated[
            list[Choice] | None, Field(min_length=2, max_length=LIMITS.choices, description="choices, if there are any")
        ] = None,
        budget: Annotated[int, Field(ge=1, le=LARGEST_BUDGET, description="largest number of tokens of all sentences")] = 300,
    ) -> dict[str, Any]:
        """Facts and paths of the graph that may help with a question, as sentences with ids, scores and provenance, best first."""
        return await computed(lambda: qa.evidence(question, choices, budget).to_dict())

    @server.tool()
    async def facts_about(concept: Concept, limit: Listed = LISTED) -> dict[str, Any]:
        """The facts of one concept as sentences, with ids and provenance. Unknown concepts are answered with similar names."""
        return await computed(lambda: _facts_about(graph, concept, limit))

    @server.tool()
    async def paths_between(
        source: Concept,
        target: Concept,
        max_hops: Annotated[int, Field(ge=1, le=MOST_HOPS, description="longest paths, in facts")] = 3,
        limit: Listed = LISTED,
    ) -> dict[str, Any]:
        """The paths between two concepts, shortest first. Facts are followed in both directions."""
        return await computed(lambda: _paths_between(graph, source, target, max_hops, limit))

    return server


def _facts_about(graph: KnowledgeGraph, concept: str, limit: int) -> dict[str, Any]:
    check_concepts(graph, concept)
    facts = graph.facts_of(concept)
    number = graph.id(concept)
    ids = {} if graph.labels is None else {"id": graph.identifier(number)}
    return {
        "concept": label(graph.name(number)),
        **ids,
        "total": len(facts),
        "facts": [stated(graph, fact) for fact in facts[:limit]],
    }


def _paths_between(graph: KnowledgeGraph, source: str, target: str, max_hops: int, limit: int) -> dict[str, Any]:
    check_concepts(graph, source, target)
    found = find_paths(graph, source, target, max_hops, limit)
    facts = dict.fromkeys(fact for path in found.paths for step in path.steps for fact in step)
    paths = [{"text": str(path), "facts": [[fact.id for fact in step] for step in path.steps]} for path in found.paths]
    return {
        "source": label(found.source),
        "target": label(found.target),
        "distance": found.distance,
        "total": found.found,
        "complete": found.complete,
        "paths": paths,
        "facts": [stated(graph, fact) for fact in facts],
    }


def serve_mcp(run: str | Path | None = None, kg: str | Path | None = None, device: str = "cpu") -> None:
    """Load a run and serve it until standard input ends."""
    server = create_server(load(run, kg, device=device))
    anyio.run(server.run_stdio_async)
