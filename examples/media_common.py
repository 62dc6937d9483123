"""What the media examples share: pictures in device memory, and one picture-processing channel (acl.media)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from common import ACL_MEMCPY_DEVICE_TO_HOST, ACL_MEMCPY_HOST_TO_DEVICE, check

import acl

NV12, RGB888 = 1, 12  # PIXEL_FORMAT_YUV_SEMIPLANAR_420, PIXEL_FORMAT_RGB_888


def align(value: int, unit: int) -> int:
    """The next multiple of `unit`."""
    return -(-value // unit) * unit


class Picture:
    """A picture in device memory and its acldvppPicDesc."""

    def __init__(self, width: int, height: int, form: int = NV12, columns: int = 16, rows: int = 2) -> None:
        self.width, self.height, self.format = width, height, form
        self.width_stride = align(width, columns) * (3 if form == RGB888 else 1)
        self.height_stride = align(height, rows)
        self.size = self.width_stride * self.height_stride * (2 if form == RGB888 else 3) // 2
        self.address = check(acl.media.dvpp_malloc(self.size))
        self.desc = acl.media.dvpp_create_pic_desc()
        for name in ("width", "height", "format", "size", "width_stride", "height_stride"):
            check(getattr(acl.media, f"dvpp_set_pic_desc_{name}")(self.desc, getattr(self, name)))
        check(acl.media.dvpp_set_pic_desc_data(self.desc, self.address))

    def write(self, pixels: bytes) -> None:
        """Bytes from the host."""
        upload(self.address, pixels)

    def read(self) -> np.ndarray:
        """The bytes on the host."""
        return download(self.address, self.size)

    def rows(self) -> np.ndarray:
        """The pixels on the host, without what only aligns: (height, width, 3), or NV12 as (height * 3 / 2, width)."""
        data = self.read()
        if self.format == RGB888:
            return data.reshape(-1, self.width_stride)[: self.height, : 3 * self.width].reshape(
                self.height, self.width, 3
            )
        lines = data.reshape(-1, self.width_stride)[:, : self.width]
        chroma = lines[self.height_stride : self.height_stride + self.height // 2]
        return np.concatenate([lines[: self.height], chroma])

    def destroy(self) -> None:
        """Give everything back."""
        check(acl.media.dvpp_destroy_pic_desc(self.desc))
        check(acl.media.dvpp_free(self.address))


def upload(address: int, data: bytes) -> None:
    """Bytes to the device."""
    check(acl.rt.memcpy(address, len(data), acl.util.bytes_to_ptr(data), len(data), ACL_MEMCPY_HOST_TO_DEVICE))


def download(address: int, size: int) -> np.ndarray:
    """Bytes from the device."""
    array = np.empty(size, np.uint8)
    pointer, array = acl.util.numpy_contiguous_to_ptr(array)
    check(acl.rt.memcpy(pointer, size, address, size, ACL_MEMCPY_DEVICE_TO_HOST))
    return array


@contextmanager
def on_device(data: bytes) -> Iterator[int]:
    """Bytes in media memory for a while."""
    address = check(acl.media.dvpp_malloc(len(data)))
    upload(address, data)
    yield address
    check(acl.media.dvpp_free(address))


@contextmanager
def region(left: int, top: int, width: int, height: int) -> Iterator[int]:
    """An acldvppRoiConfig; its sides are inclusive."""
    handle = acl.media.dvpp_create_roi_config(left, left + width - 1, top, top + height - 1)
    yield handle
    check(acl.media.dvpp_destroy_roi_config(handle))


class Dvpp:
    """A channel for pictures, and a stream."""

    def __init__(self) -> None:
        self.stream = check(acl.rt.create_stream())
        self.channel = acl.media.dvpp_create_channel_desc()
        check(acl.media.dvpp_create_channel(self.channel))
        self.resizing = acl.media.dvpp_create_resize_config()

    def wait(self) -> None:
        """Until everything asked for is done."""
        check(acl.rt.synchronize_stream(self.stream))

    def decode(self, jpeg: bytes) -> Picture:
        """A JPEG file as NV12 in device memory."""
        pointer = acl.util.bytes_to_ptr(jpeg)
        width, height, _, ret = acl.media.dvpp_jpeg_get_image_info(pointer, len(jpeg))
        check(ret)
        picture = Picture(width, height, NV12, columns=128, rows=16)
        with on_device(jpeg) as address:
            check(acl.media.dvpp_jpeg_decode_async(self.channel, address, len(jpeg), picture.desc, self.stream))
            self.wait()
        return picture

    def resize(self, source: Picture, width: int, height: int, form: int = NV12, columns: int = 16) -> Picture:
        """The picture in another size, and in another format if so wished."""
        target = Picture(width, height, form, columns)
        check(acl.media.dvpp_vpc_resize_async(self.channel, source.desc, target.desc, self.resizing, self.stream))
        self.wait()
        return target

    def crop(self, source: Picture, left: int, top: int, width: int, height: int) -> Picture:
        """A part of the picture."""
        target = Picture(width, height, source.format)
        with region(left, top, width, height) as area:
            check(acl.media.dvpp_vpc_crop_async(self.channel, source.desc, target.desc, area, self.stream))
            self.wait()
        return target

    def release(self) -> None:
        """Give everything back."""
        check(acl.media.dvpp_destroy_resize_config(self.resizing))
        check(acl.media.dvpp_destroy_channel(self.channel))
        check(acl.media.dvpp_destroy_channel_desc(self.channel))
        check(acl.rt.destroy_stream(self.stream))
