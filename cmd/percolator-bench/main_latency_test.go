package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
)

// A short benchmark delivers what it says, in both forms and as a chart. Nothing is said about
// times; requests do not depend on them.
func TestBenchLatency(t *testing.T) {
	t.Parallel()
	charts := filepath.Join(t.TempDir(), "charts")
	r := measured(t, "latency", "--delay", "1ms", "--iterations", "11", "--repeat", "2", "--plot", charts)
	if r.Emulator == "" || !strings.Contains(r.Title, "1.0 ms added to each request, 2 × 11 of each kind") {
		t.Errorf("%s, on %s", r.Title, r.Emulator)
	}
	for _, kind := range []string{"ReadRow", "MutateRow"} {
		if f := r.Table("raw").Row(kind).Figure("time"); f.Spread.Min < 1 {
			t.Errorf("%s: %+v", kind, f)
		}
	}
	const each = 1 + 10 + 2*11 // transactions
	if want := fmt.Sprintf("%d cells read back", each*(1+1+2+10+10+2)+1); len(r.Notes) != 1 || r.Notes[0] != want {
		t.Errorf("%q, want %q with the one that is read", r.Notes, want)
	}
	exactly := func(f report.Figure, n int) bool { return *f.Spread == report.Spread{Min: float64(n), Max: float64(n)} }
	// In the order of the report; MutateRows depends on how phase two was gathered, and the oracle
	// of a blind one on what was at hand.
	for i, want := range []struct {
		reads, checked, oracle int
		bulk, blind            bool
	}{
		{reads: 1, oracle: 1},
		{checked: 2, oracle: 2},
		{checked: 2, oracle: 2, blind: true},
		{reads: 1, checked: 3, oracle: 2, bulk: true},
		{checked: 11, oracle: 2, bulk: true},
		{checked: 11, oracle: 2, bulk: true, blind: true},
		{reads: -1, checked: 1, oracle: 1},
	} {
		if i >= len(r.Table("request times").Rows) {
			t.Fatalf("%d kinds of transactions", i)
		}
		x := r.Table("request times").Rows[i]
		q := r.Table("requests").Row(x.Name)
		if !ordered(x.Figure("multiple")) || x.Figure("time").Spread.Min < 1 {
			t.Errorf("%s: %+v", x.Name, x)
		}
		bulk := q.Figure("MutateRows").Spread
		if (want.reads >= 0 && !exactly(q.Figure("ReadRows"), want.reads)) || !exactly(q.Figure("CheckAndMutateRow"), want.checked) ||
			(bulk.Min > 0) != want.bulk || (bulk.Max > 0) != want.bulk {
			t.Errorf("%s: %+v", x.Name, q)
		}
		oracle := q.Figure("Oracle")
		if want.blind {
			if oracle.Spread.Min < 1 || oracle.Spread.Max > float64(want.oracle) {
				t.Errorf("%s: %+v", x.Name, oracle)
			}
		} else if !exactly(oracle, want.oracle) {
			t.Errorf("%s: %+v", x.Name, oracle)
		}
	}
	// The lock was really in the way: without it one read would do.
	if past := r.Table("requests").Rows[6]; past.Figure("ReadRows").Spread.Min < 2 || past.Figure("storage").Spread.Max > 4 {
		t.Errorf("past a lock: %+v", past)
	}
	drawn(t, charts, "latency")

	p := start(t, "latency", "--delay", "0s", "--iterations", "1", "--repeat", "1")
	code, out := p.wait(t), p.stdout.String()
	if code != exitOK || !strings.Contains(out, "cells read back") || !strings.Contains(out, "begin, set 10 rows, commit: blind") {
		t.Errorf("exit status %d, output:\n%s", code, out)
	}
}

func TestBenchLatencyRefuses(t *testing.T) {
	t.Parallel()
	refuses(t, "latency", []string{"--delay", "-1ms"}, []string{"--delay", "2s"}, []string{"--iterations", "0"}, []string{"--repeat", "0"},
		[]string{"--emulator", "real"}, []string{"-o", "xml"}, []string{"extra"})
}
