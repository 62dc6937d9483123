"""Tables of a JPEG file: those that annex K of the standard suggests, and those that a program brings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from softnpu.base.errors import NpuError, codes

# The coefficients of a block in the order of the file: diagonals, every other one upwards.
ZIGZAG = tuple(sorted(range(64), key=lambda n: (sum(divmod(n, 8)), n // 8 if sum(divmod(n, 8)) % 2 else n % 8)))

# fmt: off
_LUMA = (
    16, 11, 10, 16,  24,  40,  51,  61,
    12, 12, 14, 19,  26,  58,  60,  55,
    14, 13, 16, 24,  40,  57,  69,  56,
    14, 17, 22, 29,  51,  87,  80,  62,
    18, 22, 37, 56,  68, 109, 103,  77,
    24, 35, 55, 64,  81, 104, 113,  92,
    49, 64, 78, 87, 103, 121, 120, 101,
    72, 92, 95, 98, 112, 100, 103,  99,
)
_CHROMA = (
    17, 18, 24, 47, 99, 99, 99, 99,
    18, 21, 26, 66, 99, 99, 99, 99,
    24, 26, 56, 99, 99, 99, 99, 99,
    47, 66, 99, 99, 99, 99, 99, 99,
    *(99,) * 32,
)
_DC_BITS = ((0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0), (0, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0))
_AC_BITS = ((0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 125), (0, 2, 1, 2, 4, 4, 3, 4, 7, 5, 4, 4, 0, 1, 2, 119))
_AC_VALUES = (
    bytes.fromhex(
        "01020300041105122131410613516107227114328191a1082342b1c11552d1f02433627282090a161718191a25262728292a3435363738"
        "393a434445464748494a535455565758595a636465666768696a737475767778797a838485868788898a92939495969798999aa2a3a4a5"
        "a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae1e2e3e4e5e6e7e8e9eaf1f2f3f4f5f6f7f8f9fa"
    ),
    bytes.fromhex(
        "000102031104052131061241510761711322328108144291a1b1c109233352f0156272d10a162434e125f11718191a262728292a353637"
        "38393a434445464748494a535455565758595a636465666768696a737475767778797a82838485868788898a92939495969798999aa2a3"
        "a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae2e3e4e5e6e7e8e9eaf2f3f4f5f6f7f8f9fa"
    ),
)
# fmt: on

Rows = Sequence[Sequence[int]]


@dataclass
class JpegTables:
    """Tables of a program; None is the standard's. Quantisation is row by row, 64 values of 1 to 255.

    A Huffman table has one row for each of Y, Cb, Cr: `bits` counts the codes of 1 to 16 bits, `values` are the
    symbols in the order of their codes (more than the bits count are not used).
    """

    y_qt: Sequence[int] | None = None
    cb_qt: Sequence[int] | None = None
    cr_qt: Sequence[int] | None = None
    dc_bits: Rows | None = None
    dc_values: Rows | None = None
    ac_bits: Rows | None = None
    ac_values: Rows | None = None


@dataclass(frozen=True)
class Huffman:
    """One checked Huffman table."""

    bits: tuple[int, ...]
    values: tuple[int, ...]

    def codes(self) -> dict[int, tuple[int, int]]:
        """Code and its length by symbol."""
        codes, code, symbols = {}, 0, iter(self.values)
        for length, count in enumerate(self.bits, 1):
            for _ in range(count):
                codes[next(symbols)] = (code, length)
                code += 1
            code <<= 1
        return codes


@dataclass(frozen=True)
class Complete:
    """All tables of a file, one of each kind for Y, Cb, Cr."""

    quantisation: tuple[tuple[int, ...], ...]
    dc: tuple[Huffman, ...]
    ac: tuple[Huffman, ...]


def standard_tables(quality: int) -> JpegTables:
    """The tables of the standard, the quantisation scaled with the quality as libjpeg does it."""
    check_quality(quality)
    scale = 5000 // quality if quality < 50 else 200 - 2 * quality
    luma, chroma = ([min(255, max(1, (value * scale + 50) // 100)) for value in row] for row in (_LUMA, _CHROMA))
    values = [tuple(range(12))] * 3
    return JpegTables(luma, chroma, chroma, _thrice(_DC_BITS), values, _thrice(_AC_BITS), _thrice(_AC_VALUES))


def _thrice(pair: Rows) -> Rows:
    return [pair[0], pair[1], pair[1]]


def check_quality(quality: int) -> None:
    """Raise unless the level is one that the encoder knows."""
    if not 1 <= quality <= 100:
        raise NpuError(codes.INVALID_PARAM, f"the JPEG quality is {quality}", "use a level from 1 to 100")


def complete(tables: JpegTables | None, quality: int) -> Complete:
    """The given tables, checked, and the standard's where there are none."""
    base, wanted = standard_tables(quality), tables or JpegTables()
    quantisation = [
        _quantisation(getattr(wanted, name) or getattr(base, name), name) for name in ("y_qt", "cb_qt", "cr_qt")
    ]
    return Complete(tuple(quantisation), _huffman(wanted, base, "dc", 12), _huffman(wanted, base, "ac", 256))


def _quantisation(row: Sequence[int], name: str) -> tuple[int, ...]:
    values = tuple(int(value) for value in row)
    if len(values) != 64 or not all(1 <= value <= 255 for value in values):
        raise NpuError(
            codes.INVALID_PARAM,
            f"the quantisation table {name} has {len(values)} values from {min(values, default=0)} to {max(values, default=0)}",
            "give 64 values from 1 to 255",
        )
    return values


def _huffman(wanted: JpegTables, base: JpegTables, kind: str, symbols: int) -> tuple[Huffman, ...]:
    bits, values = (getattr(wanted, f"{kind}_{part}") for part in ("bits", "values"))
    if (bits is None) != (values is None):
        raise _wrong(kind, "its bits and its values belong together, only one of them is given")
    if bits is None:
        bits, values = (getattr(base, f"{kind}_{part}") for part in ("bits", "values"))
    if len(bits) != 3 or len(values) != 3:
        raise _wrong(kind, f"{len(bits)} rows of bits and {len(values)} rows of values, not 3")
    return tuple(
        _checked(kind, tuple(map(int, b)), tuple(map(int, v)), symbols) for b, v in zip(bits, values, strict=True)
    )


def _checked(kind: str, bits: tuple[int, ...], values: tuple[int, ...], symbols: int) -> Huffman:
    if len(bits) != 16 or any(count < 0 for count in bits):
        raise _wrong(kind, f"the numbers of codes are {bits}")
    used = values[: sum(bits)]
    if not used or sum(bits) != len(used) or len(set(used)) != len(used) or not all(0 <= v < symbols for v in used):
        raise _wrong(kind, f"{sum(bits)} codes for the symbols {used}")
    if sum(count << 16 - length for length, count in enumerate(bits, 1)) >= 1 << 16:
        raise _wrong(kind, f"there are not so many codes of these lengths: {bits}")
    return Huffman(bits, used)


def _wrong(kind: str, text: str) -> NpuError:
    return NpuError(
        codes.INVALID_PARAM,
        f"the {kind.upper()} Huffman table is not one of the JPEG standard: {text}",
        "give for each of Y, Cb, Cr 16 counts and as many different symbols",
    )
