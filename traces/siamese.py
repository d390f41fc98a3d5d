# SPDX-License-Identifier: MIT
"""Two convolutional branches over a pair of images and a head that compares them.

The branches have the shape of Koch, Zemel and Salakhutdinov, "Siamese Neural Networks for One-shot Image Recognition"
(2015), each with weights of its own so that they can live on different GPUs.
"""
import torch
from torch import nn


def branch():
    return nn.Sequential(
        nn.Conv2d(1, 64, 10), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Conv2d(64, 128, 7), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Conv2d(128, 128, 4), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Conv2d(128, 256, 4), nn.ReLU(inplace=True),
        nn.Flatten(), nn.Linear(256 * 6 * 6, 4096), nn.Sigmoid())


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.left = branch()
        self.right = branch()
        self.head = nn.Linear(4096, 1)

    def forward(self, left, right):
        return self.head(torch.abs(self.left(left) - self.right(right)))


def siamese():
    return Siamese()
