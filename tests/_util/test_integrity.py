"""What a checksum is put behind is known again, and what was changed since is not."""

import pytest

from gpumf._util.integrity import sealed, unsealed


@pytest.mark.parametrize("content", [b"", b"x", bytes(range(256)) * 10])
def test_what_was_sealed_comes_back_and_nothing_else(content):
    whole = sealed(content)
    assert unsealed(whole) == content
    for changed in (whole[:-1], whole + b"\0", whole[1:], bytes([whole[0] ^ 1]) + whole[1:], content, b""):
        assert unsealed(changed) is None
