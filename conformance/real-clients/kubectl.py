#!/usr/bin/env python3
"""kubectl against `sim serve` and a real kube-apiserver: the same commands, and what they print compared.

  conformance/real-clients/kubectl.py [--kubectl KUBECTL] [--sim SIM] [--against sim|real] [--only TEXT] [--write]

The commands stand in kubectl/commands, a line of bash each; their manifests beside them. Exit code, standard output and
standard error have to be the same, but for what names an object or a moment of one server (see NORMAL in transcripts.py).
What differs and is to stay stands in kubectl/differences, with the reason; one that is not listed fails, and so does a listed
one that is gone.
`--against real` compares two real servers, which proves the comparison itself. `--only` prints those commands that contain
TEXT, with what both servers answered; all are run. `--write` brings kubectl/differences up to date, reasons kept.
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
