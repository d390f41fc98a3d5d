/* SPDX-License-Identifier: MIT */
/* Mean squared error: 1/2 mean (y - t)^2. Softmax cross-entropy: log sum exp y - y_t. On the host, in double. */
#include "train-model.h"

#include <math.h>

static double
squared_error (float *outputs, const float *targets, size_t width, float scale)
{
  double loss = 0.0;

  for (size_t i = 0; i < width; i++)
    {
      float difference = outputs[i] - targets[i];

      loss += 0.5 * (double) difference * (double) difference / (double) width;
      outputs[i] = scale * difference / (float) width;
    }
  return loss;
}

static double
cross_entropy (float *outputs, const float *targets, size_t width, float scale)
{
  float largest = outputs[0];
  double sum = 0.0, loss = 0.0;

  for (size_t i = 1; i < width; i++)
    largest = outputs[i] > largest ? outputs[i] : largest;
  for (size_t i = 0; i < width; i++)
    sum += exp ((double) (outputs[i] - largest));
  for (size_t i = 0; i < width; i++)
    {
      loss += (double) targets[i] * (log (sum) - (double) (outputs[i] - largest));
      outputs[i] = scale * ((float) (exp ((double) (outputs[i] - largest)) / sum) - targets[i]);
    }
  return loss;
}

double
train_loss (float *outputs, const float *targets, size_t rows, size_t width, bool classes, float scale)
{
  double loss = 0.0;

  for (size_t row = 0; row < rows; row++)
    loss += (classes ? cross_entropy : squared_error) (outputs + row * width, targets + row * width, width, scale);
  return loss;
}
