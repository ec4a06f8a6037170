"""The macOS build made and checked on Linux: `make macos-wheel`, or `python -m macos --help`."""
