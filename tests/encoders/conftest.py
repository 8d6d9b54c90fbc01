import pytest

pytest.register_assert_rewrite("encoder_cases")
