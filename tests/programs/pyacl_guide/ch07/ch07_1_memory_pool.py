"""Chapter 7.1: one large allocation, cut into pieces by the manual's size and address rules."""

import numpy as np

import acl

ACL_MEM_MALLOC_NORMAL_ONLY = 2
ACL_MEMCPY_HOST_TO_HOST = 0
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
LENGTHS = (1, 31, 32, 33, 64, 95, 1000, 4096, 65537)


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


def align_up(length, k):
    return ((length - 1) // k + 1) * k


def piece_size(length):
    return align_up(length, 32) + 32


class Pool:
    """Hands out pieces of one block; every piece starts on a multiple of `alignment`."""

    def __init__(self, base, size, alignment):
        self.next, self.end, self.alignment = align_up(base, alignment), base + size, alignment

    def take(self, length):
        start = self.next
        if start + piece_size(length) > self.end:
            raise MemoryError(f"no room for {length} bytes")
        self.next = start + align_up(piece_size(length), self.alignment)
        return start


def run(malloc, free, alignment, stream):
    # One alignment more than the pieces need, in case the block itself is aligned less strictly.
    total = sum(align_up(piece_size(n), alignment) for n in LENGTHS) + alignment
    block, ret = malloc(total)
    check("malloc", ret)
    assert block % 64 == 0, "memory starts on a multiple of 64"
    host_block, ret = acl.rt.malloc_host(2 * total)
    check("malloc_host", ret)
    pool, host_pool = Pool(block, total, alignment), Pool(host_block, 2 * total, alignment)

    # All pieces are written before the first is read: an overlap would show.
    rows = []
    for seed, length in enumerate(LENGTHS):
        data = np.random.default_rng(seed).bytes(length)
        piece, source, target = pool.take(length), host_pool.take(length), host_pool.take(length)
        assert piece % alignment == source % alignment == target % alignment == 0
        check("memcpy", acl.rt.memcpy(source, length, acl.util.bytes_to_ptr(data), length, ACL_MEMCPY_HOST_TO_HOST))
        check("memset", acl.rt.memset(piece, piece_size(length), 0xEE, piece_size(length)))
        check("memcpy_async", acl.rt.memcpy_async(piece, length, source, length, ACL_MEMCPY_HOST_TO_DEVICE, stream))
        rows.append((piece, target, length, data))
    for piece, target, length, _ in rows:
        check("memcpy_async", acl.rt.memcpy_async(target, length, piece, length, ACL_MEMCPY_DEVICE_TO_HOST, stream))
    check("synchronize_stream", acl.rt.synchronize_stream(stream))
    for _, target, length, data in rows:
        assert acl.util.ptr_to_bytes(target, length) == data, f"piece of {length} bytes was damaged"
    try:
        pool.take(LENGTHS[-1])
    except MemoryError:
        pass
    else:
        raise AssertionError("the pool is larger than planned")
    check("free", free(block))
    check("free_host", acl.rt.free_host(host_block))


def main():
    check("init", acl.init())
    check("set_device", acl.rt.set_device(0))
    stream, ret = acl.rt.create_stream()
    check("create_stream", ret)
    run(lambda size: acl.rt.malloc(size, ACL_MEM_MALLOC_NORMAL_ONLY), acl.rt.free, 64, stream)
    run(lambda size: acl.rt.malloc_cached(size, ACL_MEM_MALLOC_NORMAL_ONLY), acl.rt.free, 64, stream)
    # 128 is what media memory asks for, and the advised choice where both kinds share a pool.
    run(lambda size: acl.rt.malloc(size, ACL_MEM_MALLOC_NORMAL_ONLY), acl.rt.free, 128, stream)
    check("destroy_stream", acl.rt.destroy_stream(stream))
    check("reset_device", acl.rt.reset_device(0))
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main()
