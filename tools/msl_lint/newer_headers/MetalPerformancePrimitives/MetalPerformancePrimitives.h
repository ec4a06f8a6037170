// Empty: lets versions.py see who includes it.
