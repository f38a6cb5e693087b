// Command percolator runs the servers of Percolator and the tools of its operators; docs/README.md
// leads to the pages about them.
//
// Results go to the standard output, log and errors to the standard error. The exit status tells
// the kind of failure, see cli.ExitCode. The commands are in internal/, by what an operator does.
package main

import (
	"os"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
)

// Set by the linker (-X main.stampedVersion=v1.2.3) where the source that is built is no checkout,
// from which Go would know them: in the Dockerfile, for instance.
var stampedVersion, stampedRevision, stampedDate string

func main() { os.Exit(run()) }

func run() int {
	cli.Stamped = cli.Stamp{Version: stampedVersion, Revision: stampedRevision, Date: stampedDate}
	return cli.Main(newRoot())
}
