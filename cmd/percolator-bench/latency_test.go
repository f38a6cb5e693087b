package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/bench"
)

// A short benchmark delivers what it says, in both forms and as a chart. Nothing is said about times; requests do not depend on
// them.
func TestBenchLatency(t *testing.T) {
	t.Parallel()
	charts := filepath.Join(t.TempDir(), "charts")
	args := []string{"latency", "--delay", "1ms", "--iterations", "11", "--repeat", "2"}
	p := start(t, append(args, "-o", "json", "--plot", charts)...)
	if code := p.wait(t); code != exitOK {
		t.Fatalf("exit status %d", code)
	}
	var r bench.LatencyReport
	if err := json.Unmarshal(p.stdout.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.GoVersion == "" || r.Emulator == "" || r.Delay != 1 || r.Iterations != 11 || r.Repeat != 2 ||
		r.RawRead.Min < 1 || r.RawMutate.Min < 1 {
		t.Errorf("%+v", r)
	}
	const each = 1 + 10 + 2*11 // transactions
	if want := each * (1 + 1 + 2 + 10 + 10 + 2); r.Verified != want+1 {
		t.Errorf("%d cells verified, want %d and the one that is read", r.Verified, want)
	}
	exactly := func(n int) bench.Range { return bench.Range{Least: n, Most: n} }
	// In the order of the report; MutateRows depends on how phase two was gathered, and the oracle of a blind one on what was at hand.
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
		if i >= len(r.Transactions) {
			t.Fatalf("%d kinds of transactions", len(r.Transactions))
		}
		x := r.Transactions[i]
		q := x.Requests
		if q.Counted != 10 || x.Multiple.Min <= 0 || x.Multiple.Min > x.Multiple.Max || x.Milliseconds.Min < 1 {
			t.Errorf("%s: %+v", x.Name, x)
		}
		if (want.reads >= 0 && q.ReadRows != exactly(want.reads)) || q.CheckAndMutateRow != exactly(want.checked) ||
			(q.MutateRows.Least > 0) != want.bulk || (q.MutateRows.Most > 0) != want.bulk {
			t.Errorf("%s: %+v", x.Name, q)
		}
		if want.blind != (x.AtHand != nil) || want.blind != (x.Ahead != nil) {
			t.Errorf("%s: at hand: %v", x.Name, x.AtHand)
		}
		if want.blind {
			if q.Oracle.Least < 1 || q.Oracle.Most > want.oracle || *x.AtHand < 0 || *x.AtHand > 1 {
				t.Errorf("%s: %+v, %v at hand", x.Name, q.Oracle, *x.AtHand)
			}
		} else if q.Oracle != exactly(want.oracle) {
			t.Errorf("%s: %+v", x.Name, q.Oracle)
		}
	}
	// The lock was really in the way: without it one read would do.
	if past := r.Transactions[6].Requests; past.ReadRows.Least < 2 || past.Storage.Most > 4 {
		t.Errorf("past a lock: %+v", past)
	}
	for _, ext := range []string{".svg", ".png"} {
		if info, err := os.Stat(filepath.Join(charts, "latency"+ext)); err != nil || info.Size() == 0 {
			t.Errorf("chart: %v", err)
		}
	}

	p = start(t, "latency", "--delay", "0s", "--iterations", "1", "--repeat", "1")
	code, out := p.wait(t), p.stdout.String()
	if code != exitOK || !strings.Contains(out, "cells read back") || !strings.Contains(out, "begin, set 10 rows, commit: blind") {
		t.Errorf("exit status %d, output:\n%s", code, out)
	}
}

func TestBenchLatencyRefuses(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--delay", "-1ms"}, {"--delay", "2s"}, {"--iterations", "0"}, {"--repeat", "0"}, {"--emulator", "real"}, {"-o", "xml"}, {"extra"},
	} {
		if code := start(t, append([]string{"latency"}, args...)...).wait(t); code != exitUsage {
			t.Errorf("%v: exit status %d", args, code)
		}
	}
}
