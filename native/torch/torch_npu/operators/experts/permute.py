"""Tokens in the order of their experts and back, with derivatives: by indices, and by a map of tokens and experts."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_npu.operators.common.arguments import ErrCode, needed, require, unsupported, wide


def _check_padded(padded_mode: bool, name: str) -> None:
    if padded_mode:
        raise unsupported(
            f"{name}: padded_mode, rows filled up for each expert; npu_moe_init_routing_v2 has drop_pad_mode"
        )


def _kept(pairs: int, num_out_tokens: int | None) -> int:
    """0 is all, a negative number leaves so many out."""
    if not num_out_tokens:
        return pairs
    return min(num_out_tokens, pairs) if num_out_tokens > 0 else max(pairs + num_out_tokens, 0)


def npu_moe_token_permute(
    tokens: Tensor, indices: Tensor, num_out_tokens: int | None = None, padded_mode: bool = False
) -> tuple[Tensor, Tensor]:
    """The second result says, for each pair of token and choice, where it went."""
    name = "npu_moe_token_permute"
    _check_padded(padded_mode, name)
    require(
        indices.dim() in (1, 2) and indices.shape[0] == tokens.shape[0],
        f"{name}: indices of {tuple(indices.shape)} for {tokens.shape[0]} tokens",
    )
    choices = indices.shape[1] if indices.dim() == 2 else 1
    order = indices.reshape(-1).sort(stable=True).indices
    places = torch.arange(len(order), device=tokens.device, dtype=torch.int32)
    where = torch.zeros_like(places).scatter(0, order, places)
    return tokens.index_select(0, order[: _kept(len(order), num_out_tokens)] // choices), where


def _unpermuted(permuted: Tensor, where: Tensor, probs: Tensor | None, choices: int) -> Tensor:
    """For each token the sum over its choices; those that were left out count as zero."""
    places = where.long()
    there = places < permuted.shape[0]
    rows = wide(permuted)[torch.where(there, places, torch.zeros_like(places))] * there.unsqueeze(-1)
    pairs = rows.reshape(-1, choices, permuted.shape[-1])
    if probs is not None:
        pairs = pairs * wide(probs).unsqueeze(-1)
    return pairs.sum(1).to(permuted.dtype)


def npu_moe_token_unpermute(
    permuted_tokens: Tensor,
    sorted_indices: Tensor,
    probs: Tensor | None = None,
    padded_mode: bool = False,
    restore_shape: list[int] | None = None,
) -> Tensor:
    """restore_shape belongs to padded_mode."""
    name = "npu_moe_token_unpermute"
    _check_padded(padded_mode, name)
    require(not restore_shape, f"{name}: restore_shape {restore_shape} is for padded_mode, which is off")
    choices = 1 if probs is None else probs.shape[1]
    require(
        len(sorted_indices) % choices == 0 and (probs is None or probs.shape[0] * choices == len(sorted_indices)),
        f"{name}: {len(sorted_indices)} indices for probabilities of {None if probs is None else tuple(probs.shape)}",
        ErrCode.VALUE,
    )
    return _unpermuted(permuted_tokens, sorted_indices, probs, choices)


def _npu_moe_token_unpermute(
    permuted_tokens: Tensor,
    sorted_indices: Tensor,
    probs: Tensor | None = None,
    padded_mode: bool = False,
    restore_shape: list[int] | None = None,
) -> tuple[Tensor, Tensor]:
    """The second result is what the derivative of the probabilities needs: the rows, nothing without probabilities."""
    result = npu_moe_token_unpermute(permuted_tokens, sorted_indices, probs, padded_mode, restore_shape)
    return result, permuted_tokens.new_empty(0) if probs is None else permuted_tokens.detach()


def npu_moe_token_permute_grad(
    tokens: Tensor, grad_permuted_tokens: Tensor, indices: Tensor, sorted_indices: Tensor, padded_mode: bool = False
) -> Tensor:
    _check_padded(padded_mode, "npu_moe_token_permute_grad")
    choices = indices.shape[1] if indices.dim() == 2 else 1
    return _unpermuted(grad_permuted_tokens, sorted_indices, None, choices).to(tokens.dtype)


def npu_moe_token_permute_grad_v2(
    grad_permuted_tokens: Tensor,
    sorted_indices: Tensor,
    tokens_size_0: int,
    tokens_dtype: torch.dtype,
    num_topK: int,
    padded_mode: bool = False,
) -> Tensor:
    _check_padded(padded_mode, "npu_moe_token_permute_grad_v2")
    require(
        tokens_size_0 * num_topK == len(sorted_indices),
        f"npu_moe_token_permute_grad_v2: {len(sorted_indices)} indices for {tokens_size_0} tokens with {num_topK} choices",
    )
    return _unpermuted(grad_permuted_tokens, sorted_indices, None, num_topK).to(tokens_dtype)


def npu_moe_token_unpermute_grad_v2(
    grad_unpermuted_tokens: Tensor,
    sorted_indices: Tensor,
    permuted_tokens_size_0: int,
    permuted_tokens_dtype: torch.dtype,
    probs: Tensor | None = None,
    padded_mode: bool = False,
    restore_shape: list[int] | None = None,
    permuted_tokens: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Gradients of the rows and of the probabilities; the second is empty without them. restore_shape belongs to padded_mode."""
    name = "npu_moe_token_unpermute_grad"
    _check_padded(padded_mode, name)
    require(not restore_shape, f"{name}: restore_shape {restore_shape} is for padded_mode, which is off")
    choices = 1 if probs is None else probs.shape[1]
    places = sorted_indices.long()
    there = places < permuted_tokens_size_0
    spread = wide(grad_unpermuted_tokens).repeat_interleave(choices, 0)
    weighted = spread if probs is None else spread * wide(probs).reshape(-1, 1)
    rows = spread.new_zeros(permuted_tokens_size_0 + 1, spread.shape[-1])
    target = torch.where(there, places, torch.full_like(places, permuted_tokens_size_0))
    to_rows = rows.index_add(0, target, weighted)[:-1].to(permuted_tokens_dtype)
    if probs is None:
        return to_rows, spread.new_empty(0)
    tokens = needed(permuted_tokens, f"{name}: the gradient of probs needs permuted_tokens")
    taken = wide(tokens)[torch.where(there, places, 0)] * there.unsqueeze(-1)
    return to_rows, (taken * spread).sum(-1).reshape(probs.shape).to(probs.dtype)


