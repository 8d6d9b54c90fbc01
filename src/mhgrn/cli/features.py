"""mhgrn features: build node features for a graph."""

import json
import shlex
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mhgrn.cli._options import AsJson, GraphFolder

if TYPE_CHECKING:
    from mhgrn.features import FeatureFolder

app = typer.Typer(help="Build node features: a vector for each concept of a graph.", no_args_is_help=True, rich_help_panel="Data")


@app.callback()
def _group() -> None:
    """Keeps `build` a sub-command."""


class Source(StrEnum):
    triples = "triples"
    names = "names"
    vectors = "vectors"
    transe = "transe"


@app.command()
def build(
    graph: GraphFolder,
    file: Annotated[
        Path | None,
        typer.Argument(help="With --from vectors: word vectors as text (Numberbatch, word2vec, GloVe; .gz).", show_default=False),
    ] = None,
    source: Annotated[
        Source,
        typer.Option(
            "--from",
            help="triples: encode all triples of a concept and pool its tokens, as in the paper. names: encode its name."
            " vectors: read a file of word vectors. transe: train TransE on the graph.",
        ),
    ] = Source.triples,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder to write. Unset: a folder in GRAPH/features.", show_default=False)
    ] = None,
    only: Annotated[
        list[Path] | None,
        typer.Option(help="Only the concepts of this prepared dataset. May be repeated.", show_default=False),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="triples, names: folder or name of a Hugging Face encoder. Unset: minilm.", show_default=False),
    ] = None,
    max_triples_per_concept: Annotated[
        int | None,
        typer.Option(min=1, help="triples: largest number of triples per concept, a fixed sample. Unset: all.", show_default=False),
    ] = None,
    estimate: Annotated[bool, typer.Option("--estimate", help="triples, names: print the estimated time and exit.")] = False,
    exact_names: Annotated[
        bool, typer.Option("--exact-names", help="vectors: do not replace a missing name by the mean of its words.")
    ] = False,
    language: Annotated[
        str | None, typer.Option(help="vectors: language of the ConceptNet URIs to read. Unset: en.", show_default=False)
    ] = None,
    dim: Annotated[int | None, typer.Option(min=1, help="transe: width of the vectors. Unset: 100.", show_default=False)] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="transe: training epochs. Unset: 100.", show_default=False)] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="transe: random seed. Unset: 0.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Build a features folder and print the setting that uses it. An interrupted build from triples or names resumes."""
    from mhgrn.errors import UserError
    from mhgrn.kg import KnowledgeGraph

    encoded = {Source.triples, Source.names}
    for option, given, sources in (
        ("FILE", file is not None, {Source.vectors}),
        ("--encoder", encoder is not None, encoded),
        ("--estimate", estimate, encoded),
        ("--max-triples-per-concept", max_triples_per_concept is not None, {Source.triples}),
        ("--exact-names", exact_names, {Source.vectors}),
        ("--language", language is not None, {Source.vectors}),
        ("--dim", dim is not None, {Source.transe}),
        ("--epochs", epochs is not None, {Source.transe}),
        ("--seed", seed is not None, {Source.transe}),
    ):
        if given and source not in sources:
            raise UserError(f"{option} is for --from {' or '.join(sorted(sources))}, not for --from {source}.")
    if source == Source.vectors and file is None:
        raise UserError("--from vectors needs a file: mhgrn features build GRAPH --from vectors FILE")
    loaded = KnowledgeGraph.load(graph)
    if file is not None:
        from mhgrn.features.vectors import from_vectors

        _print(from_vectors(loaded, file, output, only or (), not exact_names, language or "en"), as_json)
    elif source == Source.transe:
        from mhgrn.features.transe import from_transe

        _print(from_transe(loaded, output, only or (), dim or 100, epochs or 100, seed or 0), as_json)
    else:
        from mhgrn.features.encoded import feature_encoder, from_names, from_triples

        text = feature_encoder(encoder or "minilm")
        if source == Source.triples:
            work = from_triples(loaded, text, only or (), max_triples_per_concept)
        else:
            work = from_names(loaded, text, only or ())
        if not estimate:
            _print(work.build(output), as_json)
            return
        expected = work.estimate()
        about = {"to_encode": expected.items, "rate": expected.rate, "seconds": expected.seconds, "bytes": expected.bytes}
        print(json.dumps(about) if as_json else expected)


def _print(made: "FeatureFolder", as_json: bool) -> None:
    about, place = made.about, made.folder.absolute()
    setting = f"features={place}"
    if as_json:
        counts = {key: about[key] for key in ("dim", "concepts", "asked", "covered")} | {"missing": made.missing}
        print(json.dumps({"features": str(place), **counts, "setting": setting, "source": about["source"]}))
        return
    print(f"{place}: {about['covered']:,} of {about['asked']:,} concepts have a vector of {about['dim']} numbers")
    if made.missing:
        print(f"{made.missing:,} have none; a vector made from their names is used instead")
    print(f"to use them: mhgrn train --set {shlex.quote(setting)} …")
