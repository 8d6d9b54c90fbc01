"""How a graph names its concepts."""


def concept_name(text: str) -> str:
    """The form in which a graph names a concept.

    >>> concept_name(" Furniture store")
    'furniture_store'
    """
    return "_".join(text.lower().split())
