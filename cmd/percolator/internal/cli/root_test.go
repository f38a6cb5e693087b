package cli

import (
	"testing"

	"github.com/spf13/cobra"
)

// A command takes as many arguments as its usage names.
func TestCountArgs(t *testing.T) {
	for _, c := range []struct {
		use         string
		least, most int
	}{
		{"ls", 0, 0},
		{"row TABLE ROW", 2, 2},
		{"resolve [TABLE [ROW]]", 0, 2},
		{"ls [TABLE…]", 0, 9},
		{"get TABLE ROW [COLUMN…]", 2, 9},
		{"adopt TABLE --from bigtable:TABLE --map FILE", 1, 1},
	} {
		cmd := &cobra.Command{Use: c.use}
		(&cobra.Command{Use: "percolator"}).AddCommand(cmd)
		for n := range 10 {
			if err := countArgs(cmd, make([]string, n)); (err == nil) != (c.least <= n && n <= c.most) {
				t.Errorf("%s with %d arguments: %v", c.use, n, err)
			}
		}
	}
}
