package main

import (
	"strings"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
)

// TestEmptyValues: an empty value is a value, in every form that a command reads or prints; what is
// absent is not found, and is not there.
func TestEmptyValues(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	c := newCluster(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t", Indexes: []percolator.Index{{Name: "ix", Column: "c"}}}}})
	for row, args := range map[string][]string{"argument": {""}, "file": {"--file", "/dev/null"}, "input": {"--file", "-"}, "hex": {"", "--hex"}, "inserted": {"", "--insert"}} {
		c.must(cli.ExitOK, append([]string{"set", "t", row, "c"}, args...)...)
		c.must(cli.ExitConflict, "set", "t", row, "c", "", "--insert")
		for form, want := range map[string]string{"table": `""`, "json": `"value": ""`} {
			for _, command := range [][]string{{"get", "t", row}, {"get", "t", row, "c"}, {"scan", "t", "--prefix", row}, {"scan", "t", "--index", "ix", "--from", "", "--to", "a"}} {
				if out := c.must(cli.ExitOK, append(command, "-o", form)...).out; !strings.Contains(out, want) {
					t.Errorf("%q prints\n%s", append(command, "-o", form), out)
				}
			}
		}
		if out := c.must(cli.ExitOK, "get", "t", row, "c", "--raw").out; out != "" {
			t.Errorf("get --raw prints %q", out)
		}
		if out := c.must(cli.ExitOK, "row", "t", row, "--values", "-o", "json").out; strings.Count(out, `"value": ""`) != 2 || !strings.Contains(out, `"size": 0`) {
			t.Errorf("row prints\n%s", out)
		}
	}
	c.must(cli.ExitOK, "del", "t", "argument", "c")
	c.must(cli.ExitNotFound, "get", "t", "argument", "c")
	c.must(cli.ExitNotFound, "get", "t", "argument", "c", "--raw")
	c.must(cli.ExitUsage, "set", "t", "", "c", "v")
	c.must(cli.ExitUsage, "set", "t", "r", "", "v")
	c.must(cli.ExitUsage, "get", "t", "")
}
