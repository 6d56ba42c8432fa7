"""What figures have in common: dots, and a look for each scheme."""

import pandas as pd
import pytest

from gpumf import ALS, SGD
from gpumf import figure_style as style


def test_dots_are_drawn_from_top_to_bottom():
    (axis,) = style.dots(pd.Series([3.0, 5.0], index=["one", ("two", 2)]), "things", log=False).axes
    assert [label.get_text() for label in axis.get_yticklabels()] == ["one", "two, 2"]
    assert list(axis.lines[0].get_xdata()) == [3, 5] and list(axis.lines[0].get_ydata()) == [1, 0]
    assert axis.get_xlabel() == "things"


@pytest.mark.parametrize("model", [ALS, SGD])
def test_every_scheme_of_a_model_looks_like_no_other_and_a_variant_has_its_colour(model):
    looks = {scheme: look for (of, scheme), look in style.LOOKS.items() if of == model.__name__}
    assert set(model.solvers()) <= set(looks)
    assert len({look[1:] for look in looks.values()}) == len({look.name for look in looks.values()}) == len(looks)
    for scheme, look in looks.items():
        assert look.colour in style.COLOURS and look.colour == looks[scheme.split(", ")[0]].colour
    colours = [looks[scheme].colour for scheme in looks if "," not in scheme]
    assert len(set(colours)) == len(colours), "one colour a scheme"
