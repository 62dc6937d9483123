"""Media through acl.media against the libraries that do the work, called directly; one thread each unless said."""

from __future__ import annotations

import functools
import io
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import cv2
import numpy as np
from _media import RGB888, Dvpp, Picture, Vdec, jpeg, ok, stream, upload
from _models import Client, convert, resnet50
from _tools import Result, interleaved

import acl

Array = np.ndarray[Any, Any]


def _row(name: str, ours: float, peer: float, peer_name: str, wish: float, unit: float = 1e3) -> Result:
    ratio = peer / ours
    shown = "ms" if unit == 1e3 else "µs"
    return Result(
        name,
        f"{ours * unit:.2f} {shown}",
        f"{peer_name} {peer * unit:.2f} {shown}",
        f"{ratio:.2f}",
        f"≥ {wish}",
        ratio >= wish,
    )


def _jpeg_to_nv12(dvpp: Dvpp) -> list[Result]:
    import av
    import simplejpeg

    data = jpeg(1920, 1080)
    address, out = upload(data), Picture(1920, 1080, columns=64, rows=16)
    decoder = av.CodecContext.create("mjpeg", "r")
    decoder.thread_count = 1
    array = np.frombuffer(data, np.uint8)
    peers: dict[str, Callable[[], Any]] = {
        "simplejpeg to RGB": lambda: simplejpeg.decode_jpeg(data, "RGB"),
        "PyAV to planes": lambda: decoder.decode(av.Packet(data)),
        "OpenCV to BGR": lambda: cv2.imdecode(array, cv2.IMREAD_COLOR),
    }
    times = interleaved(lambda: dvpp.decode(address, len(data), out), *peers.values(), rounds=15)
    peer, best = min(zip(peers, times[1:], strict=True), key=lambda pair: pair[1])
    return [_row("JPEG 1080p → NV12 in device memory", times[0], best, f"fastest: {peer}", 0.95)]


def _jpeg_to_tensor(dvpp: Dvpp) -> list[Result]:
    from PIL import Image

    data = jpeg(1024, 683)
    address = upload(data)
    decoded, out = Picture(1024, 683, columns=64, rows=16), Picture(224, 224, RGB888, columns=1)

    def ours() -> None:
        dvpp.decode(address, len(data), decoded, wait=False)
        dvpp.resize(decoded, out)

    target = np.empty((224, 224, 3), np.uint8)

    def pillow() -> None:
        image = Image.open(io.BytesIO(data)).convert("RGB").resize((224, 224), Image.Resampling.BILINEAR)
        np.copyto(target, np.asarray(image))

    times = interleaved(ours, pillow, rounds=15)
    return [_row("JPEG 1024x683 → 224x224 RGB tensor", times[0], times[1], "Pillow + numpy", 2.0)]


