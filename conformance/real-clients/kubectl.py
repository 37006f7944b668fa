#!/usr/bin/env python3
"""Runs the same kubectl commands against `sim serve` and a real kube-apiserver, and compares their output.

  conformance/real-clients/kubectl.py [--kubectl KUBECTL] [--sim SIM] [--against sim|real] [--only TEXT] [--write]

The file kubectl/commands has the commands, each a line of bash; their manifests are beside it. Exit code, standard output and
standard error must be the same, except for values that name an object or a moment of one server (see NORMAL in transcripts.py).
The file kubectl/differences lists the differences that stay, each with its reason. The script fails for a difference that is not
listed, and for a listed one that no longer exists.
`--against real` compares two real servers, which tests the comparison itself. `--only` runs all commands, and for those that
contain TEXT prints the output of both servers. `--write` updates kubectl/differences and keeps the reasons.
"""
import comparison
import servers
import transcripts


def main():
    suite = transcripts.Suite(servers.HERE / "kubectl")
    args = transcripts.options(suite, __doc__)
    with comparison.pair(args) as (real, ours):
        shells = [transcripts.Shell(suite, server, args.client) for server in (real, ours)]
        failed = transcripts.compare(suite, *shells, args)
        real.keep = ours.keep = failed > 0
        return failed


if __name__ == "__main__":
    comparison.run(main)
