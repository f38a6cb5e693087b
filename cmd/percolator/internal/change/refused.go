package change

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
)

// refusedFlags choose what observers or receivers have refused: some of it by name, all of an
// observer or a queue, or all.
type refusedFlags struct {
	cli.QueryFlags
	consent cli.Consent
	all     bool
	of      string // an observer, or a queue
}

// add adds the flags; of is the name of the one that chooses an observer or a queue.
func (f *refusedFlags) add(cmd *cobra.Command, all, of, ofUsage string) {
	f.QueryFlags.Add(cmd, cli.DataTimeout)
	cmd.Flags().BoolVar(&f.all, "all", false, all)
	cmd.Flags().StringVar(&f.of, of, "", ofUsage)
	f.consent.AddDryRun(cmd)
}

// oneWay reports whether exactly one way of choosing is used, of which one is by name.
func (f *refusedFlags) oneWay(byName bool) bool {
	ways := slices.DeleteFunc([]bool{byName, f.all, f.of != ""}, func(used bool) bool { return !used })
	return len(ways) == 1
}

// happened is what is said of each.
func (f *refusedFlags) happened(did string) string {
	if f.consent.DryRun {
		return "would be " + did
	}
	return did
}
