package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/percolator"
)

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
	if err := showScan(&out, &percolator.Snapshot{}, untyped, entries, 0, outputFlag{outputTable}); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(out.String(), "\n"); lines != 2*alignedLines+2 || strings.Count(out.String(), "ROW") != 1 {
		t.Errorf("%d lines, %d heads", lines, strings.Count(out.String(), "ROW"))
	}
	if want := strings.Repeat("ä", 32) + "… (80 bytes)"; !strings.Contains(out.String(), want) {
		t.Errorf("a long value is not shown as %s", want)
	}
	broken := errors.New("broken off")
	err := showScan(&out, &percolator.Snapshot{}, untyped, func(yield func(percolator.Entry, error) bool) { yield(percolator.Entry{}, broken) }, 0, outputFlag{outputJSON})
	if !errors.Is(err, broken) {
		t.Errorf("a scan that fails: %v", err)
	}
}

// What was read before an error is shown.
func TestScanBreaksOff(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	err := showScan(&out, nil, untyped, func(yield func(percolator.Entry, error) bool) {
		for range 3 {
			if !yield(percolator.Entry{Cell: percolator.Cell{Table: "t", Row: "r", Column: "c"}, Value: []byte("v")}, nil) {
				return
			}
		}
		yield(percolator.Entry{}, errors.New("broken"))
	}, 100, outputFlag{outputTable})
	if err == nil || strings.Count(out.String(), "\n") != 4 {
		t.Errorf("%v; printed %q, want the three rows that were read", err, out.String())
	}
}
