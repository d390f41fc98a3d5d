/* SPDX-License-Identifier: MIT */
/* Vision transformer: image patches as tokens, a class token, a classifier over it.
 *
 *   tokens     = (image / patch)^2 + 1
 *   parameters = channels patch^2 h + h + h + tokens h + L (4 h h + 2 h f + 9 h + f) + 2 h + h classes + classes
 *
 * h hidden, f ffn, L layers. Source: Dosovitskiy et al. 2020, torchvision vit_b_16, transformers modeling_vit.py.
 * Limits: the image size fixes the tokens, `sequence` changes nothing; 197 tokens leave no room for context or sequence
 * parallelism. */
#include "block.h"

static guint
add_patches (PsiModel *model, const PsiModelDimensions *d, const PsiLowering *lowering, const PsiBlock *block,
             gint64 tokens)
{
  guint index = psi_model_add_kind (model, "embedding");
  PsiLayerKind *kind = psi_model_kind (model, index);
  gint64 patches = block->sequences * (d->image_size / d->patch_size) * (d->image_size / d->patch_size);
  gint64 pixels = d->channels * d->patch_size * d->patch_size;
  PsiLower lower;

  psi_lower_init (&lower, lowering, tokens);
  kind->input_bytes = patches * pixels * lower.element_bytes;
  kind->output_bytes = psi_block_stream_bytes (&lower, block);
  kind->forward_workspace_bytes = kind->backward_workspace_bytes = kind->output_bytes;
  kind->never_recomputed = TRUE;
  psi_lower_save (&lower, kind->input_bytes);
  psi_lower_linear (&lower, patches, pixels, d->hidden, PSI_SPLIT_NONE, TRUE);
  psi_lower_element (&lower, PSI_ELEMENT_RESIDUAL, (double) (tokens * d->hidden)); /* positions */
  psi_lower_add_parameters (&lower, (1 + d->positions) * d->hidden);
  psi_lower_finish (&lower, kind);
  return index;
}

static guint
add_classifier (PsiModel *model, const PsiModelDimensions *d, const PsiLowering *lowering, const PsiBlock *block,
                gint64 tokens)
{
  guint index = psi_model_add_kind (model, "head");
  PsiLayerKind *kind = psi_model_kind (model, index);
  PsiLower lower;

  psi_lower_init (&lower, lowering, tokens);
  psi_block_norm (&lower, block);
  psi_lower_save (&lower, block->sequences * (d->hidden * lower.element_bytes + d->classes * 8));
  psi_lower_linear (&lower, block->sequences, d->hidden, d->classes, PSI_SPLIT_NONE, TRUE);
  psi_lower_element (&lower, PSI_ELEMENT_LOSS, (double) (block->sequences * d->classes));
  kind->input_bytes = psi_block_stream_bytes (&lower, block);
  kind->backward_workspace_bytes = kind->input_bytes;
  kind->never_recomputed = TRUE;
  psi_lower_finish (&lower, kind);
  return index;
}

static PsiModel *
build (const PsiModelDimensions *d, const PsiLowering *lowering, gint64 sequence)
{
  PsiModel *model = psi_model_new (d->name, d->family);
  gint64 tokens = psi_block_tokens (lowering, sequence);
  PsiBlock block;
  guint embedding, middle, head;

  psi_block_init (&block, d, lowering, sequence);
  embedding = add_patches (model, d, lowering, &block, tokens);
  middle = psi_block_add (model, "block", lowering, &block, tokens);
  head = add_classifier (model, d, lowering, &block, tokens);
  return psi_block_stack (model, embedding, middle, (guint) d->layers, head);
}

const PsiFamily psi_family_vit = {
  .name = "vit",
  .summary = "ViT: image patches as tokens, a classifier",
  .build = build,
};
