import pytest

pytest.register_assert_rewrite("encoders.cases")
