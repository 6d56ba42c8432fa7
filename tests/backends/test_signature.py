"""A kernel's arguments: by name, checked and cast as the source says."""

import numpy as np
import pytest

from gpumf.backends import sources
from gpumf.backends.signature import Signature
from support import NAMES


def test_a_kernel_takes_its_arguments_by_name(launcher):
    shuffles, values = launcher.kernel(NAMES, "shuffles"), launcher.array(np.arange(64, dtype=np.float32))
    by_place, by_name, mixed = (launcher.zeros((4, 64), np.float32) for _ in range(3))
    shuffles(1, 64, values, np.int32(3), np.int32(16), by_place)
    shuffles(1, 64, result=by_name, width=16, lanes=3, values=values)
    shuffles((1,), (64,), values, np.int64(3), result=mixed, width=np.uint8(16))
    assert launcher.to_numpy(by_place).any()
    assert np.array_equal(launcher.to_numpy(by_place), launcher.to_numpy(by_name))
    assert np.array_equal(launcher.to_numpy(by_place), launcher.to_numpy(mixed))


def test_arguments_are_checked(launcher):
    kernel, x = launcher.kernel(NAMES, "shuffles"), launcher.zeros((8, 64), np.float32)
    right = {"values": x, "lanes": 1, "width": 32, "result": x}
    for wrong, error, message in (
        ({"lanes": 1.0}, TypeError, "lanes is int, a whole number, not 1.0"),
        ({"lanes": np.float32(1)}, TypeError, "lanes is int"),
        ({"lanes": x}, TypeError, "lanes is int"),
        ({"lanes": 2**31}, ValueError, "lanes is int, from -2147483648 to 2147483647, not 2147483648"),
        ({"lanes": np.int64(-(2**31) - 1)}, ValueError, "lanes is int"),
        ({"values": np.zeros(64)}, TypeError, "shuffles: values is const float"),
        ({"values": 1}, TypeError, "values is const float.*, an array on the device, not 1"),
        ({"values": launcher.zeros(64, np.float64)}, TypeError, "not an array of float64"),
        ({"values": launcher.zeros(64, np.int32)}, TypeError, "not an array of int32"),
        ({"result": x[:, ::2]}, TypeError, "result has to be contiguous"),
        ({"result": x.T}, TypeError, "result has to be contiguous"),
        ({"height": 1}, TypeError, r"no parameters \['height'\]; it has \['values', 'lanes', 'width', 'result'\]"),
    ):
        with pytest.raises(error, match=message):
            kernel(1, 64, **right | wrong)
    del right["width"], right["values"]
    with pytest.raises(TypeError, match=r"shuffles: \['values', 'width'\] are missing"):
        kernel(1, 64, **right)
    with pytest.raises(TypeError, match=r"shuffles: \['lanes'\] are given by place and by name"):
        kernel(1, 64, x, 1, 32, lanes=1)
    with pytest.raises(TypeError, match=r"no parameters \['height'\]"):
        kernel(1, 64, x, 1, 32, x, height=1)
    with pytest.raises(TypeError, match="takes 4 arguments, not 5"):
        kernel(1, 64, x, 1, 32, x, x)
    assert not launcher.to_numpy(x).any()


def test_numbers_are_cast_to_the_type_in_the_source():
    kinds = ["unsigned", "long long", "unsigned long long", "float", "double"]
    signature = Signature("k", {f"p{i}": kind for i, kind in enumerate(kinds)})
    bound = signature.bind([2**32 - 1, -5, 2**64 - 1, 0.1, 1], {}, np.ndarray)
    assert [type(value) for value in bound] == [np.uint32, np.int64, np.uint64, np.float32, np.float64]
    assert bound == (2**32 - 1, -5, 2**64 - 1, np.float32(0.1), 1.0)
    bound = signature.bind([np.uint8(1), True, np.int16(2), np.float64("inf"), float("nan")], {}, np.ndarray)
    assert bound[:4] == (1, 1, 2, np.inf) and np.isnan(bound[4])
    for place, value in ((0, -1), (0, 2**32), (1, 2**63), (2, -1), (3, 1e39), (3, -(10**400)), (4, 10**400)):
        arguments = [0] * 5
        arguments[place] = value
        with pytest.raises(ValueError, match=f"k: p{place} is {kinds[place]}, from"):
            signature.bind(arguments, {}, np.ndarray)


@pytest.mark.parametrize(
    ("kind", "taken", "refused"),
    [
        ("const half_bits* __restrict__", "u2 f2", "i4 f4 i2"),
        ("__half*", "u2 f2", "f4"),
        ("unsigned*", "u4 i4", "f4 i8 >u4"),
        ("const unsigned char* __restrict__", "u1 i1 bool", "i4"),
        ("const long long* __restrict__", "i8", "i4 f8"),
        ("float*", "f4", "f2 f8 i4 >f4"),
        ("const float4* __restrict__", "f4 u2", ""),
    ],
)
def test_elements_are_of_the_type_in_the_source(kind, taken, refused):
    signature = Signature("k", {"a": kind})
    for dtype in taken.split():
        array = np.zeros(2, dtype)
        assert signature.bind([], {"a": array}, np.ndarray)[0] is array
    for dtype in refused.split():
        with pytest.raises(TypeError, match="not an array of"):
            signature.bind([np.zeros(2, dtype)], {}, np.ndarray)


def test_every_kernel_has_a_signature():
    for source, name in sources.all_kernels():
        parameters = sources.kernels(sources.kernels_folder() / source)[name]
        assert len(Signature(name, parameters).parameters) > 0
    with pytest.raises(TypeError, match="k: p is 'Segment'; a kernel takes pointers and numbers"):
        Signature("k", {"p": "Segment"})


def test_so_many_arguments_that_half_of_them_would_do_are_refused():
    signature = Signature("pair", {"first": "int", "second": "int"})
    assert signature.bind((), {"first": 1, "second": 2}, np.ndarray) == (1, 2)
    assert signature.bind((1, 2), {}, np.ndarray) == signature.bind((1,), {"second": 2}, np.ndarray) == (1, 2)
    for count in range(1, 7):
        with pytest.raises(TypeError, match="pair"):
            signature.bind(range(count), {"first": 1, "second": 2}, np.ndarray)
