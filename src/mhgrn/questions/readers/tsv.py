"""TSV: CSV with tabs."""

from mhgrn.questions.readers.csv import CSVReader


class TSVReader(CSVReader):
    name = "tsv"
    endings = (".tsv",)
    usual_delimiter = "\t"
