"""Says whether this machine's GPU can run the GPU tests: `python tools/probe_gpu.py`."""
