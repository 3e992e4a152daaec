"""`python -m tamis`: the command line, as `torchrun -m tamis train …` needs it."""

from tamis.cli import main

if __name__ == "__main__":
    main()
