"""`python -m mps_ds.selftest`: shows on your own machine that mps_ds works, or says why it cannot.

    __main__.py    command line
    machine.py     facts about this machine, gathered without relying on any of them
    diagnosis.py   what those facts mean, each case with what to do
    checks/        the checks, each a function that returns figures and bounds
    gpt.py, training.py, opticks.txt   a real training run: small model, real text
    report.py, progress.py             what is printed, and the JSON file
    attachment.py, anonymous.py        the file for an issue, without names of people and places

Nothing here imports torch before the diagnosis has said that it can be imported.
"""
