"""Files of caches end with a checksum, so that a damaged one is noticed and made again.

What stands behind its end means nothing to the loader of libraries, to pickle, or to whoever cuts it off.
"""

import hashlib

_SIZE = hashlib.sha256().digest_size


def sealed(content: bytes) -> bytes:
    """Bytes with their checksum behind them."""
    return content + hashlib.sha256(content).digest()


def unsealed(content: bytes) -> bytes | None:
    """The bytes without the checksum that `sealed` put behind them; None where they are not what they were."""
    inner, checksum = content[:-_SIZE], content[-_SIZE:]
    return inner if hashlib.sha256(inner).digest() == checksum else None
