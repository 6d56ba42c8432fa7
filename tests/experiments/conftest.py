"""Results of the tests of experiments."""

import pandas as pd
import pytest

from gpumf import results


@pytest.fixture
def stored(repository):
    """Makes a live Result of a frame, or of rows and columns."""

    def store(frame, columns=None, name="x"):
        frame = pd.DataFrame(frame, columns=columns)
        return results.store(name, frame, {}, results.provenance(), live=True, source="gpumf")

    return store
