"""Steps around attention in serving: sampling, merging of partial outputs, the next step's indices."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_npu.operators.common.arguments import ErrCode, require, unsupported


def npu_attention_update(lse: list[Tensor], local_out: list[Tensor], update_type: int) -> tuple[Tensor, Tensor]:
    """Outputs [rows, width] weighted by the exponentials of their log-sum-exp [rows]; update_type 1 returns the merged one too."""
    require(
        len(lse) == len(local_out) > 0,
        f"npu_attention_update: {len(lse)} log-sum-exps and {len(local_out)} outputs; they come in pairs",
    )
    require(
        update_type in (0, 1), f"npu_attention_update: update_type must be 0 or 1, not {update_type}", ErrCode.VALUE
    )
    levels = torch.stack([level.float().reshape(-1) for level in lse])
    whole = torch.logsumexp(levels, 0)
    shares = torch.exp(levels - torch.where(whole == -torch.inf, 0.0, whole))
    merged = sum(share[:, None] * out.float() for share, out in zip(shares, local_out, strict=True))
    assert isinstance(merged, Tensor)
    return merged.to(local_out[0].dtype), whole.reshape(lse[0].shape) if update_type else lse[0].new_empty(0)


def npu_advance_step_flashattn(
    input_tokens: Tensor, sampled_token_ids: Tensor, input_positions: Tensor, seq_lens: Tensor, slot_mapping: Tensor,
    block_tables: Tensor, num_seqs: int, num_queries: int, block_size: int, *, spec_token: Tensor | None = None,
    accepted_num: Tensor | None = None,
) -> None:  # fmt: skip
    """Each query goes one token on: its token, length, position and slot are written in place."""
    name = "npu_advance_step_flashattn"
    if spec_token is not None or accepted_num is not None:
        raise unsupported(
            f"{name}: spec_token and accepted_num (speculative decoding) are not computed; advance by one token"
        )
    require(
        0 <= num_queries <= num_seqs and num_seqs <= seq_lens.shape[0],
        f"{name}: num_queries {num_queries}, num_seqs {num_seqs} and {seq_lens.shape[0]} lengths do not fit",
    )
    require(block_size > 0, f"{name}: block_size must be positive, not {block_size}", ErrCode.VALUE)
    count = slice(0, num_queries)
    input_tokens[count] = sampled_token_ids.reshape(-1)[count].to(input_tokens.dtype)
    positions = seq_lens[count].to(torch.int64, copy=True)
    seq_lens[count] += 1
    input_positions[count] = positions.to(input_positions.dtype)
    blocks = block_tables[count].to(torch.int64).gather(1, (positions // block_size)[:, None]).squeeze(1)
    slot_mapping[count] = (blocks * block_size + positions % block_size).to(slot_mapping.dtype)


def _outside(scores: Tensor, k: Tensor | None, p: Tensor | None, probabilities: bool = False) -> Tensor:
    """Which entries of rows of ascending scores are outside top-k and the nucleus; the largest is always inside."""
    columns = scores.shape[-1]
    masked = torch.zeros_like(scores, dtype=torch.bool)
    places = torch.arange(columns, device=scores.device)
    if k is not None:
        limit = (columns - k.to(torch.int64).clamp(1, columns))[:, None]
        masked = scores < scores.gather(1, limit)
    if p is not None:
        lowest = 0.0 if probabilities else -torch.inf
        kept = scores.masked_fill(masked, lowest)
        shares = kept / kept.sum(-1, keepdim=True) if probabilities else kept.softmax(-1)
        masked = masked | ((shares.cumsum(-1) <= 1 - p.to(shares.dtype)[:, None]) & (places < columns - 1))
    return masked


def npu_top_k_top_p(logits: Tensor, p: Tensor | None = None, k: Tensor | None = None) -> Tensor:
    require(logits.dim() == 2, f"npu_top_k_top_p: logits must be [batch, vocabulary], not {tuple(logits.shape)}")
    if p is None and k is None:
        return logits.clone()
    ordered, index = logits.float().sort(-1)
    kept = logits.gather(1, index).masked_fill(_outside(ordered, k, p), -torch.inf)
    return torch.empty_like(logits).scatter_(1, index, kept)


def npu_top_k_top_p_sample(
    logits: Tensor, top_k: Tensor, top_p: Tensor, q: Tensor | None = None, eps: float | None = 1e-8,
    is_need_logits: bool | None = False, top_k_guess: int | None = 32, min_ps: Tensor | None = None, ks_max: int | None = 1024,
    input_is_logits: bool | None = True, post_sample: str | None = "qSample", generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """qSample: the largest probability over q, where q holds exponential variates; without q the largest probability.

    top_k_guess only says how the kernel searches.
    """
    name = "npu_top_k_top_p_sample"
    require(logits.dim() == 2, f"{name}: logits must be [batch, vocabulary], not {tuple(logits.shape)}")
    if not input_is_logits or post_sample != "qSample":
        raise unsupported(
            f"{name}: input_is_logits={input_is_logits}, post_sample={post_sample!r}; logits with qSample are computed"
        )
    if generator is not None:
        raise unsupported(
            f"{name}: generator; draw q from it (torch.empty(...).exponential_(generator=...)) and pass q"
        )
    limit = top_k.clamp(max=ks_max) if ks_max else top_k
    kept = npu_top_k_top_p(logits, top_p, torch.where(limit > 0, limit, logits.shape[-1])).float()
    probabilities = kept.softmax(-1)
    if min_ps is not None:
        least = probabilities.amax(-1, keepdim=True) * min_ps.to(probabilities.dtype)[:, None]
        kept = kept.masked_fill(probabilities < least, -torch.inf)
        probabilities = kept.softmax(-1)
    chosen = probabilities if q is None else probabilities / (q.abs() + (eps or 0.0))
    return chosen.argmax(-1), kept if is_need_logits else kept.new_empty(0)
