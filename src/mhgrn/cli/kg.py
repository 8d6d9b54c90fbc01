"""mhgrn kg: build, look at and alter knowledge graphs."""

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Build a knowledge graph from files of triples, and look into it.", no_args_is_help=True)

Graph = Annotated[Path, typer.Argument(metavar="GRAPH", help="Folder of a built graph.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="Folder to write.", show_default=False)]


@app.command()
def build(
    triples: Annotated[
        list[Path],
        typer.Argument(
            help="ConceptNet assertions (.csv, .csv.gz), or tables of head, relation, tail (.tsv, .csv).",
            show_default=False,
        ),
    ],
    output: Output,
    schema: Annotated[
        str | None,
        typer.Option(help="conceptnet, or a YAML file. Unset: ConceptNet's for its release, else one relation for each name."),
    ] = None,
    language: Annotated[str, typer.Option(help="ConceptNet only: the language to keep.")] = "en",
    published_names: Annotated[
        bool,
        typer.Option("--published-names", help="ConceptNet only: name concepts by the last part of their URI, as published."),
    ] = False,
    any_characters: Annotated[
        bool, typer.Option("--any-characters", help="ConceptNet only: keep concepts that are not purely alphabetic.")
    ] = False,
    keep_pruned: Annotated[
        bool, typer.Option("--keep-pruned", help="Keep the relations and concepts that the schema prunes.")
    ] = False,
    keep_self_loops: Annotated[bool, typer.Option("--keep-self-loops", help="Keep facts that join a concept with itself.")] = False,
    max_bad: Annotated[float, typer.Option(min=0, max=1, help="Share of malformed rows past which nothing is built.")] = 0.01,
    as_json: AsJson = False,
) -> None:
    """Read files of triples into one graph folder."""
    from mhgrn.kg import ImportOptions
    from mhgrn.kg import build as build_graph
    from mhgrn.kg.graph import MARKER
    from mhgrn.progress import say
    from mhgrn.storage import check_replaceable

    check_replaceable(output, MARKER)
    options = ImportOptions(
        language=language,
        names="published" if published_names else "word",
        alphabetic=not any_characters,
        prune=not keep_pruned,
        self_loops=keep_self_loops,
        max_bad=max_bad,
    )
    graph, report = build_graph(triples, schema, options)
    graph.save(output)
    for row in report.bad_rows:
        say(f"left out: {row}")
    if report.bad > len(report.bad_rows):
        say(f"left out: {report.bad - len(report.bad_rows):,} more malformed rows")
    if as_json:
        print(json.dumps({"graph": str(output), "concepts": len(graph), "facts": graph.fact_count, "report": report.to_dict()}))
        return
    print(f"{output}: {len(graph):,} concepts, {graph.fact_count:,} facts from {report.rows:,} rows")
    left_out = {
        "duplicates": report.duplicates,
        "self-loops": report.self_loops,
        "pruned": report.pruned,
        "another language": report.other_language,
        "not alphabetic": report.not_alphabetic,
        "relations outside the schema": report.other_relations.total(),
        "malformed": report.bad,
    }
    print("left out: " + (", ".join(f"{count:,} {why}" for why, count in left_out.items() if count) or "nothing"))


@app.command()
def info(graph: Graph, as_json: AsJson = False) -> None:
    """Counts of concepts, and of facts by relation."""
    from mhgrn.kg import KnowledgeGraph

    loaded = KnowledgeGraph.load(graph)
    counts = loaded.relation_counts()
    if as_json:
        about = {"concepts": len(loaded), "facts": loaded.fact_count, "relations": counts}
        print(
            json.dumps(about | {"schema": loaded.schema.name, "fingerprint": loaded.fingerprint, "source": loaded.about["source"]})
        )
        return
    print(f"{len(loaded):,} concepts, {loaded.fact_count:,} facts, schema {loaded.schema.name}")
    width = max(map(len, counts), default=0)
    for name, count in sorted(counts.items(), key=lambda item: -item[1]):
        print(f"  {name:<{width}} {count:>10,}")


@app.command()
def show(
    graph: Graph,
    concept: Annotated[str, typer.Argument(help="A concept; spaces or underscores.", show_default=False)],
    limit: Annotated[int, typer.Option(min=1, help="Facts to show at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """A concept's facts."""
    from mhgrn.kg import KnowledgeGraph

    facts = KnowledgeGraph.load(graph).facts_of(concept)
    if as_json:
        print(json.dumps(facts))
        return
    for fact in facts[:limit]:
        print(f"{fact.head} —{fact.relation}→ {fact.tail}".replace("_", " "))
    if len(facts) > limit:
        print(f"… and {len(facts) - limit:,} more (--limit)")


@app.command("shuffle-relations")
def shuffle_relations(graph: Graph, output: Output, seed: Annotated[int, typer.Option(min=0)] = 0) -> None:
    """Write the same edges with their relation labels dealt out at random: a control for what relations contribute."""
    from mhgrn.kg import KnowledgeGraph

    shuffled = KnowledgeGraph.load(graph).with_shuffled_relations(seed)
    shuffled.save(output)
    print(f"{output}: {shuffled.fact_count:,} facts with shuffled relations")


@app.command()
def draw(
    graph: Graph,
    concepts: Annotated[
        list[str], typer.Argument(metavar="CONCEPT...", help="Concepts; spaces or underscores.", show_default=False)
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Image to write, .svg or .png.", show_default=False)],
    hops: Annotated[int, typer.Option(min=1, max=4, help="How far from the concepts.")] = 1,
    max_nodes: Annotated[int, typer.Option(min=1, help="Nodes to draw at most.")] = 40,
    max_arrows: Annotated[int, typer.Option(min=1, help="Arrows to draw at most; one has all relations of its ends.")] = 80,
    as_json: AsJson = False,
) -> None:
    """Draw the neighbourhood of concepts: what their facts lead to, hop by hop from left to right."""
    from mhgrn.drawing import Limits, check_image, draw, picture_of_concepts
    from mhgrn.kg import KnowledgeGraph

    check_image(output)
    picture = picture_of_concepts(KnowledgeGraph.load(graph), concepts, hops, Limits(max_nodes, max_arrows))
    draw(picture, output)
    print(json.dumps({"file": str(output), **picture.counts}) if as_json else f"{output}: {picture.shown}")
