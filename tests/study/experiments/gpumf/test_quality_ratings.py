"""The errors of tuned models on MovieLens 1M."""

from gpumf_study import results
from gpumf_study.experiments.gpumf import quality_ratings


def test_each_error_stands_in_the_row_of_its_program():
    frame = results.load("quality_ratings", "cpu").frame
    axis = quality_ratings.figure(frame).axes[0]
    names = dict(zip(axis.get_yticks(), [label.get_text() for label in axis.get_yticklabels()], strict=True))
    written = {names[text.xy[1]]: text.get_text() for text in axis.texts}
    drawn = {names[y]: x for line in axis.lines for x, y in zip(*line.get_data(), strict=True)}
    for name, error in quality_ratings.summary(frame)["mean"].items():
        assert written[name] == f"{error:.4f}" and drawn[name] == error
