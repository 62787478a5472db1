"""A plugin for pytest: Hypothesis stops at the first failure, because a mutant's least example is of no interest."""

from __future__ import annotations

import hypothesis
import pytest


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile("mutants", hypothesis.settings.default, phases=phases)
    hypothesis.settings.load_profile("mutants")
