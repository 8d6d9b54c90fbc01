"""Generated requests, valid and invalid, get the answers that the OpenAPI document promises."""

import warnings
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from http_server import Client

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import schemathesis
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        negative_data_rejection,
        response_schema_conformance,
        status_code_conformance,
        unsupported_method,
    )

# Not checked: that every request that fits the schema is accepted. It does not say which facts and choices there are.
CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
    unsupported_method,
]


def check(client: Client, examples: int) -> None:
    """Try ``examples`` requests, divided among valid and invalid ones of every operation."""
    address = f"http://127.0.0.1:{client.port}"
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
    operations = [result.ok() for result in schema.get_all_operations()]
    assert {operation.path for operation in operations} >= {"/v1/ask", "/v1/ask_many", "/v1/concepts", "/v1/model"}
    modes = [schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE]
    cases = st.one_of([operation.as_strategy(generation_mode=mode) for operation in operations for mode in modes])

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
    )
    @given(case=cases)
    def conforms(case: Any) -> None:
        case.call_and_validate(checks=CHECKS, timeout=60)

    conforms()


def test_generated_requests_get_the_promised_answers(client: Client) -> None:
    check(client, 200)


@pytest.mark.long
def test_five_thousand_generated_requests_get_the_promised_answers(client: Client) -> None:
    check(client, 5000)
