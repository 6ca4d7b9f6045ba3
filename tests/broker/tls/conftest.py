"""Certificates of one test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.certificates import Certificates, make_certificates


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return make_certificates(tmp_path / "tls")
