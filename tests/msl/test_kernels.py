"""Every kernel of ours passes every check of tools/msl_lint."""
