package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gopercolator/percolator/cmd/percolator/internal/capacity"
	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/cmd/percolator/internal/golden"
)

// What the command prints of a small workload and of ones that it refuses.
func TestCapacitySession(t *testing.T) {
	t.Parallel()
	s := &session{c: &cluster{t: t}}
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const small = "rows=1e6,changes=100,observers=1,reads=1000"
	s.run(cli.ExitOK, "capacity", "--set", small)
	s.run(cli.ExitOK, "capacity", "--set", small, "--set", "oracleRecord=bigtable,objectPrice=0.02,nodeQuota=1,scanInterval=0s,backupInterval=0s", "--times", "1,1000")
	s.run(cli.ExitOK, "capacity", "--set", small, "-o", "json")
	s.run(cli.ExitOK, "capacity", "--file", file("workload.yaml", "rows: 1e9\nretention: 24h\n"), "--set", "changes=1e3",
		"--inputs", file("inputs.yaml", "nodePrice: {value: 0.5, unit: USD/h a node, source: our contract, read: 2026-11-01}\n"))
	s.run(cli.ExitOK, "capacity", "--set", small, "--against", "plain,spanner,dynamodb", "--times", "1,100")
	s.run(cli.ExitOK, "capacity", "--set", small+",rowsPerTransaction=101,spannerPrice=0.12", "--against", "dynamodb", "--request-ms", "2.5", "-o", "json")
	s.run(cli.ExitUsage, "capacity")
	s.run(cli.ExitUsage, "capacity", "--set", small, "--against", "dynamo")
	s.run(cli.ExitUsage, "capacity", "--set", "rows=0", "--against", "plain")
	s.run(cli.ExitUsage, "capacity", "--set", "rows=1e6,speed=3")
	s.run(cli.ExitUsage, "capacity", "--set", "rows")
	s.run(cli.ExitUsage, "capacity", "--set", "readRows=fast")
	s.run(cli.ExitUsage, "capacity", "--file", file("wrong.yaml", "row: 3\n"))
	s.run(cli.ExitUsage, "capacity", "--inputs", file("unknown.yaml", "nodePrise: {value: 0.5}\n"))
	golden.Compare(t, "capacity.txt", strings.ReplaceAll(normalized(s.text.String()), dir+"/", ""))
}

// What --sources prints is what --inputs reads.
func TestCapacitySources(t *testing.T) {
	t.Parallel()
	c := &cluster{t: t}
	in := capacity.Inputs{}
	if err := json.Unmarshal([]byte(c.must(cli.ExitOK, "capacity", "--sources", "-o", "json").out), &in); err != nil || *in["readRows"].Value != 17_000 {
		t.Fatal(err, in)
	}
	text := c.must(cli.ExitOK, "capacity", "--sources", "--set", "readRows=1").out
	path := filepath.Join(t.TempDir(), "inputs.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if again := c.must(cli.ExitOK, "capacity", "--sources", "--inputs", path).out; again != text {
		t.Error(cmp.Diff(text, again))
	}
}
