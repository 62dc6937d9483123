"""Chapter 5.3.5: decoding a PNG."""

import os
import tempfile

import cv2
import numpy as np

import acl

ACL_MEMCPY_HOST_TO_DEVICE = 1
PIXEL_FORMAT_RGB_888 = 12


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


def main():
    folder = tempfile.mkdtemp()
    ACL_CONFIG_PATH = os.path.join(folder, "acl.json")
    with open(ACL_CONFIG_PATH, "w", encoding="utf-8") as file:
        file.write("{}")
    picture = np.random.default_rng(535).integers(0, 256, (240, 320, 3)).astype(np.uint8)
    pic_name = os.path.join(folder, "test_png_dec.png")
    with open(pic_name, "wb") as file:
        file.write(cv2.imencode(".png", picture[:, :, ::-1])[1].tobytes())

    # 1. Initialise.
    check("init", acl.init(ACL_CONFIG_PATH))

    # 2. Device, context, stream.
    device_id = 0
    check("set_device", acl.rt.set_device(device_id))
    context, ret = acl.rt.create_context(device_id)
    check("create_context", ret)
    stream, ret = acl.rt.create_stream()
    check("create_stream", ret)

    # 3. Describe a channel of the picture engines.
    dvpp_channel_desc = acl.media.dvpp_create_channel_desc()

    # 4. Open it.
    check("dvpp_create_channel", acl.media.dvpp_create_channel(dvpp_channel_desc))

    # 5. Memory of the input.
    np_png = np.fromfile(pic_name, dtype=np.byte)
    in_buffer_size = np_png.itemsize * np_png.size
    bytes_data = np_png.tobytes()
    np_png_ptr = acl.util.bytes_to_ptr(bytes_data)
    in_dev_buffer, ret = acl.media.dvpp_malloc(in_buffer_size)
    check("dvpp_malloc", ret)
    ret = acl.rt.memcpy(in_dev_buffer, in_buffer_size, np_png_ptr, in_buffer_size, ACL_MEMCPY_HOST_TO_DEVICE)
    check("memcpy", ret)

    # 6. Memory of the output.
    out_buffer_size, ret = acl.media.dvpp_png_predict_dec_size(np_png_ptr, in_buffer_size, PIXEL_FORMAT_RGB_888)
    check("dvpp_png_predict_dec_size", ret)
    out_dev_buffer, ret = acl.media.dvpp_malloc(out_buffer_size)
    check("dvpp_malloc", ret)

    # 7. Describe the output: size and strides are left to the engine.
    output_desc = acl.media.dvpp_create_pic_desc()
    width, height, components, ret = acl.media.dvpp_png_get_image_info(np_png_ptr, in_buffer_size)
    check("dvpp_png_get_image_info", ret)
    assert (width, height, components) == (320, 240, 3)
    check("set data", acl.media.dvpp_set_pic_desc_data(output_desc, out_dev_buffer))
    check("set size", acl.media.dvpp_set_pic_desc_size(output_desc, out_buffer_size))
    check("set format", acl.media.dvpp_set_pic_desc_format(output_desc, PIXEL_FORMAT_RGB_888))

    # 8. Decode, and wait for it.
    ret = acl.media.dvpp_png_decode_async(dvpp_channel_desc, in_dev_buffer, in_buffer_size, output_desc, stream)
    check("dvpp_png_decode_async", ret)
    check("synchronize_stream", acl.rt.synchronize_stream(stream))
    stride = acl.media.dvpp_get_pic_desc_width_stride(output_desc)
    result = np.frombuffer(acl.util.ptr_to_bytes(out_dev_buffer, out_buffer_size), np.uint8).reshape(-1, stride)
    assert (result[:height, : width * 3].reshape(height, width, 3) == picture).all(), "the picture differs"

    # 9. Give back the description, the memory and the channel.
    check("destroy_pic_desc", acl.media.dvpp_destroy_pic_desc(output_desc))
    check("dvpp_free", acl.media.dvpp_free(in_dev_buffer))
    check("dvpp_free", acl.media.dvpp_free(out_dev_buffer))
    check("dvpp_destroy_channel", acl.media.dvpp_destroy_channel(dvpp_channel_desc))
    check("dvpp_destroy_channel_desc", acl.media.dvpp_destroy_channel_desc(dvpp_channel_desc))

    # 10. and 11. Stream, context, device.
    check("destroy_stream", acl.rt.destroy_stream(stream))
    check("destroy_context", acl.rt.destroy_context(context))
    check("reset_device", acl.rt.reset_device(device_id))
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main()
