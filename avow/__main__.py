"""`python -m avow`, which `torchrun` needs, is the same as `avow`."""

from avow.cli import main

main()
