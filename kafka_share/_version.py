"""The one place where the version stands; pyproject.toml and the ApiVersions request read it."""

VERSION = "0.1.0.dev0"
