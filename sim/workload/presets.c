/* SPDX-License-Identifier: MIT */
/* The models that come with the program: a configuration in Hugging Face's fields or a trace, and a line about it. */
#include "workload.h"

const PsiModelPreset psi_model_presets[] = {
  { "gpt2", "gpt2.json", "GPT-2 124M: 12 layers, hidden 768, 1024 tokens (openai-community/gpt2)" },
  { "gpt2-xl", "gpt2-xl.json", "GPT-2 1.6B: 48 layers, hidden 1600, 1024 tokens (openai-community/gpt2-xl)" },
  { "gpt3-175b", "gpt3-175b.json", "GPT-3 175B: 96 layers, hidden 12288, 2048 tokens (Brown et al. 2020)" },
  { "llama-2-7b", "llama-2-7b.json", "Llama 2 7B: 32 layers, hidden 4096, 4096 tokens (meta-llama)" },
  { "llama-2-13b", "llama-2-13b.json", "Llama 2 13B: 40 layers, hidden 5120, 4096 tokens (meta-llama)" },
  { "llama-2-70b", "llama-2-70b.json", "Llama 2 70B: 80 layers, hidden 8192, 8 key heads, 4096 tokens (meta-llama)" },
  { "llama-3-8b", "llama-3-8b.json", "Llama 3 8B: 32 layers, hidden 4096, 8 key heads, 8192 tokens (meta-llama)" },
  { "llama-3-70b", "llama-3-70b.json", "Llama 3 70B: 80 layers, hidden 8192, 8 key heads, 8192 tokens (meta-llama)" },
  { "llama-3-405b", "llama-3-405b.json", "Llama 3.1 405B: 126 layers, hidden 16384, 8 key heads (meta-llama)" },
  { "mistral-7b", "mistral-7b.json", "Mistral 7B v0.1: 32 layers, hidden 4096, 8 key heads (mistralai)" },
  { "mixtral-8x7b", "mixtral-8x7b.json", "Mixtral 8x7B: 32 layers, hidden 4096, 8 experts, 2 per token (mistralai)" },
  { "qwen2.5-7b", "qwen2.5-7b.json", "Qwen 2.5 7B: 28 layers, hidden 3584, 4 key heads (Qwen)" },
  { "qwen2.5-72b", "qwen2.5-72b.json", "Qwen 2.5 72B: 80 layers, hidden 8192, 8 key heads (Qwen)" },
  { "deepseek-v3", "deepseek-v3.json",
    "DeepSeek V3 671B: 61 layers, hidden 7168, 256 experts, 8 per token, latent attention (deepseek-ai)" },
  { "bert-large", "bert-large.json", "BERT large 335M: 24 layers, hidden 1024, 512 tokens (google-bert)" },
  { "vit-b16", "vit-b16.json", "ViT-B/16 87M: 12 layers, hidden 768, 224 x 224 images (google, torchvision)" },
  { "t5-11b", "t5-11b.json", "T5 11B: 24 + 24 layers, hidden 1024, ffn 65536, 512 tokens (google-t5)" },
  { "resnet-50", "resnet-50.trace", "ResNet-50 26M: 224 x 224 images, traced (torchvision)" },
  { NULL, NULL, NULL },
};
