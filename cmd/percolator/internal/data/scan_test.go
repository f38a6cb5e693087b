package data

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator"
)

// untyped is what the commands know of tables that declare no columns.
func untyped(_, _ string) percolator.Type { return percolator.TypeBytes }

// TestLongScan: a table longer than what is lined up at a time has one head, and JSON is one
// document.
func TestLongScan(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	entries := func(yield func(percolator.Entry, error) bool) {
		for range 2*alignedLines + 1 {
			if !yield(percolator.Entry{Cell: percolator.Cell{Table: "t", Row: "r", Column: "c"}, Value: []byte(strings.Repeat("ä", 40)), CommitTS: 1}, nil) {
				return
			}
		}
	}
	if err := new(scanFlags).show(&out, &percolator.Snapshot{}, untyped, entries, cli.Output{}); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(out.String(), "\n"); lines != 2*alignedLines+2 || strings.Count(out.String(), "ROW") != 1 {
		t.Errorf("%d lines, %d heads", lines, strings.Count(out.String(), "ROW"))
	}
	if want := strings.Repeat("ä", 32) + "… (80 bytes)"; !strings.Contains(out.String(), want) {
		t.Errorf("a long value is not shown as %s", want)
	}
	broken := errors.New("broken off")
	err := new(scanFlags).show(&out, &percolator.Snapshot{}, untyped, func(yield func(percolator.Entry, error) bool) { yield(percolator.Entry{}, broken) }, cli.Output{Format: cli.JSON})
	if !errors.Is(err, broken) {
		t.Errorf("a scan that fails: %v", err)
	}
}

// What was read before an error is shown.
func TestScanBreaksOff(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	err := (&scanFlags{limit: 100}).show(&out, nil, untyped, func(yield func(percolator.Entry, error) bool) {
		for range 3 {
			if !yield(percolator.Entry{Cell: percolator.Cell{Table: "t", Row: "r", Column: "c"}, Value: []byte("v")}, nil) {
				return
			}
		}
		yield(percolator.Entry{}, errors.New("broken"))
	}, cli.Output{})
	if err == nil || strings.Count(out.String(), "\n") != 4 {
		t.Errorf("%v; printed %q, want the three rows that were read", err, out.String())
	}
}

func TestJSONIsPrintable(t *testing.T) {
	t.Parallel()
	var whole, streamed bytes.Buffer
	e := percolator.Entry{Cell: percolator.Cell{Table: "t", Row: "r", Column: "c"}, Value: []byte("\u009b1m\u202e\x7f")}
	err := (&cli.Output{Format: cli.JSON}).Emit(&whole, cli.Types(untyped).Cell(e), nil)
	if err := errors.Join(err, (&entryJSON{w: &streamed, types: untyped}).add(e)); err != nil {
		t.Fatal(err)
	}
	for _, said := range []string{whole.String(), streamed.String()} {
		if text.Lines(said) != said || !strings.Contains(said, `"\u009b1m\u202e\u007f"`) {
			t.Errorf("%q", said)
		}
	}
}
