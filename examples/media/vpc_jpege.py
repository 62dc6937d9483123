"""Crop, paste, scale and encode pictures (pyACL guide, 9.5.2.3): what its sample does with `--dvpp_type` 0 to 6.

0 decode and scale a JPEG · 1 crop · 2 crop and paste · 3 encode as JPEG · 4 scale 8192x8192 to 4000x4000 · 5 crop eight
pictures in one call · 6 crop and paste eight. Without an argument all of them. Each result is compared with NumPy or OpenCV.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import cv2
import numpy as np

import acl

sys.path.append(str(Path(__file__).parents[1]))
import models
from common import check, device
from media_common import Dvpp, Picture, download, region

WIDTH, HEIGHT, SIDE, BATCH = 1024, 1068, 224, 8
LEFT, TOP = 512, 512


def nv12(width: int, height: int, seed: int = 1) -> np.ndarray:
    """A picture of waves: (height * 3 / 2, width)."""
    tile = models.picture(min(width, 1024), min(height, 1068), seed)  # a large picture repeats a small one
    whole = np.tile(tile, (-(-height // tile.shape[0]), -(-width // tile.shape[1]), 1))[:height, :width]
    planes = cv2.cvtColor(whole, cv2.COLOR_RGB2YUV_I420)
    chroma = planes[height:].reshape(2, height // 2, width // 2).transpose(1, 2, 0).reshape(height // 2, width)
    return np.concatenate([planes[:height], chroma])


def source(width: int = WIDTH, height: int = HEIGHT) -> tuple[Picture, np.ndarray]:
    """A picture in device memory, and its pixels."""
    picture, pixels = Picture(width, height), nv12(width, height)
    picture.write(pixels.tobytes())
    return picture, pixels


def cut(pixels: np.ndarray, left: int, top: int, width: int, height: int, full: int = HEIGHT) -> np.ndarray:
    """A part of an NV12 picture, on the host."""
    chroma = pixels[full + top // 2 : full + (top + height) // 2, left : left + width]
    return np.concatenate([pixels[top : top + height, left : left + width], chroma])


def same(what: str, ours: np.ndarray, theirs: np.ndarray, tolerance: int = 0) -> None:
    """Print how far two pictures are from each other, and stop when that is too far."""
    difference = int(np.abs(ours.astype(int) - theirs.astype(int)).max())
    print(f"{what}: largest difference {difference}")
    if difference > tolerance:
        sys.exit(f"{what}: that is too much")


def decode_and_scale(dvpp: Dvpp) -> None:
    """Type 0."""
    _, jpeg = cv2.imencode(".jpg", models.picture(1024, 1060, 3)[..., ::-1])
    decoded = dvpp.decode(jpeg.tobytes())
    small = dvpp.resize(decoded, SIDE, SIDE)
    luma = cv2.imdecode(jpeg, cv2.IMREAD_GRAYSCALE)
    same("decode (luma)", decoded.rows()[:1060], luma, 1)
    same("scale (luma)", small.rows()[:SIDE], cv2.resize(decoded.rows()[:1060], (SIDE, SIDE)))
    decoded.destroy()
    small.destroy()


def crop(dvpp: Dvpp) -> None:
    """Type 1."""
    picture, pixels = source()
    part = dvpp.crop(picture, LEFT, TOP, SIDE, SIDE)
    same("crop", part.rows(), cut(pixels, LEFT, TOP, SIDE, SIDE))
    part.destroy()
    picture.destroy()


def crop_and_paste(dvpp: Dvpp) -> None:
    """Type 2: a part is pasted into a black picture, where it is not scaled."""
    picture, pixels = source()
    target = Picture(2 * SIDE, 2 * SIDE)
    check(acl.rt.memset(target.address, target.size, 0, target.size))
    with region(LEFT, TOP, SIDE, SIDE) as area, region(64, 32, SIDE, SIDE) as target_area:
        check(
            acl.media.dvpp_vpc_crop_and_paste_async(
                dvpp.channel, picture.desc, target.desc, area, target_area, dvpp.stream
            )
        )
        dvpp.wait()
    expected = np.zeros((3 * SIDE, 2 * SIDE), np.uint8)
    part = cut(pixels, LEFT, TOP, SIDE, SIDE)
    expected[32 : 32 + SIDE, 64 : 64 + SIDE] = part[:SIDE]
    expected[2 * SIDE + 16 : 2 * SIDE + 16 + SIDE // 2, 64 : 64 + SIDE] = part[SIDE:]
    same("crop and paste", target.rows(), expected)
    picture.destroy()
    target.destroy()


def encode(dvpp: Dvpp) -> None:
    """Type 3."""
    picture, pixels = source()
    settings = acl.media.dvpp_create_jpege_config()
    check(acl.media.dvpp_set_jpege_config_level(settings, 100))
    room = check(acl.media.dvpp_jpeg_predict_enc_size(picture.desc, settings))
    address = check(acl.media.dvpp_malloc(room))
    cell = np.array([room], np.uint32)  # in: how much room there is, out: how long the file is
    pointer, cell = acl.util.numpy_contiguous_to_ptr(cell)
    check(acl.media.dvpp_jpeg_encode_async(dvpp.channel, picture.desc, address, pointer, settings, dvpp.stream))
    dvpp.wait()
    file = download(address, int(cell[0]))
    print(f"encode: {cell[0]} bytes of {room} predicted")
    same("encode (luma)", cv2.imdecode(file, cv2.IMREAD_GRAYSCALE), pixels[:HEIGHT], 3)
    check(acl.media.dvpp_destroy_jpege_config(settings))
    check(acl.media.dvpp_free(address))
    picture.destroy()


def scale_8k(dvpp: Dvpp) -> None:
    """Type 4."""
    picture, pixels = source(8192, 8192)
    small = dvpp.resize(picture, 4000, 4000)
    same("8192x8192 to 4000x4000 (luma)", small.rows()[:4000], cv2.resize(pixels[:8192], (4000, 4000)))
    small.destroy()
    picture.destroy()


def batch(dvpp: Dvpp, paste: bool) -> None:
    """Types 5 and 6: eight regions of one picture in one call."""
    picture, pixels = source()
    inputs, outputs = acl.media.dvpp_create_batch_pic_desc(1), acl.media.dvpp_create_batch_pic_desc(BATCH)
    describe(acl.media.dvpp_get_pic_desc(inputs, 0), picture)
    targets = [Picture(SIDE, SIDE) for _ in range(BATCH)]
    areas = [acl.media.dvpp_create_roi_config(x, x + SIDE - 1, TOP, TOP + SIDE - 1) for x in range(0, 32 * BATCH, 32)]
    places = [acl.media.dvpp_create_roi_config(0, SIDE - 1, 0, SIDE - 1) for _ in range(BATCH)]
    for index, target in enumerate(targets):
        describe(acl.media.dvpp_get_pic_desc(outputs, index), target)
    if paste:
        call = acl.media.dvpp_vpc_batch_crop_and_paste_async
        check(call(dvpp.channel, inputs, [BATCH], outputs, areas, places, dvpp.stream))
    else:
        check(acl.media.dvpp_vpc_batch_crop_async(dvpp.channel, inputs, [BATCH], outputs, areas, dvpp.stream))
    dvpp.wait()
    for index, target in enumerate(targets):
        same(f"batch, region {index}", target.rows(), cut(pixels, 32 * index, TOP, SIDE, SIDE))
        target.destroy()
    for handle in areas + places:
        check(acl.media.dvpp_destroy_roi_config(handle))
    check(acl.media.dvpp_destroy_batch_pic_desc(inputs))
    check(acl.media.dvpp_destroy_batch_pic_desc(outputs))
    picture.destroy()


def describe(desc: int, picture: Picture) -> None:
    """Fill a picture description of a batch."""
    for name in ("width", "height", "format", "size", "width_stride", "height_stride"):
        check(getattr(acl.media, f"dvpp_set_pic_desc_{name}")(desc, getattr(picture, name)))
    check(acl.media.dvpp_set_pic_desc_data(desc, picture.address))


TYPES = (
    decode_and_scale,
    crop,
    crop_and_paste,
    encode,
    scale_8k,
    lambda dvpp: batch(dvpp, False),
    lambda dvpp: batch(dvpp, True),
)


def main() -> None:
    """All types, or the one asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dvpp_type", type=int, choices=range(len(TYPES)), action="append")
    args = parser.parse_args()
    with device():
        dvpp = Dvpp()
        for number in args.dvpp_type or range(len(TYPES)):
            print(f"dvpp type:{number}")
            TYPES[number](dvpp)
        dvpp.release()
    print("[Sample] class Sample release source success")


if __name__ == "__main__":
    main()
