"""Fixtures that the tests of both distributions share."""

pytest_plugins = ("shared_fixtures", "cli_fixtures")
