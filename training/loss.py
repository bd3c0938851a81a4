"""The drafter's loss over one batch of blocks."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def draft_labels(tokens: Tensor, target_to_draft: Tensor) -> Tensor:
    """Draft ids of target tokens, 0 where a token is outside the draft vocabulary (weight 0)."""
    return target_to_draft[tokens].clamp_min(0)


def block_loss(logits: Tensor, labels: Tensor, teacher: Tensor, weights: Tensor, soft: float) -> Tensor:
    """Weighted mean over drafted positions of a mix of two cross-entropies, in nats.

    logits, teacher: drafter's and target's scores over the draft vocabulary, [N, V]; labels: draft
    ids of the tokens that followed [N]; weights [N]; ``soft``: share of the cross-entropy against
    the target's distribution at temperature 1, the rest goes to the labels.
    """
    log_probs = F.log_softmax(logits.float(), -1)
    hard = -log_probs.gather(1, labels[:, None]).squeeze(1)
    distribution = F.softmax(teacher.float(), -1)
    matched = -(distribution * log_probs).sum(-1)
    mixed = (1 - soft) * hard + soft * matched
    return (mixed * weights).sum() / weights.sum().clamp_min(1e-6)
