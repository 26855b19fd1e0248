"""`python -m hkflow`: the command line, where the folder of scripts is not on the path."""

from .app.cli import main

if __name__ == "__main__":  # processes of a study import this file by another name
    main()
