"""Files of triples → a graph, in one streaming pass."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from mhgrn.errors import UserError
from mhgrn.io.fingerprint import file_fingerprint
from mhgrn.kg.fact_table import FactTable, ImportReport
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.kg.names import concept_name
from mhgrn.kg.reader import SHOWN, GraphReader, ImportOptions, Row, RowBlock
from mhgrn.kg.readers import find_reader
from mhgrn.kg.schema import MAX_RELATIONS, Schema, load_schema
from mhgrn.progress import bar


def facts_graph(facts: Iterable[tuple[str, str, str]], schema: Schema | None) -> KnowledgeGraph:
    """Return the graph of (head, relation, tail) names."""
    table = FactTable(schema)
    rows = [Row(*fact) for fact in facts]
    for row in rows:
        if not table.relations.knows(row.relation):
            raise UserError(table.relations.unknown(row.relation))
    table.add(RowBlock.of(rows, table.relations))
    return table.graph({})


def build(
    paths: Iterable[str | Path],
    schema: str | None = None,
    options: ImportOptions = ImportOptions(),
    concepts: str | Path | None = None,
) -> tuple[KnowledgeGraph, ImportReport]:
    """Read files of triples into one graph in memory. :meth:`KnowledgeGraph.save` writes it to a folder.

    Args:
        paths: The files: ConceptNet's release, N-Triples, Parquet, or tables of head, relation, tail and perhaps a weight,
            separated by tabs or commas. Other packages may add formats. Text may be compressed (``.gz``, ``.bz2``, ``.xz``).
        schema: The name of a shipped schema, or a YAML file. By default ConceptNet's for its release; for other files, every
            relation name is a relation.
        options: The rules of import.
        concepts: A file of names, one per line, that are numbered first, whether a fact names them or not.

    Returns:
        The graph, and counts of the rows by outcome.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "facts.tsv"
    ...     _ = file.write_text("desk\\tAtLocation\\tclassroom\\nchild\\tAtLocation\\tclassroom\\n")
    ...     graph, report = build([file])
    >>> graph.fact_count, report.rows
    (2, 2)
    """
    files = [Path(path) for path in paths]
    if not files:
        raise UserError("no file was given; name the files of triples to read.")
    readers = {file: find_reader(file, options.format) for file in files}
    if schema is None:
        schema = next((reader.schema for reader in readers.values() if reader.schema is not None), None)
    table = FactTable(load_schema(schema) if schema is not None else None, options)
    if concepts is not None:
        for name in _listed(Path(concepts)):
            table.names.add(name.encode())
    for file in files:
        _read(file, readers[file], table)
    if not table.names.count:
        raise UserError(f"{', '.join(map(str, files))}: no row was usable ({_why_nothing(table.report)}); nothing was built.")
    source = {"files": {file.name: file_fingerprint(file) for file in files}, "options": options.__dict__}
    return table.graph(source), table.report


def _read(path: Path, reader: type[GraphReader], table: FactTable) -> None:
    """Add the rows of a file to the table; refuse a file with too many malformed rows."""
    rows = bad = 0
    shown: list[str] = []
    limit = table.options.max_bad
    with bar(f"reading {path.name}", path.stat().st_size) as advance:
        for block in reader(path, table.relations, table.options, advance).blocks():
            if table.relations.are_too_many:
                raise UserError(f"{path}: more than {MAX_RELATIONS:,} relations; are the columns head, relation, tail?")
            table.add(block)
            rows += block.seen
            bad += block.bad
            shown += block.bad_rows[: SHOWN - len(shown)]
            if bad > max(1000, limit * rows):
                break
    table.report.bad_rows += shown
    if bad > limit * rows:
        raise UserError(
            f"{bad:,} of {rows:,} rows are malformed, more than {limit:.0%}; nothing was built. The first:\n  " + "\n  ".join(shown)
        )


def _listed(path: Path) -> Iterator[str]:
    if not path.is_file():
        raise UserError(f"{path} does not exist; name a file of concepts, one per line.")
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text ({error.reason}).") from None
    return (name for line in lines if (name := concept_name(line)))


def _why_nothing(report: ImportReport) -> str:
    reasons = {
        f"{report.other_language:,} in another language": report.other_language,
        f"{report.not_alphabetic:,} not alphabetic": report.not_alphabetic,
        f"{report.other_relations.total():,} with relations outside the schema": report.other_relations.total(),
        f"{report.light:,} below the smallest weight": report.light,
        "the file is empty": not report.rows,
    }
    return ", ".join(text for text, count in reasons.items() if count) or f"{report.rows:,} rows"
