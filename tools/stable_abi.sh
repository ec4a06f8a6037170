#!/usr/bin/env bash
# Builds one binary and runs tests/ops on its CPU kernels under several versions of PyTorch.
