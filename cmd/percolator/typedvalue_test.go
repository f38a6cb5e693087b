package main

import (
	"encoding/json"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/engine/model"
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
	cl.must(exitOK, "schema", "apply", stockSchema, "--yes")
	cl.client = cl.newClient(percolator.Config{})
	stock := func(row, column string) percolator.Cell {
		return percolator.Cell{Table: "stock", Row: row, Column: column}
	}
	good := string(model.EncodeOrderedInt64(7))
	cl.set(map[percolator.Cell]string{stock("bolts", "onhand"): good, stock("nuts", "onhand"): "12", stock("nuts", "colour"): "red", stock("pins", "onhand"): "100"})
	s := session{c: cl}
	s.run(exitFindings, "schema", "diff", typedSchema)
	s.run(exitFailure, "schema", "apply", typedSchema, "--yes")
	s.run(exitFailure, "schema", "apply", typedSchema, "--dry-run", "-o", "json")
	cl.must(exitOK, "set", "stock", "nuts", "onhand", "800000000000000c", "--hex")
	cl.must(exitOK, "del", "stock", "nuts", "colour")
	s.run(exitFailure, "schema", "apply", typedSchema, "--yes")
	s.run(exitOK, "schema", "apply", typedSchema, "--yes", "--no-sample")
	s.run(exitOK, "schema", "show")
	s.run(exitFindings, "schema", "diff", retypedSchema)
	s.run(exitFailure, "schema", "apply", retypedSchema, "--yes")

	s.run(exitOK, "get", "stock", "pins")
	s.runWith(exitOK, "-100\n", "set", "stock", "pins", "onhand", "--file", "-")
	s.run(exitUsage, "set", "stock", "pins", "onhand", "many")
	s.run(exitUsage, "set", "stock", "pins", "onhnad", "1")
	s.run(exitUsage, "set", "stock", "pins", "since", "yesterday")
	s.run(exitUsage, "set", "stock", "pins", "price", "NaN")
	s.run(exitUsage, "set", "stock", "pins", "price", "fff8000000000001", "--hex")
	s.run(exitUsage, "set", "stock", "pins", "price", "7fffffffffffffff", "--hex") // -0
	s.run(exitUsage, "set", "stock", "pins", "count", "100", "--raw")
	s.run(exitUsage, "set", "stock", "pins", "count", "00", "--hex")
	s.runWith(exitOK, "12\n", "set", "stock", "pins", "count", "--file", "-")
	for _, set := range [][]string{
		{"price", "2.50"}, {"listed", "true"}, {"since", "2026-01-31T15:04:05.25+01:00"}, {"name", "safety pins"},
		{"item:7", `{"size": [1, 20], "big": 9007199254740993}`}, {"picture", "89504e47", "--hex"},
	} {
		s.run(exitOK, append([]string{"set", "stock", "pins"}, set...)...)
	}
	s.run(exitUsage, "set", "stock", "pins", "listed", "yes")
	s.run(exitOK, "get", "stock", "pins")
	s.run(exitOK, "get", "stock", "pins", "-o", "json")
	s.run(exitUsage, "get", "stock", "pins", "item")
	s.run(exitOK, "scan", "stock", "onhand", "count")
	s.run(exitOK, "scan", "stock", "--index", "by-onhand", "--from", "-100", "--to", "12")
	s.run(exitOK, "scan", "stock", "--index", "by-onhand", "--from", "8", "-o", "json")
	s.run(exitOK, "scan", "stock", "--index", "by-onhand", "--reverse", "--limit", "2")
	s.run(exitOK, "scan", "stock", "--index", "by-onhand", "--to", "12", "--reverse", "--limit", "1")
	s.run(exitUsage, "scan", "stock", "--index", "by-onhand", "--from", "few")
	s.run(exitUsage, "scan", "stock", "--index", "by-onhand", "--prefix", "1")
	s.run(exitOK, "row", "stock", "pins", "--column", "onhand", "--values")
	s.run(exitOK, "row", "stock", "pins", "--column", "item:7", "--column", "onhand", "--values", "-o", "json", "--value-bytes", "16")
	golden(t, "typed.txt", normalized(placeCounts.ReplaceAllString(s.text.String(), "${2}<n>${1}")))
}

// How many places a sample reads depends on what the emulator says of tablets, which is random.
var placeCounts = regexp.MustCompile(`\b\d+( places\b)|("places": )\d+`)

// FuzzTypedJSON: whatever is stored, commands show JSON and text, and the text form of what is of
// the type is that of the JSON.
func FuzzTypedJSON(f *testing.F) {
	for i := range model.Types {
		for _, b := range []string{"", "abc", "\xff", `{"a": 1e400}`, "\x01", string(model.EncodeFloat64(math.NaN())), string(model.EncodeFloat64(1e21)), string(model.EncodeInt64(-1))} {
			f.Add(uint8(i), []byte(b))
		}
	}
	f.Fuzz(func(t *testing.T, n uint8, value []byte) {
		typ := model.Types[int(n)%len(model.Types)]
		if value == nil {
			value = []byte{}
		}
		out := typedJSON(typ, value)
		text, err := encodeJSON("", cellJSON{Table: "t", valueJSON: out})
		if err != nil || !json.Valid(text) {
			t.Fatalf("%s: %q is shown as %q, %v", typ, value, text, err)
		}
		if (out.Value == nil) == (out.Base64 == nil) {
			t.Errorf("%s: %q is shown in both forms, or none: %q", typ, value, text)
		}
		form, wrong := typ.Format(value)
		if wrong == nil && typ != percolator.TypeBytes && out.Value == nil {
			t.Errorf("%s: %q is shown as base64", typ, value)
		}
		if shown := typedText(typ, value); wrong != nil && !strings.HasSuffix(shown, "("+wrong.Error()+")") || wrong == nil && shown != shownValue([]byte(form)) {
			t.Errorf("%s: %q is shown as %s", typ, value, shown)
		}
	})
}
