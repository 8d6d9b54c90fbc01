"""mhgrn kg: build, inspect and change knowledge graphs."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mhgrn.cli._options import AsJson, Force, GraphFolder, Image, MaxNodes, Output
from mhgrn.cli._output import check_one_output, show_json, show_written
from mhgrn.cli._output import show as show_text

if TYPE_CHECKING:
    from mhgrn.kg import Fact, KnowledgeGraph

Details = Annotated[bool, typer.Option("--details", help="Also show the id, sentence and provenance of each fact.")]

app = typer.Typer(help="Build, inspect and change knowledge graphs.", no_args_is_help=True, rich_help_panel="Data")


@app.command()
def build(
    triples: Annotated[
        list[Path],
        typer.Argument(
            help="ConceptNet assertions, tables of head, relation, tail (TSV, CSV, Parquet), JSON lines, GraphML, RDF (Turtle, "
            "RDF/XML, OWL, TriG, N-Quads, N-Triples), OBO, Wikidata, KGTK or Neo4j; text may be .gz.",
            show_default=False,
        ),
    ],
    output: Output,
    schema: Annotated[
        str | None,
        typer.Option(help="conceptnet, or a YAML file. Unset: conceptnet for its releases, otherwise one relation per name."),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            help="Format of the files: conceptnet, csv, graphml, jsonl, kgtk, neo4j, nquads, ntriples, obo, parquet, rdfxml, "
            "trig, tsv, turtle, wikidata, or one of another package. Unset: detect."
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Columns by name or number: head=COLUMN,relation=COLUMN,tail=COLUMN[,weight=COLUMN]. Unset: by header or order.",
            show_default=False,
        ),
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option(help="Character between the fields of tables, or tab. Unset: tab or comma.", show_default=False)
    ] = None,
    language: Annotated[
        str,
        typer.Option(
            help="Languages of texts and labels to keep, separated by commas, preferred first; or all. ConceptNet: only one."
        ),
    ] = "en",
    labels: Annotated[
        list[Path] | None,
        typer.Option(
            help="Table of labels of concepts that facts name by id: id, label, language, kind (label, alias).",
            show_default=False,
        ),
    ] = None,
    published_names: Annotated[
        bool,
        typer.Option("--published-names", help="ConceptNet only: name concepts by the last part of their URI (published code)."),
    ] = False,
    any_characters: Annotated[
        bool, typer.Option("--any-characters", help="ConceptNet only: keep concepts that are not purely alphabetic.")
    ] = False,
    keep_pruned: Annotated[
        bool, typer.Option("--keep-pruned", help="Keep the relations and concepts that the schema prunes.")
    ] = False,
    keep_self_loops: Annotated[bool, typer.Option("--keep-self-loops", help="Keep facts from a concept to itself.")] = False,
    concepts: Annotated[
        Path | None,
        typer.Option(help="File of concepts, one per line, to number first, with or without facts.", show_default=False),
    ] = None,
    weights: Annotated[bool, typer.Option("--weights", help="Keep weights of facts. A repeated fact keeps its first.")] = False,
    provenance: Annotated[
        bool,
        typer.Option("--provenance", help="Keep file and row of each fact, and for ConceptNet its dataset and sources."),
    ] = False,
    min_weight: Annotated[float | None, typer.Option(help="Leave out facts with a smaller weight.", show_default=False)] = None,
    max_bad: Annotated[float, typer.Option(min=0, max=1, help="Largest share of malformed rows before it fails.")] = 0.01,
    memory: Annotated[
        str | None,
        typer.Option(
            help="Use at most so much memory (4GB), and temporary files beside the output. After a kill, the same command goes on. "
            "Unset: build in memory.",
            show_default=False,
        ),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Build a graph folder from files of triples."""
    from mhgrn.grounding.index import ConceptIndex
    from mhgrn.grounding.large_build import build_folder
    from mhgrn.io.folders import check_replaceable
    from mhgrn.kg import ImportOptions
    from mhgrn.kg import build as build_graph
    from mhgrn.kg.columns import parse_columns
    from mhgrn.kg.graph import HOLDS, MARKER
    from mhgrn.progress import say

    options = ImportOptions(
        language=language,
        names="published" if published_names else "word",
        alphabetic=not any_characters,
        prune=not keep_pruned,
        self_loops=keep_self_loops,
        weights=weights,
        provenance=provenance,
        min_weight=min_weight,
        max_bad=max_bad,
        format=format,
        columns=parse_columns(columns) if columns is not None else None,
        delimiter=delimiter,
    )
    if memory is not None:
        graph, report = build_folder(output, triples, memory, schema, options, concepts, labels, force)
    else:
        check_replaceable(output, MARKER, HOLDS, force)
        graph, report = build_graph(triples, schema, options, concepts, labels)
        graph.save(output)
        ConceptIndex.of(graph)  # writes it into the folder
    for note in report.notes:
        say(f"note: {note}")
    if report.with_controls:
        what = "names have control or bidirectional characters, which are escaped when they are shown"
        say(f"warning: {report.with_controls:,} {what}. The first: {report.first_with_controls}")
    for row in report.bad_rows:
        say(f"left out: {row}")
    if report.bad > len(report.bad_rows):
        say(f"left out: {report.bad - len(report.bad_rows):,} more malformed rows")
    labels_kept = {} if graph.labels is None else graph.labels.counts | {"homonyms": graph.labels.homonyms(graph.names)}
    if as_json:
        counts = {"graph": str(output), "concepts": len(graph), "facts": graph.fact_count}
        show_json(counts | ({"labels": labels_kept} if labels_kept else {}) | {"report": report.to_dict()})
        return
    show_text(f"{output}: {len(graph):,} concepts, {graph.fact_count:,} facts from {report.rows:,} rows")
    if labels_kept:
        kept = f"{labels_kept['labels']:,} labels, {labels_kept['aliases']:,} aliases"
        show_text(f"{kept}; {labels_kept['homonyms']:,} concepts share a label with another one")
    left_out = {
        "duplicates": report.duplicates,
        "self-loops": report.self_loops,
        "pruned": report.pruned,
        "of too small a weight": report.light,
        "another language": report.other_language,
        "not alphabetic": report.not_alphabetic,
        "relations outside the schema": report.other_relations.total(),
        "malformed": report.bad,
    }
    show_text("left out: " + (", ".join(f"{count:,} {why}" for why, count in left_out.items() if count) or "nothing"))


