"""`python -m avow`, which `torchrun` needs, is the same as `avow`."""

from avow.cli import main

if __name__ == "__main__":  # a process of `avow serve --processes` imports this too
    main()
