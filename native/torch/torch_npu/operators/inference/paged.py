"""Caches of keys and values in blocks: reading sequences from them, writing rows at slots."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from torch_npu.operators.common.arguments import ErrCode, require, unsupported

_LANE_BYTES = 32  # width of the innermost dimension of the NZ layout


def sequence(cache: Tensor, table: Tensor, length: int, heads: int, block_size: int, name: str) -> Tensor:
    """[1, heads, length, width] of one sequence: cache is [blocks, block_size, heads * width] or [blocks, heads, block_size, width]."""
    require(block_size > 0, f"{name}: a paged cache needs block_size, not {block_size}")
    used = -(-length // block_size)
    require(
        used <= table.shape[0], f"{name}: {length} keys need {used} blocks; block_table has {table.shape[0]} columns"
    )
    blocks = cache.index_select(0, table[:used].to(torch.int64))
    if cache.dim() == 3:
        require(cache.shape[1] == block_size, f"{name}: the cache has blocks of {cache.shape[1]}, not of {block_size}")
        rows = torch.unflatten(blocks, -1, (heads, -1)).flatten(0, 1)
        return rows[:length].transpose(0, 1).unsqueeze(0)
    if cache.dim() == 5:
        blocks = blocks.transpose(2, 3).flatten(3)
    require(
        blocks.dim() == 4 and tuple(blocks.shape[1:3]) == (heads, block_size),
        f"{name}: a cache of shape {tuple(cache.shape)} is neither [blocks, {block_size}, heads * width] nor "
        f"[blocks, {heads}, {block_size}, width]",
    )
    return blocks.transpose(0, 1).flatten(1, 2)[:, :length].unsqueeze(0)


def _valid(slots: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Negative slots mean: do not write."""
    flat = slots.reshape(-1).to(torch.int64)
    require(
        flat.numel() == rows.shape[0],
        f"{flat.numel()} slots for {rows.shape[0]} rows; each row needs one",
        ErrCode.VALUE,
    )
    keep = (flat >= 0).nonzero().squeeze(1)
    return flat.index_select(0, keep), rows.index_select(0, keep)