def npu_moe_token_unpermute_grad(
    permuted_tokens: Tensor,
    grad_unpermuted_tokens: Tensor,
    sorted_indices: Tensor,
    probs: Tensor | None = None,
    padded_mode: bool = False,
    restore_shape: list[int] | None = None,
) -> tuple[Tensor, Tensor]:
    size, kind = permuted_tokens.shape[0], permuted_tokens.dtype
    return npu_moe_token_unpermute_grad_v2(
        grad_unpermuted_tokens, sorted_indices, size, kind, probs, padded_mode, restore_shape, permuted_tokens
    )


def _mapped(routing_map: Tensor, num_out_tokens: int | None, drop_and_pad: bool, name: str) -> tuple[Tensor, Tensor]:
    """For each permuted row its token and its expert: expert by expert, or so many of each where they are dropped and padded."""
    tokens, experts = routing_map.shape
    chosen = routing_map.t().bool()
    if drop_and_pad:
        capacity = needed(num_out_tokens or None, f"{name}: drop_and_pad needs num_out_tokens") // experts
        order = chosen.to(torch.int8).sort(dim=-1, descending=True, stable=True).indices[:, :capacity].reshape(-1)
        return order, torch.arange(experts, device=order.device).repeat_interleave(min(capacity, tokens))
    if num_out_tokens:  # the number is told: no need to read the map
        order = chosen.reshape(-1).to(torch.int8).sort(descending=True, stable=True).indices[:num_out_tokens]
    else:
        order = chosen.reshape(-1).nonzero().reshape(-1)
    return order % tokens, order // tokens


