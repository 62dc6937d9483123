"""The parameter block of dynamic AIPP (kAippDynamicPara): what an application's parameter set looks like in device memory.

A head of 64 bytes holds what all pictures of a batch share, then each picture has 96 bytes of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace

from softnpu.base.aipp import FROM_BLOCK, AippParams

HEAD_BYTES, PICTURE_BYTES = 64, 96
BATCH_PLACE = 4  # of the number of pictures in the head
MAX_BATCH = 127  # the head counts pictures in a signed byte
_HEAD = struct.Struct("<4Bb3x2i9h6x6B18x")
_PICTURE = struct.Struct("<4B4x12i4h4e4e16x")


def block_bytes(batch: int) -> int:
    """Bytes of the block for a batch."""
    return HEAD_BYTES + PICTURE_BYTES * batch


def pack(pictures: Sequence[AippParams]) -> bytes:
    """The block of a batch; what the head holds is the first picture's."""
    first = pictures[0]
    head = _HEAD.pack(
        *(first.format.block, first.csc, first.rbuv_swap, first.ax_swap, len(pictures), first.src_w, first.src_h),
        *(*first.matrix, *first.output_bias, *first.input_bias),
    )
    return head + b"".join(_pack_picture(picture) for picture in pictures)


def _pack_picture(picture: AippParams) -> bytes:
    crop = (picture.crop_start_w, picture.crop_start_h, picture.crop_w, picture.crop_h)
    pads = (picture.top, picture.bottom, picture.left, picture.right)
    return _PICTURE.pack(
        picture.crop, 0, picture.padding, 0, *crop, 0, 0, 0, 0, *pads, *picture.mean, *picture.min, *picture.var_reci
    )


def unpack(data: bytes | memoryview) -> list[AippParams]:
    """The parameters of every picture; raises ValueError for bytes that are no block (nothing was set, or it was overwritten)."""
    if len(data) < HEAD_BYTES:
        raise ValueError(f"an AIPP parameter block has at least {HEAD_BYTES} bytes, this one has {len(data)}")
    code, csc, rbuv, ax, batch, src_w, src_h, *numbers = _HEAD.unpack_from(data)
    row = FROM_BLOCK.get(code)
    if row is None:
        raise ValueError(f"the AIPP parameter block names the picture format {code}, which there is not")
    if batch < 1 or len(data) < block_bytes(batch):
        raise ValueError(f"the AIPP parameter block claims {batch} pictures in {len(data)} bytes")
    shared = AippParams(
        row.code,
        csc=bool(csc),
        rbuv_swap=bool(rbuv),
        ax_swap=bool(ax),
        src_w=src_w,
        src_h=src_h,
        matrix=tuple(numbers[:9]),
        output_bias=tuple(numbers[9:12]),
        input_bias=tuple(numbers[12:15]),
    )
    pictures = [_unpack_picture(data, index, shared) for index in range(batch)]
    for index, picture in enumerate(pictures):
        problem = picture.problem() or ("" if picture.src_w else "the source size is missing")
        if problem:
            raise ValueError(f"picture {index} of the AIPP parameter block: {problem}")
    return pictures


def _unpack_picture(data: bytes | memoryview, index: int, shared: AippParams) -> AippParams:
    crop, scale, padding, rotate, *own = _PICTURE.unpack_from(data, block_bytes(index))
    if scale or rotate:
        raise ValueError(
            f"picture {index} of the AIPP parameter block asks for scaling or rotation, which no chip here does"
        )
    start_w, start_h, size_w, size_h, _, _, _, _, top, bottom, left, right = own[:12]
    return replace(
        shared,
        crop=bool(crop),
        crop_start_w=start_w,
        crop_start_h=start_h,
        crop_w=size_w,
        crop_h=size_h,
        padding=bool(padding),
        left=left,
        right=right,
        top=top,
        bottom=bottom,
        mean=tuple(own[12:16]),
        min=tuple(own[16:20]),
        var_reci=tuple(own[20:24]),
    )