def _resize(dvpp: Dvpp) -> list[Result]:
    rows = []
    for width, height in ((416, 416), (1280, 720)):
        source, out = Picture(1920, 1080), Picture(width, height)
        random = np.random.default_rng(0)
        luma, chroma = random.integers(0, 256, (1080, 1920), np.uint8), random.integers(0, 256, (540, 960, 2), np.uint8)
        small, small_chroma = np.empty((height, width), np.uint8), np.empty((height // 2, width // 2, 2), np.uint8)

        def bare(a: Array = luma, b: Array = chroma, c: Array = small, d: Array = small_chroma) -> None:
            cv2.resize(a, (c.shape[1], c.shape[0]), c)
            cv2.resize(b, (d.shape[1], d.shape[0]), d)

        times = interleaved(lambda s=source, o=out: dvpp.resize(s, o), bare, rounds=41)
        rows.append(_row(f"resize NV12 1080p → {width}x{height}", times[0], times[1], "cv2.resize on the planes", 0.9))
    return rows


def _decode_video(context: int) -> list[Result]:
    import av

    rows = []
    for number, (codec, name, kind) in enumerate((("libx264", "h264", 3), ("libx265", "hevc", 0))):
        packets = stream(codec, 1920, 1080, 40)
        places = [(upload(packet), len(packet)) for packet in packets]
        pictures = [Picture(1920, 1080) for _ in range(16)]

        def plain(name: str = name, packets: list[bytes] = packets) -> None:
            decoder = av.CodecContext.create(name, "r")
            decoder.thread_count = 1
            for packet in packets:
                decoder.decode(av.Packet(packet))
            decoder.decode(None)

        ours = functools.partial(_whole_stream, number, kind, context, places, pictures)
        times = interleaved(ours, plain, rounds=5)
        rows.append(_row(f"{name} 1080p, 40 frames → NV12", times[0], times[1], "PyAV, frames only", 0.9))
        if name == "h264":
            rows.append(_channels(places, kind, context, times[0]))
    return rows


def _whole_stream(number: int, kind: int, context: int, places: list[tuple[int, int]], pictures: list[Picture]) -> None:
    channel = Vdec(number, kind, context)
    channel.run(places, pictures)
    channel.close()
    assert channel.done == len(places) and not channel.failed


def _channels(places: list[tuple[int, int]], kind: int, context: int, alone: float) -> Result:
    """Four channels at once, each with the whole stream."""
    pictures = [[Picture(1920, 1080) for _ in range(16)] for _ in range(4)]

    def decode(number: int) -> None:
        ok(acl.rt.set_context(context))
        _whole_stream(20 + number, kind, context, places, pictures[number])

    def four() -> None:
        threads = [threading.Thread(target=decode, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    (together,) = interleaved(four, rounds=3)
    gain = 4 * alone / together
    return Result(
        "four h264 channels at once",
        f"{together * 1e3:.0f} ms",
        f"four in a row {4 * alone * 1e3:.0f} ms",
        f"{gain:.2f}",
        "≥ 1.7",
        gain >= 1.7,
    )


def _pipeline(dvpp: Dvpp) -> list[Result]:
    rows = []
    for width, height in ((1024, 683), (1920, 1080), (4032, 3024)):
        rows.append(_classify(dvpp, width, height))
    return rows


_AIPP = """aipp_op { aipp_mode: static input_format: YUV420SP_U8 csc_switch: true src_image_size_w: 224 src_image_size_h: 224
matrix_r0c0: 256 matrix_r0c1: 0 matrix_r0c2: 359 matrix_r1c0: 256 matrix_r1c1: -88 matrix_r1c2: -183 matrix_r2c0: 256 matrix_r2c1: 454 matrix_r2c2: 0
input_bias_0: 0 input_bias_1: 128 input_bias_2: 128 min_chn_0: 123.675 min_chn_1: 116.28 min_chn_2: 103.53
var_reci_chn_0: 0.0171248 var_reci_chn_1: 0.0175070 var_reci_chn_2: 0.0174292 }"""


def _classify(dvpp: Dvpp, width: int, height: int) -> Result:
    """Pictures a second, JPEG files to scores: decoding of the next picture runs beside the model on this one."""
    import onnxruntime
    from PIL import Image

    original = resnet50(1)
    config = original.with_name("nv12.cfg")
    config.write_text(_AIPP, encoding="utf-8")
    client = Client(convert(original, f"--insert_op_conf={config}"))
    data, count = jpeg(width, height), 12
    address = upload(data)
    decoded, small = Picture(width, height, columns=64, rows=16), [Picture(224, 224) for _ in range(2)]

    def prepare(number: int) -> None:
        dvpp.decode(address, len(data), decoded, wait=False)
        ok(
            acl.media.dvpp_vpc_resize_async(
                dvpp.channel, decoded.desc, small[number % 2].desc, dvpp.resizing, dvpp.stream
            )
        )

    runs = [client.bind_address(picture.address, picture.size) for picture in small]

    def ours() -> None:
        prepare(0)
        for number in range(count):
            ok(acl.rt.synchronize_stream(dvpp.stream))
            if number + 1 < count:
                prepare(number + 1)
            runs[number % 2]()

    session = onnxruntime.InferenceSession(str(original), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    mean, scale = np.float32([123.675, 116.28, 103.53]), np.float32([58.395, 57.12, 57.375])

    def pillow() -> None:
        for _ in range(count):
            image = Image.open(io.BytesIO(data)).convert("RGB").resize((224, 224), Image.Resampling.BILINEAR)
            pixels = (np.asarray(image, np.float32) - mean) / scale
            session.run(None, {name: np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])})

    times = [seconds / count for seconds in interleaved(ours, pillow, rounds=5, pause=0.2)]
    ratio = times[1] / times[0]
    return Result(
        f"JPEG {width}x{height} → ResNet-50",
        f"{1 / times[0]:.1f} pictures/s",
        f"Pillow + numpy + onnxruntime {1 / times[1]:.1f}",
        f"{ratio:.2f}",
        "≥ 1.5",
        ratio >= 1.5,
    )


@contextmanager
def _traffic() -> Iterator[list[int]]:
    """Count the bytes that pass through OpenCV's and NumPy's copying functions: what is read and what is written."""
    seen = [0]
    places = [(cv2, name) for name in ("merge", "split", "resize", "transform", "cvtColor")] + [(np, "copyto")]
    originals = [getattr(module, name) for module, name in places]

    def count(value: Any) -> int:
        if isinstance(value, np.ndarray):
            return value.nbytes
        return sum(map(count, value)) if isinstance(value, list | tuple) else 0

    def wrap(function: Callable[..., Any], writes: bool) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            answer = function(*args, **kwargs)
            seen[0] += count(args[0]) + (count(answer) if not writes else count(args[1]))
            return answer

        return counted

    for (module, name), function in zip(places, originals, strict=True):
        setattr(module, name, wrap(function, name == "copyto"))
    try:
        yield seen
    finally:
        for (module, name), function in zip(places, originals, strict=True):
            setattr(module, name, function)


def _copies(dvpp: Dvpp) -> list[Result]:
    """Memory traffic beside what the codec itself writes, against the least: chroma interleaved once, a scaled picture read and written."""
    data = jpeg(1920, 1080)
    address, decoded, small = upload(data), Picture(1920, 1080, columns=64, rows=16), Picture(416, 416)
    rows = []
    for name, work, least in (
        ("JPEG 1080p → NV12", lambda: dvpp.decode(address, len(data), decoded), 2 * 1920 * 1080 // 2),
        ("resize NV12 1080p → 416x416", lambda: dvpp.resize(decoded, small), (1920 * 1080 + 416 * 416) * 3 // 2),
    ):
        work()
        with _traffic() as seen:
            work()
        rows.append(Result(f"memory traffic, {name}", f"{seen[0] / 2**20:.2f} MiB", f"least {least / 2**20:.2f} MiB", f"{least / seen[0]:.2f}", "≥ 0.95", least >= 0.95 * seen[0]))  # fmt: skip
    return rows


def results() -> list[Result]:
    """All rows."""
    acl.init()
    ok(acl.rt.set_device(0))
    context = ok(acl.rt.create_context(0))
    before = cv2.getNumThreads()
    cv2.setNumThreads(1)
    dvpp = Dvpp()
    rows = [
        *_jpeg_to_nv12(dvpp),
        *_jpeg_to_tensor(dvpp),
        *_resize(dvpp),
        *_copies(dvpp),
        *_decode_video(context),
        *_pipeline(dvpp),
    ]
    cv2.setNumThreads(before)
    return rows
