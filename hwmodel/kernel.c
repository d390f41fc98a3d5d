/* SPDX-License-Identifier: MIT */
#include "kernel.h"

guint
psi_dtype_bytes (PsiDtype dtype)
{
  static const guint bytes[PSI_N_DTYPES] = {
    [PSI_DTYPE_FP32] = 4, [PSI_DTYPE_TF32] = 4,  [PSI_DTYPE_FP16] = 2,  [PSI_DTYPE_BF16] = 2,
    [PSI_DTYPE_FP8] = 1,  [PSI_DTYPE_MXFP8] = 1, [PSI_DTYPE_NVFP4] = 1,
  };

  return bytes[dtype];
}
