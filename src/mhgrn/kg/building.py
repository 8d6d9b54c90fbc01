"""Files of triples → a graph, in one streaming pass."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from mhgrn.errors import UserError
from mhgrn.io.fingerprint import file_fingerprint
from mhgrn.kg.column_order import FirstRows
from mhgrn.kg.fact_table import FactTable, ImportReport
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.kg.label_table import file_labels
from mhgrn.kg.names import concept_name
from mhgrn.kg.reader import FORMAT_OPTIONS, SHOWN, GraphReader, ImportOptions
from mhgrn.kg.readers import find_reader
from mhgrn.kg.readers._lines import lines
from mhgrn.kg.schema import MAX_RELATIONS, Schema, load_schema
from mhgrn.printing import shortened
from mhgrn.progress import bar

OTHER_ORDER = "for example --columns head=1,relation=3,tail=2."


def build(
    paths: str | Path | Iterable[str | Path],
    schema: str | None = None,
    options: ImportOptions = ImportOptions(),
    concepts: str | Path | None = None,
    labels: str | Path | Iterable[str | Path] | None = None,
) -> tuple[KnowledgeGraph, ImportReport]:
    """Read files of triples into one graph in memory. :meth:`KnowledgeGraph.save` writes it to a folder.

    Args:
        paths: One file or several: ConceptNet's release, RDF, OBO, Wikidata, KGTK, Neo4j, GraphML, Parquet, JSON lines, or tables
            of head, relation, tail and perhaps a weight, separated by tabs or commas. Other packages may add formats. Text may be
            compressed (``.gz``, ``.bz2``, ``.xz``).
        schema: The name of a shipped schema, or a YAML file. By default ConceptNet's for its release; for other files, every
            relation name is a relation.
        options: The rules of import.
        concepts: A file of names, one per line, that are numbered first, whether a fact names them or not.
        labels: Tables of the labels and aliases of concepts, which facts name by id: id, label and, if known, language and kind
            (``label`` or ``alias``), separated by tabs. See :meth:`KnowledgeGraph.label`.

    Returns:
        The graph, and counts of the rows by outcome.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "facts.tsv"
    ...     _ = file.write_text("desk\\tAtLocation\\tclassroom\\nchild\\tAtLocation\\tclassroom\\n")
    ...     graph, report = build(file)
    >>> graph.fact_count, report.rows
    (2, 2)
    """
    inputs = Inputs.of(paths, schema, options, concepts, labels)
    table = FactTable(inputs.schema, options)
    source = read_into(table, inputs)
    return table.graph(source), table.report


@dataclass(frozen=True)
class Inputs:
    """What a graph is built from; see :func:`build`."""

    files: list[Path]
    readers: dict[Path, type[GraphReader]]
    schema: Schema | None
    concepts: Path | None
    label_files: list[Path]

    @classmethod
    def of(
        cls,
        paths: str | Path | Iterable[str | Path],
        schema: str | None,
        options: ImportOptions,
        concepts: str | Path | None = None,
        labels: str | Path | Iterable[str | Path] | None = None,
    ) -> Self:
        """Find the reader of each file, and the schema."""
        files = _files(paths)
        readers = {file: find_reader(file, options.format, options.delimiter) for file in files}
        if schema is None:
            schema = next((reader.schema for reader in readers.values() if reader.schema is not None), None)
        found = load_schema(schema) if schema is not None else None
        return cls(files, readers, found, None if concepts is None else Path(concepts), [] if labels is None else _files(labels))


def read_into(table: FactTable, inputs: Inputs) -> dict[str, Any]:
    """Add all rows of all files to a table. Returns what a graph's folder says about its source."""
    files, readers, options = inputs.files, inputs.readers, table.options
    if inputs.concepts is not None:
        table.list_concepts(_listed(inputs.concepts))
    notes = _without_effect(options, readers.values())
    table.report.notes += (note for note in notes if not inputs.label_files or "--language" not in note)
    names = Counter(file.name for file in files)
    for file in files:
        table.file = file.name if names[file.name] == 1 else str(file)
        _read(file, readers[file], table)
    if not table.has_names:
        raise UserError(f"{', '.join(map(str, files))}: no row was usable ({_why_nothing(table.report)}); nothing was built.")
    for file in inputs.label_files:
        table.add_labels(file_labels(file))
    if options.weights and table.has_only_weight_1:
        table.report.notes.append("every fact has the weight 1; is there a column of weights?")
    return {"files": {file.name: file_fingerprint(file) for file in (*files, *inputs.label_files)}, "options": options.stored()}


