"""Parameters and options have bounds, and errors name them."""

import pytest

from gpumf import SGD


def test_what_is_not_said_of_items_and_biases_is_as_of_users():
    assert SGD(16, 0.3).item_regularization == 0.3 and SGD(16, 0.3).bias_regularization == 0.3
    assert SGD(16, bias_regularization=0.2, biases=False).item_bias_regularization == 0.2
    saved = SGD(16, item_bias_regularization=0.4, biases=False)._parameters
    assert SGD(**saved).item_bias_regularization == 0.4 != SGD(**saved).bias_regularization


def outside(option):
    """Values that an option declares not to take."""
    others = ("x", 2, 1.0) if option.choices else (option.least - 1, option.most + 1, 2.5, True, "64")
    return others if option.default is None else (*others, None)


# Of the schemes whose bounds are limits of a GPU or of a method, beside what they declare.
WRONG_OPTIONS = {
    "gpusgd": {"side": (0, -1, 50_000, 2.5, True, "64", None), "block": (0, 1025), "precision": (16,)},
    "newgpusgd": {"side": (0, 50_000), "precision": (8, "32", 32.0, None)},
    "bsgd": {"batch": (0, -5, 2**31)},
    "esgd": {"th_size": (0, 1025), "st": (0, 20), "shuffle": (1, None)},
    "cu2rec": {
        "conflict": ("x", None),
        "striding": (2,),
        "initial": ("x", None),
        "patience": (0,),
        "loss_every": (0,),
    },
    "cumf_sgd": {"update": ("x", None), "run": (0, 2**31), "side": (0, 50_000)},
    "fast": {
        "resident": ("rows",),
        "tiles": (0,),
        "parts": (0, -3),
        "longest": (0,),
        "precision": (8, 64),
        "reread": (1,),
        "locked": (1,),
        "row_rates": (1,),
    },
}


@pytest.mark.parametrize(
    "kernel", [name for name, trainer in SGD.solver_classes().items() if trainer.device == "cuda"]
)
def test_options_have_bounds_and_say_so(host, kernel):
    options, wrong = SGD.options_of(kernel), WRONG_OPTIONS.get(kernel, {})
    assert set(wrong) <= set(options)
    chosen = SGD(16, solver=kernel, device="emulator", biases=False).options
    assert chosen == {name: option.default for name, option in options.items()}
    for name, option in options.items():
        for value in (*outside(option), *wrong.get(name, ())):
            with pytest.raises(ValueError, match=rf"{name}.*{kernel}.* (an integer from|one of) .*, not {value!r}"):
                SGD(16, solver=kernel, device="emulator", biases=False, **{name: value})


def test_what_is_compiled_for_an_option_is_what_it_takes():
    found = 0
    for scheme in SGD.solver_classes().values():
        for name, option in getattr(scheme, "options", {}).items():
            if (values := getattr(scheme, "variants", {}).get(name.upper())) is not None:
                assert set(values) == set(option.choices), (scheme, name)  # False is 0
                found += 1
    assert found
