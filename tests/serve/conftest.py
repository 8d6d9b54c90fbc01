"""The built-in model as a service, for all tests of this folder."""

from collections.abc import Iterator

import pytest

from http_server import Client, running
from mhgrn.inference import QuestionAnswerer
from mhgrn.serve.models import ServedModel, load_models
from mhgrn.serve.settings import ServeSettings


@pytest.fixture(scope="session")
def served_model() -> ServedModel:
    """The built-in model, warm."""
    return load_models([], text_memory=ServeSettings().text_memory)["starter"]


@pytest.fixture(scope="session")
def served_qa(served_model: ServedModel) -> QuestionAnswerer:
    return served_model.qa


@pytest.fixture(scope="session")
def client(served_model: ServedModel) -> Iterator[Client]:
    with running(lambda: {"starter": served_model}) as (found, _):
        yield found
