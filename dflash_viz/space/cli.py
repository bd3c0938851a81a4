"""``python -m dflash_viz space check|render|deploy``."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, ParamSpec

import typer
from huggingface_hub import get_token

from dflash_viz.space.deploy import Target, deploy, describe
from dflash_viz.space.model import SpaceError
from dflash_viz.space.render import render
from dflash_viz.space.spacefile import check_spacefile
from dflash_viz.weights.resolver import ROOT

EXIT_FAILED, EXIT_WRONG = 1, 2

app = typer.Typer(
    help="The app as a Hugging Face Space, as the Spacefile describes it.", no_args_is_help=True
)

SpacefilePath = Annotated[Path, typer.Option("--spacefile", help="Another Spacefile than the repository's.")]
DEFAULT = ROOT / "Spacefile"
P = ParamSpec("P")


def _plainly(command: Callable[P, None]) -> Callable[P, None]:
    """A command whose faults that the user can mend are words on standard error."""

    @wraps(command)
    def run(*arguments: P.args, **options: P.kwargs) -> None:
        try:
            command(*arguments, **options)
        except SpaceError as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(EXIT_WRONG) from None

    return run


@app.command("check")
@_plainly
def check_command(spacefile: SpacefilePath = DEFAULT) -> None:
    """Say everything that is wrong in the Spacefile; exit status 1 if anything is."""
    problems = check_spacefile(spacefile)
    for problem in problems:
        typer.echo(problem)
    if problems:
        raise typer.Exit(EXIT_FAILED)
    typer.echo(f"{spacefile} is valid.")


@app.command("render")
@_plainly
def render_command(
    out: Annotated[Path, typer.Argument(help="A new or empty folder.")], spacefile: SpacefilePath = DEFAULT
) -> None:
    """Write the Space's files into a folder, as deploy would upload them."""
    names = render(spacefile, out)
    typer.echo(f"{len(names)} files are in {out}")


@app.command("deploy")
@_plainly
def deploy_command(
    name: Annotated[str, typer.Argument(help="The Space: OWNER/NAME.")], spacefile: SpacefilePath = DEFAULT
) -> None:
    """Create or update a Space; without a token (HF_TOKEN, or hf auth login) only say what that would do."""
    token = get_token()
    if token is None:
        for line in describe(spacefile, name, os.environ):
            typer.echo(line)
        typer.echo("Nothing was sent: there is no token. Put one into HF_TOKEN to deploy.", err=True)
        return
    target = Target(name, token)
    address = deploy(spacefile, target, os.environ, lambda line: typer.echo(line, err=True))
    typer.echo(address)
