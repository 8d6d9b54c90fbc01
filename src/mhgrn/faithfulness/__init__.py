"""Faithfulness of explanations: whether the facts that a method names are those that decide the answer."""
