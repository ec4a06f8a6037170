"""What the documentation site (docs/conf.py) adds to Sphinx, and the check of all links."""
