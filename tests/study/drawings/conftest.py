"""What is drawn, by the keys that drawings give their parts."""

import numpy as np
import pytest


def patches_of(drawing):
    """Every patch of a drawing that has a key: a dict key -> (facecolor, text in its middle or None)."""
    found = {}
    for axis in drawing.figure(1).axes:
        texts = {tuple(np.round(text.get_position(), 3)): text.get_text() for text in axis.texts}
        for patch in axis.patches:
            if patch.get_gid():
                x, y = (patch.get_x() + patch.get_width() / 2, patch.get_y() + patch.get_height() / 2)
                assert patch.get_gid() not in found
                found[patch.get_gid()] = patch.get_facecolor(), texts.get((round(x, 3), round(y, 3)))
    return found


@pytest.fixture
def drawn():
    """The function `patches_of`."""
    return patches_of
