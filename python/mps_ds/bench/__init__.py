"""`python -m mps_ds.bench`: what mps_ds costs on your own machine, beside PyTorch's own way.

    __main__.py      command line
    target.py        the device, how it is waited for, how much memory may be used
    shapes.py        lists of tensors as real models have them
    cases.py         what a comparison is: contestants that do the same work
    adam.py, gradients.py, mixed.py, resources.py, host.py   the comparisons
    training.py      --train: forward, backward and optimizer of a model of GPT-2's size
    compare.py       runs them, within memory
    timing.py        times, of a real device
    counting.py      counts and bytes, of the software device, whose times mean nothing
    results.py       the table and the JSON file
    plot.py          the PNG

docs/bench.md says how it measures and what it leaves out.
"""
