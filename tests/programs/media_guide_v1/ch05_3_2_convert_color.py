"""Chapter 5.3.2: changing the format of a picture."""

import os
import tempfile

import numpy as np

import acl

ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
PIXEL_FORMAT_YUV_400 = 0
PIXEL_FORMAT_YUV_SEMIPLANAR_420 = 1


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


def main():
    input_width = output_width = 320
    input_height = output_height = 240
    y, x = np.mgrid[0 : input_height * 3 // 2, 0:input_width]
    picture = ((x * 3 + y * 5) % 251).astype(np.uint8)
    with tempfile.NamedTemporaryFile(suffix=".yuv", delete=False) as file:
        file.write(picture.tobytes())
    path = file.name

    # 1. Initialise.
    check("init", acl.init())

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
    input_width_stride = ((input_width + 15) // 16) * 16
    input_height_stride = ((input_height + 1) // 2) * 2
    in_buffer_size = (input_width_stride * input_height_stride * 3) // 2
    in_dev_buffer, ret = acl.media.dvpp_malloc(in_buffer_size)
    check("dvpp_malloc", ret)
    np_yuv = np.fromfile(path, dtype=np.byte)
    os.unlink(path)
    buffer_size = np_yuv.itemsize * np_yuv.size
    bytes_data = np_yuv.tobytes()
    np_yuv_ptr = acl.util.bytes_to_ptr(bytes_data)
    ret = acl.rt.memcpy(in_dev_buffer, buffer_size, np_yuv_ptr, buffer_size, ACL_MEMCPY_HOST_TO_DEVICE)
    check("memcpy", ret)

    # 6. Memory of the output.
    # manual slip: the size of a 4:2:0 picture is calculated for one without chroma; more than is needed, and harmless
    output_width_stride = ((output_width + 15) // 16) * 16
    output_height_stride = ((output_height + 1) // 2) * 2
    out_buffer_size = (output_width_stride * output_height_stride * 3) // 2
    out_dev_buffer, ret = acl.media.dvpp_malloc(out_buffer_size)
    check("dvpp_malloc", ret)

    # 7. Describe the input.
    input_desc = acl.media.dvpp_create_pic_desc()
    check("set data", acl.media.dvpp_set_pic_desc_data(input_desc, in_dev_buffer))
    check("set format", acl.media.dvpp_set_pic_desc_format(input_desc, PIXEL_FORMAT_YUV_SEMIPLANAR_420))
    check("set width", acl.media.dvpp_set_pic_desc_width(input_desc, input_width))
    check("set height", acl.media.dvpp_set_pic_desc_height(input_desc, input_height))
    check("set width stride", acl.media.dvpp_set_pic_desc_width_stride(input_desc, input_width_stride))
    check("set height stride", acl.media.dvpp_set_pic_desc_height_stride(input_desc, input_height_stride))
    check("set size", acl.media.dvpp_set_pic_desc_size(input_desc, in_buffer_size))

    # 8. Describe the output, which has the size of the input.
    output_desc = acl.media.dvpp_create_pic_desc()
    check("set data", acl.media.dvpp_set_pic_desc_data(output_desc, out_dev_buffer))
    check("set format", acl.media.dvpp_set_pic_desc_format(output_desc, PIXEL_FORMAT_YUV_400))
    check("set width", acl.media.dvpp_set_pic_desc_width(output_desc, output_width))
    check("set height", acl.media.dvpp_set_pic_desc_height(output_desc, output_height))
    check("set width stride", acl.media.dvpp_set_pic_desc_width_stride(output_desc, output_width_stride))
    check("set height stride", acl.media.dvpp_set_pic_desc_height_stride(output_desc, output_height_stride))
    check("set size", acl.media.dvpp_set_pic_desc_size(output_desc, out_buffer_size))

    # 9. Convert, and wait for it.
    ret = acl.media.dvpp_vpc_convert_color_async(dvpp_channel_desc, input_desc, output_desc, stream)
    check("dvpp_vpc_convert_color_async", ret)
    check("synchronize_stream", acl.rt.synchronize_stream(stream))

    # 10. Give back the descriptions and the memory.
    check("destroy_pic_desc", acl.media.dvpp_destroy_pic_desc(input_desc))
    check("destroy_pic_desc", acl.media.dvpp_destroy_pic_desc(output_desc))
    np_output = np.zeros(out_buffer_size, dtype=np.byte)
    bytes_data = np_output.tobytes()
    np_output_ptr = acl.util.bytes_to_ptr(bytes_data)
    ret = acl.rt.memcpy(np_output_ptr, out_buffer_size, out_dev_buffer, out_buffer_size, ACL_MEMCPY_DEVICE_TO_HOST)
    check("memcpy", ret)
    result = np.frombuffer(bytes_data, np.uint8)[: output_width * output_height].reshape(output_height, output_width)
    assert (result == picture[:input_height]).all(), "the luma differs"
    check("dvpp_free", acl.media.dvpp_free(in_dev_buffer))
    check("dvpp_free", acl.media.dvpp_free(out_dev_buffer))
    # manual slip: the channel is never given back
    check("dvpp_destroy_channel", acl.media.dvpp_destroy_channel(dvpp_channel_desc))
    check("dvpp_destroy_channel_desc", acl.media.dvpp_destroy_channel_desc(dvpp_channel_desc))

    # 11. Stream, context, device.
    # manual slip: `self.stream`, `self.context` and `self.device_id` in a program without `self`
    check("destroy_stream", acl.rt.destroy_stream(stream))
    check("destroy_context", acl.rt.destroy_context(context))
    check("reset_device", acl.rt.reset_device(device_id))
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main()