@app.command()
def query(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="SOURCE...", help="Address of a SPARQL endpoint, or files of RDF.", show_default=False),
    ],
    sparql: Annotated[
        Path,
        typer.Option(help="File with a CONSTRUCT query, or with SELECT ?head ?relation ?tail.", show_default=False),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="File of statements to write (.ttl).", show_default=False)],
    page_size: Annotated[
        int | None,
        typer.Option(min=1, help="Ask an endpoint for so many results at a time; use ORDER BY.", show_default=False),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write the statements that a SPARQL query finds, to build a graph from."""
    from mhgrn.errors import UserError
    from mhgrn.io.atomic import check_file_writable
    from mhgrn.kg.sparql import query as run

    check_file_writable(output, force)
    try:
        text = sparql.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise UserError(f"{sparql} cannot be read; name a file with a SPARQL query.") from None
    count = run(sources, text, output, page_size)
    if as_json:
        show_json({"file": str(output), "statements": count})
        return
    show_text(f"{output}: {count:,} statements. Build a graph of them: mhgrn kg build {output} -o graph/")


@app.command()
def show(
    graph: GraphFolder,
    concept: Annotated[str, typer.Argument(help="A concept, with spaces or underscores.", show_default=False)],
    limit: Annotated[int, typer.Option(min=1, help="Largest number of facts to show.")] = 50,
    details: Details = False,
    as_json: AsJson = False,
) -> None:
    """Show the facts of a concept, with their provenance if the graph keeps it."""
    from mhgrn.grounding.suggestions import check_concepts
    from mhgrn.kg import KnowledgeGraph
    from mhgrn.kg.stated import stated

    loaded = KnowledgeGraph.load(graph)
    check_concepts(loaded, concept)
    facts = loaded.facts_of(concept)
    if as_json:
        show_json([stated(loaded, fact) for fact in facts[:limit]] if details else facts[:limit])
        return
    for fact in facts[:limit]:
        show_text(_line(loaded, fact, details))
    if len(facts) > limit:
        show_text(f"… and {len(facts) - limit:,} more (--limit)")


@app.command()
def export(graph: GraphFolder, output: Output, force: Force = False, as_json: AsJson = False) -> None:
    """Write a graph as text: facts.tsv, concepts.txt, schema.yaml and labels.tsv. `kg build` builds the same graph from them."""
    from mhgrn.io.folders import check_replaceable
    from mhgrn.kg import KnowledgeGraph
    from mhgrn.kg.graph import EXPORTED, EXPORTS

    check_replaceable(output, EXPORTED, EXPORTS, force)
    loaded = KnowledgeGraph.load(graph)
    loaded.export(output)
    # a graph that was not imported keeps everything it has
    options = loaded.about["source"].get("options", {"prune": False, "self_loops": True})
    flags = {"--weights": loaded.weight is not None, "--keep-pruned": not options.get("prune", True)}
    flags["--keep-self-loops"] = options.get("self_loops", False)
    facts, schema, concepts = (shlex.quote(str(output / name)) for name in ("facts.tsv", "schema.yaml", "concepts.txt"))
    again = f"mhgrn kg build {facts} --schema {schema} --concepts {concepts}"
    if loaded.labels is not None:
        again += f" --labels {shlex.quote(str(output / 'labels.tsv'))} --language all"
    again = " ".join([again, *(flag for flag, used in flags.items() if used), "-o GRAPH"])
    if as_json:
        show_json({"folder": str(output), "facts": loaded.fact_count, "concepts": len(loaded), "command": again})
        return
    show_text(f"{output}: {loaded.fact_count:,} facts, {len(loaded):,} concepts")
    show_text(f"to build it again: {again}")


@app.command("shuffle-relations")
def shuffle_relations(
    graph: GraphFolder,
    output: Output,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write the same edges with randomly permuted relation labels: a control for the use of relations."""
    from mhgrn.grounding.index import ConceptIndex
    from mhgrn.io.folders import check_replaceable
    from mhgrn.kg import KnowledgeGraph
    from mhgrn.kg.graph import HOLDS, MARKER

    check_replaceable(output, MARKER, HOLDS, force)
    shuffled = KnowledgeGraph.load(graph).with_shuffled_relations(seed)
    shuffled.save(output)
    ConceptIndex.of(shuffled)
    if as_json:
        show_json({"folder": str(output), "facts": shuffled.fact_count})
    else:
        show_text(f"{output}: {shuffled.fact_count:,} facts with shuffled relations")


@app.command()
def sample(
    graph: GraphFolder,
    output: Output,
    keep: Annotated[float, typer.Option(help="Share of the facts that are kept, above 0 and below 1.")] = 0.5,
    seed: Annotated[int, typer.Option(min=0, help="Another seed keeps other facts.")] = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a graph with a random share of the facts and all concepts: a control for incomplete graphs."""
    from mhgrn.grounding.index import ConceptIndex
    from mhgrn.io.folders import check_replaceable
    from mhgrn.kg import KnowledgeGraph
    from mhgrn.kg.graph import HOLDS, MARKER
    from mhgrn.kg.sampling import sample_facts

    check_replaceable(output, MARKER, HOLDS, force)
    whole = KnowledgeGraph.load(graph)
    part = sample_facts(whole, keep, seed)
    part.save(output)
    ConceptIndex.of(part)
    if as_json:
        show_json({"folder": str(output), "facts": part.fact_count, "of": whole.fact_count})
    else:
        show_text(f"{output}: {part.fact_count:,} of {whole.fact_count:,} facts, {len(part):,} concepts")


@app.command()
def stats(graph: GraphFolder, as_json: AsJson = False) -> None:
    """Count concepts, facts by relation, neighbors and connected components."""
    from mhgrn.kg import KnowledgeGraph
    from mhgrn.kg.statistics import Statistics

    loaded = KnowledgeGraph.load(graph)
    found = Statistics.of(loaded)
    if as_json:
        show_json(found.to_dict() | {"fingerprint": loaded.fingerprint, "source": loaded.about["source"]})
        return
    show_text(str(found))


@app.command()
def path(
    graph: GraphFolder,
    source: Annotated[str, typer.Argument(metavar="FROM", help="A concept, with spaces or underscores.", show_default=False)],
    target: Annotated[str, typer.Argument(metavar="TO", help="Another concept.", show_default=False)],
    max_hops: Annotated[int, typer.Option(min=1, max=16, help="Longest paths, in facts.")] = 3,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Largest number of paths to list; the others are counted.")] = 20,
    details: Details = False,
    as_json: AsJson = False,
) -> None:
    """List the paths between two concepts, shortest first. Facts are followed both ways and shown in their own direction."""
    from mhgrn.grounding.suggestions import check_concepts
    from mhgrn.kg import KnowledgeGraph
    from mhgrn.kg.paths import find_paths
    from mhgrn.kg.stated import stated

    loaded = KnowledgeGraph.load(graph)
    check_concepts(loaded, source, target)
    found = find_paths(loaded, source, target, max_hops, limit)
    facts = list(dict.fromkeys(fact for path in found.paths for step in path.steps for fact in step)) if details else []
    if as_json:
        show_json(found.to_dict() | ({"facts": [stated(loaded, fact) for fact in facts]} if details else {}))
        return
    show_text(str(found))
    for fact in facts:
        show_text(f"  {_line(loaded, fact, details)}")


@app.command()
def merge(
    graphs: Annotated[list[Path], typer.Argument(metavar="GRAPHS", help="Folders of built graphs.", show_default=False)],
    output: Output,
    schema: Annotated[
        str | None,
        typer.Option(help="conceptnet, or a YAML file. Unset: relations with the same name are merged.", show_default=False),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Merge graphs: the union of their concepts and facts. Concepts of the first graph keep their numbers."""
    from mhgrn.grounding.index import ConceptIndex
    from mhgrn.io.folders import check_replaceable
    from mhgrn.kg import KnowledgeGraph
    from mhgrn.kg.graph import HOLDS, MARKER
    from mhgrn.kg.merge import merge as merge_graphs
    from mhgrn.kg.schema import load_schema

    check_replaceable(output, MARKER, HOLDS, force)
    loaded = [KnowledgeGraph.load(graph) for graph in graphs]
    joined = merge_graphs(loaded, load_schema(schema) if schema else None)
    joined.save(output)
    ConceptIndex.of(joined)
    before = sum(graph.fact_count for graph in loaded)
    if as_json:
        about = {"graph": str(output), "concepts": len(joined), "facts": joined.fact_count, "facts_before": before}
        show_json(about | {"schema": joined.schema.name, "relations": len(joined.schema)})
        return
    show_text(f"{output}: {len(joined):,} concepts, {joined.fact_count:,} facts from {before:,} in {len(loaded)} graphs")


@app.command()
def draw(
    graph: GraphFolder,
    concepts: Annotated[
        list[str], typer.Argument(metavar="CONCEPT...", help="Concepts, with spaces or underscores.", show_default=False)
    ],
    output: Image,
    hops: Annotated[int, typer.Option(min=1, max=4, help="Largest distance from the concepts.")] = 1,
    max_nodes: MaxNodes = 40,
    max_arrows: Annotated[
        int, typer.Option(min=1, help="Largest number of arrows; one arrow stands for all relations of its ends.")
    ] = 80,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Draw the neighborhood of concepts, hop by hop from left to right."""
    from mhgrn.drawing import PictureLimits, check_image, draw, picture_of_concepts
    from mhgrn.grounding.suggestions import check_concepts
    from mhgrn.kg import KnowledgeGraph

    check_image(output, force)
    check_one_output(output, as_json)
    loaded = KnowledgeGraph.load(graph)
    check_concepts(loaded, *concepts)
    picture = picture_of_concepts(loaded, concepts, hops, PictureLimits(max_nodes, max_arrows))
    draw(picture, output)
    show_written(output, picture.shown, {"file": str(output), **picture.counts} if as_json else None)


def _line(graph: "KnowledgeGraph", fact: "Fact", details: bool) -> str:
    """A fact as a line: its names, its provenance if the graph keeps it, and with ``details`` its id and sentence."""
    from mhgrn.kg.sentences import fact_sentence

    about = [f"{fact.id}: {fact_sentence(graph.schema, fact)}"] if details else []
    if graph.has_provenance and (provenance := graph.provenance(fact)) is not None:
        about.append(f"[{provenance}]")
    return "   ".join([f"{fact.head} —{fact.relation}→ {fact.tail}".replace("_", " "), *about])
