"""mhgrn features: build node features for a graph."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from mhgrn.cli._options import Address, AllowDownload, AllowPickle, AsJson, EngineName, Force, GraphFolder, folder_to_write
from mhgrn.cli._output import show, show_json

if TYPE_CHECKING:
    from mhgrn.features import FeatureFolder, FeatureSource
    from mhgrn.features.encoded import Estimate

app = typer.Typer(help="Build node features: a vector for each concept of a graph.", no_args_is_help=True, rich_help_panel="Data")


@app.command()
def sources() -> None:
    """List the sources of node features, those of installed packages included."""
    from mhgrn.features.loading import FEATURE_SOURCES
    from mhgrn.progress import say

    found = FEATURE_SOURCES.load_usable(lambda error: say(f"mhgrn: {error}"))
    width = max(map(len, found))
    for name, source in found.items():
        show(f"{name:<{width}}  {source.summary}")


@app.command()
def build(
    graph: GraphFolder,
    file: Annotated[
        Path | None,
        typer.Argument(help="With --from vectors: word vectors as text (Numberbatch, word2vec, GloVe; .gz).", show_default=False),
    ] = None,
    name: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="SOURCE",
            help="triples: encode all triples of a concept and pool its tokens, as in the paper. names: encode its name."
            " vectors: read a file of word vectors. transe: train TransE on the graph. `mhgrn features sources` lists all.",
        ),
    ] = "triples",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            parser=folder_to_write,
            help="Folder to write. Unset: a folder in GRAPH/features.",
            show_default=False,
        ),
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
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of the source. May be repeated.", show_default=False),
    ] = None,
    allow_download: AllowDownload = False,
    allow_pickle: AllowPickle = False,
    engine: EngineName = "local",
    address: Address = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Build a features folder and print the setting that uses it. An interrupted build from triples or names resumes."""
    from mhgrn.engines import engine_named
    from mhgrn.errors import UserError
    from mhgrn.features.encoded import EncodedSource, feature_encoder
    from mhgrn.features.loading import FEATURE_SOURCES
    from mhgrn.kg import KnowledgeGraph
    from mhgrn.settings import parse_override

    mapped = engine_named(engine, address)
    FEATURE_SOURCES.check(name)
    options: dict[str, tuple[str, object]] = {
        "FILE": ("file", file),
        "--encoder": ("encoder", encoder),
        "--max-triples-per-concept": ("max_triples_per_concept", max_triples_per_concept),
        "--exact-names": ("mean_of_words", False if exact_names else None),
        "--language": ("language", language),
        "--dim": ("dim", dim),
        "--epochs": ("epochs", epochs),
        "--seed": ("seed", seed),
    }
    given = {option: (key, value) for option, (key, value) in options.items() if value is not None}
    source = FEATURE_SOURCES.load(name)
    for option, (key, _) in given.items():
        if key not in source.Settings.model_fields:
            _refuse(option, name, [n for n, other in _built_in().items() if key in other.Settings.model_fields])
    encoded_only = {"--estimate": estimate, "--allow-download": allow_download, "--allow-pickle": allow_pickle}
    for option, is_given in (encoded_only | {"--engine ray": mapped is not None}).items():
        if is_given and not issubclass(source, EncodedSource):
            _refuse(option, name, [n for n, other in _built_in().items() if issubclass(other, EncodedSource)])
    settings = dict(given.values())
    for path, value in map(parse_override, changes or ()):
        if (key := ".".join(path)) in settings:
            raise UserError(f"{key} is given twice, by an option and by --set; give it once.")
        settings[key] = value
    if estimate and output is not None:
        raise UserError("--estimate writes nothing; remove -o.")
    if estimate and mapped is not None:
        raise UserError("--estimate measures this machine; remove --engine.")
    checked = _validated(source, settings)
    loaded = KnowledgeGraph.load(graph)
    made: FeatureSource
    if issubclass(source, EncodedSource):
        made = source(loaded, checked, feature_encoder(checked.encoder, allow_download, allow_pickle))
        if estimate:
            _print_estimate(made.plan(only or ()).estimate(), as_json)
            return
        if mapped is not None:
            _print(made.build_on(mapped, output, only or (), force, allow_download, allow_pickle), as_json)
            return
    else:
        made = source(loaded, checked)
    _print(made.build(output, only or (), force), as_json)


def _built_in() -> "dict[str, type[FeatureSource]]":
    from mhgrn.features.loading import FEATURE_SOURCES

    return {name: FEATURE_SOURCES.load(name) for name in FEATURE_SOURCES.built_in()}


def _refuse(option: str, name: str, others: list[str]) -> NoReturn:
    """Refuse an option that is for other sources."""
    from mhgrn.errors import UserError

    raise UserError(f"{option} is for --from {' or '.join(others)}, not for --from {name}.")


def _validated(source: "type[FeatureSource]", given: dict[str, object]) -> Any:
    from pydantic import ValidationError

    from mhgrn.errors import UserError
    from mhgrn.settings import validation_message

    try:
        return source.Settings.model_validate(given)
    except ValidationError as error:
        raise UserError(f"--from {source.name}: {validation_message(error, source.Settings, 'setting')}") from None


def _print_estimate(expected: "Estimate", as_json: bool) -> None:
    about = {"to_encode": expected.items, "rate": expected.rate, "seconds": expected.seconds, "bytes": expected.bytes}
    if as_json:
        show_json(about)
    else:
        show(expected)


def _print(made: "FeatureFolder", as_json: bool) -> None:
    about, place = made.about, made.folder.absolute()
    setting = f"features={place}"
    if as_json:
        counts = {key: about[key] for key in ("dim", "concepts", "asked", "covered")} | {"missing": made.missing}
        show_json({"features": str(place), **counts, "setting": setting, "source": about["source"]})
        return
    show(f"{place}: {about['covered']:,} of {about['asked']:,} concepts have a vector of {about['dim']} numbers")
    if made.missing:
        show(f"{made.missing:,} have none; a vector made from their names is used instead")
    show(f"to use them: mhgrn train --set {shlex.quote(setting)} …")