def npu_moe_token_permute_with_routing_map(
    tokens: Tensor,
    routing_map: Tensor,
    *,
    probs: Tensor | None = None,
    num_out_tokens: int | None = None,
    drop_and_pad: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, their probabilities (empty without any), and the token of each row."""
    name = "npu_moe_token_permute_with_routing_map"
    require(
        routing_map.dim() == 2 and routing_map.shape[0] == tokens.shape[0],
        f"{name}: a map of {tuple(routing_map.shape)} for {tokens.shape[0]} tokens; it must be [tokens, experts]",
    )
    token, expert = _mapped(routing_map, num_out_tokens, drop_and_pad, name)
    weights = tokens.new_empty(0) if probs is None else probs[token, expert]
    return tokens.index_select(0, token), weights, token.to(torch.int32)


def npu_moe_token_permute_with_routing_map_grad(
    permuted_token_out_grad: Tensor,
    probs_grad: Tensor | None,
    sorted_indices: Tensor,
    routing_map: Tensor,
    experts_num: int,
    tokens_num: int,
    drop_and_pad: bool,
) -> tuple[Tensor, Tensor]:
    """Gradients of the tokens and of the probabilities."""
    grad = wide(permuted_token_out_grad)
    token = sorted_indices.long()
    to_tokens = grad.new_zeros(tokens_num, grad.shape[-1]).index_add(0, token, grad)
    if probs_grad is None:
        return to_tokens.to(permuted_token_out_grad.dtype), grad.new_empty(0)
    name = "npu_moe_token_permute_with_routing_map_grad"
    _, expert = _mapped(routing_map, len(sorted_indices), drop_and_pad, name)
    flat = probs_grad.new_zeros(tokens_num * experts_num).index_add(
        0, token * experts_num + expert, probs_grad.reshape(-1)
    )
    return to_tokens.to(permuted_token_out_grad.dtype), flat.reshape(tokens_num, experts_num)


def _npu_moe_token_unpermute_with_routing_map(
    permuted_tokens: Tensor,
    sorted_indices: Tensor,
    restore_shape: list[int],
    *,
    probs: Tensor | None = None,
    routing_map: Tensor | None = None,
    drop_and_pad: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The sum of the rows of each token; then the rows in the order of tokens, the token of each, and the probability of each row."""
    name = "npu_moe_token_unpermute_with_routing_map"
    rows = wide(permuted_tokens)
    weights = permuted_tokens.new_empty(0)
    if probs is not None:
        routes = needed(routing_map, f"{name}: probs need routing_map, which says whose they are")
        token, expert = _mapped(routes, len(sorted_indices), drop_and_pad, name)
        weights = probs[token, expert]
        rows = rows * wide(weights).unsqueeze(-1)
    result = rows.new_zeros(restore_shape).index_add(0, sorted_indices.long(), rows)
    token, order = sorted_indices.sort(stable=True)
    return result.to(permuted_tokens.dtype), order.to(torch.int32), token, weights


def npu_moe_token_unpermute_with_routing_map(
    permuted_tokens: Tensor,
    sorted_indices: Tensor,
    restore_shape: list[int],
    *,
    probs: Tensor | None = None,
    routing_map: Tensor | None = None,
    drop_and_pad: bool = False,
) -> Tensor:
    return _npu_moe_token_unpermute_with_routing_map(
        permuted_tokens, sorted_indices, restore_shape, probs=probs, routing_map=routing_map, drop_and_pad=drop_and_pad
    )[0]


def npu_moe_token_unpermute_with_routing_map_grad(
    unpermuted_tokens_grad: Tensor,
    out_index: Tensor,
    permuted_token_id: Tensor,
    routing_map: Tensor | None,
    permuted_tokens: Tensor | None,
    probs: Tensor | None,
    drop_and_pad: bool,
    restore_shape: list[int],
) -> tuple[Tensor, Tensor]:
    """Gradients of the permuted rows and of the probabilities."""
    name = "npu_moe_token_unpermute_with_routing_map_grad"
    require(
        list(unpermuted_tokens_grad.shape) == list(restore_shape),
        f"{name}: a gradient of {tuple(unpermuted_tokens_grad.shape)} for tokens of {tuple(restore_shape)}",
    )
    token = torch.zeros_like(permuted_token_id).scatter(0, out_index.long(), permuted_token_id).long()
    grad = wide(unpermuted_tokens_grad)[token]
    if probs is None:
        return grad.to(unpermuted_tokens_grad.dtype), grad.new_empty(0)
    message = f"{name}: the gradient of probs needs routing_map and permuted_tokens"
    routes, rows = needed(routing_map, message), needed(permuted_tokens, message)
    _, expert = _mapped(routes, len(token), drop_and_pad, name)
    weights = wide(probs[token, expert]).unsqueeze(-1)
    flat = token * probs.shape[1] + expert
    each = (wide(rows) * grad).sum(-1)
    to_probs = each.new_zeros(probs.numel()).index_add(0, flat, each).reshape(probs.shape)
    return (grad * weights).to(unpermuted_tokens_grad.dtype), to_probs.to(probs.dtype)
