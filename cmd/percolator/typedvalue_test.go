package main

import (
	"regexp"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/cmd/percolator/internal/golden"
	"github.com/gopercolator/percolator/internal/catalog/values"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

const (
	stockSchema   = "testdata/schema/stock.yaml"
	typedSchema   = "testdata/schema/stock-typed.yaml"
	retypedSchema = "testdata/schema/stock-retyped.yaml"
)

// TestTypedSession: types are added to an instance that has data, which is looked at before, and
// then every command reads and writes by them.
func TestTypedSession(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testTypedSession)
}

func testTypedSession(t *testing.T) {
	cl := newCluster(t, nil)
	cl.must(cli.ExitOK, "schema", "apply", stockSchema, "--yes")
	cl.client = cl.newClient(percolator.Config{})
	stock := func(row, column string) percolator.Cell {
		return percolator.Cell{Table: "stock", Row: row, Column: column}
	}
	good := string(values.EncodeOrderedInt64(7))
	cl.set(map[percolator.Cell]string{stock("bolts", "onhand"): good, stock("nuts", "onhand"): "12", stock("nuts", "colour"): "red", stock("pins", "onhand"): "100"})
	s := session{c: cl}
	s.run(cli.ExitFindings, "schema", "diff", typedSchema)
	s.run(cli.ExitFailure, "schema", "apply", typedSchema, "--yes")
	s.run(cli.ExitFailure, "schema", "apply", typedSchema, "--dry-run", "-o", "json")
	cl.must(cli.ExitOK, "set", "stock", "nuts", "onhand", "800000000000000c", "--hex")
	cl.must(cli.ExitOK, "del", "stock", "nuts", "colour")
	s.run(cli.ExitFailure, "schema", "apply", typedSchema, "--yes")
	s.run(cli.ExitOK, "schema", "apply", typedSchema, "--yes", "--no-sample")
	s.run(cli.ExitOK, "schema", "show")
	s.run(cli.ExitFindings, "schema", "diff", retypedSchema)
	s.run(cli.ExitFailure, "schema", "apply", retypedSchema, "--yes")

	s.run(cli.ExitOK, "get", "stock", "pins")
	s.runWith(cli.ExitOK, "-100\n", "set", "stock", "pins", "onhand", "--file", "-")
	s.run(cli.ExitUsage, "set", "stock", "pins", "onhand", "many")
	s.run(cli.ExitUsage, "set", "stock", "pins", "onhnad", "1")
	s.run(cli.ExitUsage, "watch", "stock", "onhnad")
	s.run(cli.ExitUsage, "set", "stock", "pins", "since", "yesterday")
	s.run(cli.ExitUsage, "set", "stock", "pins", "price", "NaN")
	s.run(cli.ExitUsage, "set", "stock", "pins", "price", "fff8000000000001", "--hex")
	s.run(cli.ExitUsage, "set", "stock", "pins", "price", "7fffffffffffffff", "--hex") // -0
	s.run(cli.ExitUsage, "set", "stock", "pins", "count", "100", "--raw")
	s.run(cli.ExitUsage, "set", "stock", "pins", "count", "00", "--hex")
	s.runWith(cli.ExitOK, "12\n", "set", "stock", "pins", "count", "--file", "-")
	for _, set := range [][]string{
		{"price", "2.50"}, {"listed", "true"}, {"since", "2026-01-31T15:04:05.25+01:00"}, {"name", "safety pins"},
		{"item:7", `{"size": [1, 20], "big": 9007199254740993}`}, {"picture", "89504e47", "--hex"},
	} {
		s.run(cli.ExitOK, append([]string{"set", "stock", "pins"}, set...)...)
	}
	s.run(cli.ExitUsage, "set", "stock", "pins", "listed", "yes")
	s.run(cli.ExitOK, "get", "stock", "pins")
	s.run(cli.ExitOK, "get", "stock", "pins", "-o", "json")
	s.run(cli.ExitUsage, "get", "stock", "pins", "item")
	s.run(cli.ExitOK, "scan", "stock", "onhand", "count")
	s.run(cli.ExitOK, "scan", "stock", "--index", "by-onhand", "--from", "-100", "--to", "12")
	s.run(cli.ExitOK, "scan", "stock", "--index", "by-onhand", "--from", "8", "-o", "json")
	s.run(cli.ExitOK, "scan", "stock", "--index", "by-onhand", "--reverse", "--limit", "2")
	s.run(cli.ExitOK, "scan", "stock", "--index", "by-onhand", "--to", "12", "--reverse", "--limit", "1")
	s.run(cli.ExitUsage, "scan", "stock", "--index", "by-onhand", "--from", "few")
	s.run(cli.ExitUsage, "scan", "stock", "--index", "by-onhand", "--prefix", "1")
	s.run(cli.ExitOK, "row", "stock", "pins", "--column", "onhand", "--values")
	s.run(cli.ExitOK, "row", "stock", "pins", "--column", "item:7", "--column", "onhand", "--values", "-o", "json", "--value-bytes", "16")
	golden.Compare(t, "typed.txt", normalized(placeCounts.ReplaceAllString(s.text.String(), "${2}<n>${1}")))
}

// How many places a sample reads depends on what the emulator says of tablets, which is random.
var placeCounts = regexp.MustCompile(`\b\d+( places\b)|("places": )\d+`)