def write(cache: Tensor, rows: Tensor, slots: Tensor, mode: str, name: str) -> None:
    """Rows [tokens, ...] into a cache at slots; PA_NZ caches are [blocks, row / lane, block_size, lane], others rows one by one."""
    require(cache.dtype == rows.dtype, f"{name}: rows of {rows.dtype} for a cache of {cache.dtype}", ErrCode.TYPE)
    at, valid = _valid(slots, rows)
    if mode == "PA_NZ":
        lane = _LANE_BYTES // cache.element_size()
        require(
            cache.dim() in (4, 5) and cache.shape[-1] == lane,
            f"{name}: a PA_NZ cache of {cache.dtype} ends in {lane}, not in shape {tuple(cache.shape)}",
        )
        size = cache.shape[-2]
        flat = cache.view(cache.shape[0], -1, size, lane)
        flat[at // size, :, at % size] = valid.reshape(valid.shape[0], -1, lane)
        return
    require(
        mode in ("Norm", "PA", "PA_BSND", "PA_BNSD"),
        f"{name}: cache_mode must be Norm, PA, PA_BSND, PA_BNSD or PA_NZ, not {mode!r}",
        ErrCode.VALUE,
    )
    width = valid.shape[1:].numel()
    if mode == "PA_BNSD" and cache.dim() == 4 and cache.shape[1] > 1:
        size = cache.shape[2]
        cache[at // size, :, at % size] = valid.reshape(-1, cache.shape[1], cache.shape[3])
        return
    cache.view(-1, width)[at] = valid.reshape(-1, width)


def _no_compression(name: str, **arguments: Tensor | None) -> None:
    for argument, value in arguments.items():
        if value is not None:
            raise unsupported(f"{name}: {argument}: compressed sequences are not written; leave it out")


def npu_scatter_pa_kv_cache(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor, *,
    compress_lens: Tensor | None = None, compress_seq_offsets: Tensor | None = None, seq_lens: Tensor | None = None,
    cache_mode: str | None = "PA_NZ",
) -> None:  # fmt: skip
    name = "npu_scatter_pa_kv_cache"
    _no_compression(name, compress_lens=compress_lens, compress_seq_offsets=compress_seq_offsets, seq_lens=seq_lens)
    write(key_cache, key, slot_mapping, cache_mode or "PA_NZ", name)
    write(value_cache, value, slot_mapping, cache_mode or "PA_NZ", name)


def npu_scatter_pa_kv_cache_functional(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor, *,
    compress_lens: Tensor | None = None, compress_seq_offsets: Tensor | None = None, seq_lens: Tensor | None = None,
    cache_mode: str | None = "PA_NZ",
) -> tuple[Tensor, Tensor]:  # fmt: skip
    keys, values = key_cache.clone(), value_cache.clone()
    npu_scatter_pa_kv_cache(
        key, value, keys, values, slot_mapping, compress_lens=compress_lens, compress_seq_offsets=compress_seq_offsets,
        seq_lens=seq_lens, cache_mode=cache_mode,
    )  # fmt: skip
    return keys, values


def npu_scatter_pa_cache__value(
    key: Tensor, slot_mapping: Tensor, *, compress_lens: Tensor | None = None, compress_seq_offsets: Tensor | None = None,
    seq_lens: Tensor | None = None, key_cache: Tensor,
) -> Tensor:  # fmt: skip
    name = "npu_scatter_pa_cache"
    _no_compression(name, compress_lens=compress_lens, compress_seq_offsets=compress_seq_offsets, seq_lens=seq_lens)
    write(key_cache, key, slot_mapping, "Norm", name)
    return key_cache


def _token_slots(tables: Tensor, lens: list[int], starts: list[int], size: int) -> Tensor:
    """Slots of the tokens of all sequences, one sequence after another."""
    every = []
    for at, (length, start) in enumerate(zip(lens, starts, strict=True)):
        places = torch.arange(start, start + length, device=tables.device)
        every.append(tables[at].to(torch.int64).index_select(0, places // size) * size + places % size)
    return torch.cat(every) if every else tables.new_empty(0, dtype=torch.int64)


def _read(cache: Tensor, slots: Tensor, into: Tensor, size: int) -> None:
    if tuple(cache.shape[-2:]) == tuple(into.shape[-2:]) and cache.shape[1] == size:
        rows = cache.flatten(0, 1).index_select(0, slots)
    else:
        rows = cache.transpose(1, 2).flatten(0, 1).index_select(0, slots)
    into[: slots.shape[0]] = rows.reshape(slots.shape[0], *into.shape[1:])


def npu_gather_pa_kv_cache(
    key_cache: Tensor, value_cache: Tensor, block_tables: Tensor, seq_lens: Tensor, key: Tensor, value: Tensor, *,
    seq_offset: Tensor | None = None, is_seq_lens_cumsum: bool = False,
) -> None:  # fmt: skip
    """Caches are [blocks, block_size, heads, width] or NZ; key and value are [tokens, heads, width] and written in place.

    Cumulative lengths begin with 0. seq_offset is where each sequence begins to be read.
    """
    lens = [int(length) for length in seq_lens.tolist()]
    if is_seq_lens_cumsum:
        lens = [after - before for before, after in pairwise(lens)]
    starts = [0] * len(lens) if seq_offset is None else [int(start) for start in seq_offset.tolist()]
    require(
        sum(lens) <= key.shape[0],
        f"npu_gather_pa_kv_cache: {sum(lens)} tokens do not fit into a key of {key.shape[0]} rows",
    )
    for cache, into in ((key_cache, key), (value_cache, value)):
        normal = tuple(cache.shape[-2:]) == tuple(into.shape[-2:])
        size = cache.shape[1] if normal else cache.shape[2]
        _read(cache, _token_slots(block_tables, lens, starts, size), into, size)


def npu_gather_pa_kv_cache_functional(
    key_cache: Tensor, value_cache: Tensor, block_tables: Tensor, seq_lens: Tensor, key: Tensor, value: Tensor, *,
    seq_offset: Tensor | None = None, is_seq_lens_cumsum: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    keys, values = key.clone(), value.clone()
    npu_gather_pa_kv_cache(
        key_cache, value_cache, block_tables, seq_lens, keys, values, seq_offset=seq_offset,
        is_seq_lens_cumsum=is_seq_lens_cumsum,
    )  # fmt: skip
    return keys, values
