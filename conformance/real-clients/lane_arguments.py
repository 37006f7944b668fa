"""Command line of the lanes of the real Cluster Autoscaler, whose scenarios are functions with a docstring `NAME: what happens`."""
import argparse


def parser_of(text, scenarios):
    """Returns a parser with the options of each lane. Its help is a text and the list of the scenarios."""
    width = max(map(len, scenarios))
    listed = "".join(f"  {name:{width}} {it.__doc__.partition(': ')[2]}\n" for name, it in scenarios.items())
    parser = argparse.ArgumentParser(description=text + listed, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--provider", default="target/release/provider")
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO")
    return parser


def chosen(parser, given, scenarios):
    """Returns the names of the scenarios to play: those that the command names, or all. Ends the script if a name is unknown."""
    unknown = [it for it in given.scenarios if it not in scenarios]
    if unknown:
        parser.error(f"unknown scenario '{unknown[0]}': expected {', '.join(scenarios)}")
    return given.scenarios or list(scenarios)