def _files(paths: object) -> list[Path]:
    if isinstance(paths, str | Path):
        return [Path(paths)]
    files = []
    for path in paths if isinstance(paths, Iterable) and not isinstance(paths, bytes | Mapping) else [paths]:
        if not isinstance(path, str | Path):
            raise UserError(f"{shortened(path)} is not a file name; give the path of a file of triples, or several paths.")
        files.append(Path(path))
    if not files:
        raise UserError("no file was given; name the files of triples to read.")
    return files


def _without_effect(options: ImportOptions, readers: Iterable[type[GraphReader]]) -> Iterator[str]:
    """Yield a note for each option that no file heeds."""
    readers = list(readers)
    if any(reader.heeds is None for reader in readers):
        return
    formats = " and ".join(sorted({reader.name for reader in readers}))
    for field, option in FORMAT_OPTIONS.items():
        if getattr(options, field) != getattr(ImportOptions(), field) and all(field not in (r.heeds or ()) for r in readers):
            yield f"{option} has no effect on files of the format {formats}."


def _read(path: Path, reader_type: type[GraphReader], table: FactTable) -> None:
    """Add the rows of a file to the table; refuse a file with too many malformed rows, or whose columns seem to be swapped."""
    rows = bad = 0
    is_checked = False
    shown: list[str] = []
    limit = table.options.max_bad
    table.first_rows = FirstRows()
    if reader_type.has_ids:
        table.keep_labels()
    with bar(f"reading {path.name}", path.stat().st_size) as advance:
        reader = reader_type(path, table.relations, table.options, advance)
        for block in reader.blocks():
            if table.relations.are_too_many:
                problem = f"{path}: more than {MAX_RELATIONS:,} relations; are the columns head, relation, tail?"
                raise UserError(f"{problem} Name them if not: {OTHER_ORDER}")
            table.add(block, str(path))
            rows += block.seen
            bad += block.bad
            shown += block.bad_rows[: SHOWN - len(shown)]
            if bad > max(1000, limit * rows):
                break
            if reader.goes_by_order and not is_checked and table.first_rows.are_enough:
                table.check_order(str(path))
                is_checked = True
    table.report.bad_rows += shown
    table.report.notes += reader.notes
    if bad > limit * rows:
        problem = f"{bad:,} of {rows:,} rows are malformed, more than {limit:.0%}; nothing was built. The first:"
        advice = [f"If the columns are not head, relation, tail, name them: {OTHER_ORDER}"] if reader.goes_by_order else []
        raise UserError("\n  ".join([problem, *shown, *advice]))
    if reader.goes_by_order and not is_checked:
        table.check_order(str(path))


def _listed(path: Path) -> Iterator[str]:
    if not path.is_file():
        raise UserError(f"{path} does not exist; name a file of concepts, one per line.")
    return (name for line in lines(path, lambda done: None) if (name := concept_name(line)))


def _why_nothing(report: ImportReport) -> str:
    reasons = {
        f"{report.other_language:,} in another language": report.other_language,
        f"{report.not_alphabetic:,} not alphabetic": report.not_alphabetic,
        f"{report.other_relations.total():,} with relations outside the schema": report.other_relations.total(),
        f"{report.light:,} below the smallest weight": report.light,
        "the file is empty": not report.rows,
    }
    return ", ".join(text for text, count in reasons.items() if count) or f"{report.rows:,} rows"
