"""How many blocks of a kernel a multiprocessor runs at a time."""

_WARP = 32
# A warp's registers come in portions; the warps of a multiprocessor are shared out evenly over its schedulers.
_REGISTER_PORTION, _SCHEDULERS = 256, 4
_SHARED_PORTION = 128  # bytes

# The thesis's GTX 770 (compute capability 3.0), in the words of a device's facts.
KEPLER = {
    "multiprocessors": 8,
    "threads_per_multiprocessor": 2048,
    "blocks_per_multiprocessor": 16,
    "registers_per_multiprocessor": 65536,
    "shared_bytes_per_multiprocessor": 48 << 10,
}


def active_blocks(facts, threads, registers=0, shared_bytes=0):
    """Blocks that are resident on a multiprocessor at a time: what threads, registers or shared memory run out for.

    The thesis's equation 6.2 is the last of the three.

    facts : dict of threads_per_multiprocessor, blocks_per_multiprocessor, registers_per_multiprocessor,
        shared_bytes_per_multiprocessor, reserved_shared_bytes (of every block, for the system); one that is
        missing limits nothing
    threads : int, of a block
    registers : int, of a thread
    shared_bytes : int, of a block, static and dynamic
    """
    warps = -(-threads // _WARP)
    of_warp = -(-registers * _WARP // _REGISTER_PORTION) * _REGISTER_PORTION
    of_block = -(-(shared_bytes + facts.get("reserved_shared_bytes", 0)) // _SHARED_PORTION) * _SHARED_PORTION
    blocks = [facts["threads_per_multiprocessor"] // (warps * _WARP)]
    if "blocks_per_multiprocessor" in facts:
        blocks.append(facts["blocks_per_multiprocessor"])
    if of_warp and "registers_per_multiprocessor" in facts:
        of_scheduler = facts["registers_per_multiprocessor"] // _SCHEDULERS // of_warp
        blocks.append(of_scheduler * _SCHEDULERS // warps)
    if of_block and "shared_bytes_per_multiprocessor" in facts:
        blocks.append(facts["shared_bytes_per_multiprocessor"] // of_block)
    return min(blocks)
