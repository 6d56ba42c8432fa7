"""The schemes of SGD: their speeds, and their gaps to one core."""

from gpumf_study.experiments.gpumf import sgd_schemes


def test_every_label_of_a_scheme_is_a_kernel_with_options_that_it_has():
    for label, (kernel, options) in sgd_schemes.SCHEMES.items():
        assert set(options) <= set(sgd_schemes.SGD.solver_classes()[kernel].options)
        assert sgd_schemes.columns_of(label)["solver"] == kernel
    assert {kernel for kernel, _ in sgd_schemes.SCHEMES.values()} == set(sgd_schemes.SGD.solvers())
