package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/bench"
)

// A short benchmark delivers what it says, in both forms. Nothing is said about times.
func TestBenchTSO(t *testing.T) {
	t.Parallel()
	args := []string{"tso", "--callers", "1,64", "--duration", "20ms", "--repeat", "1", "--offered", "1000", "--offered-callers", "8", "--total", "20000"}
	p := start(t, append(args, "-o", "json")...)
	if code := p.wait(t); code != exitOK {
		t.Fatalf("exit status %d", code)
	}
	var r bench.OracleReport
	if err := json.Unmarshal(p.stdout.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Rates) != 2 || r.Rates[1].PerSecond.Min <= 0 || r.Single.Ratio.Median <= 0 || r.Offered.Delivered <= 0 {
		t.Errorf("%+v", r)
	}
	if n := len(r.Memory); n == 0 || r.Memory[n-1].Timestamps < 20000 {
		t.Errorf("memory: %+v", r.Memory)
	}
	if r.Writes.Timestamps < 20000 || r.Writes.Writes < 1 {
		t.Errorf("writes: %+v", r.Writes)
	}
	p = start(t, args...)
	if code := p.wait(t); code != exitOK || !strings.Contains(p.stdout.String(), "round trip, µs") {
		t.Errorf("exit status %d, output:\n%s", code, p.stdout.String())
	}
}

func TestBenchTSORefuses(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--callers", "0"}, {"--duration", "0s"}, {"--processes", "0"}, {"-o", "xml"}, {"--offered", "0"},
		{"--processes", "100000"}, {"--clients", "100000"}, {"--total", "-5"}, {"--offered-callers", "1", "--processes", "2"},
	} {
		if code := start(t, append([]string{"tso"}, args...)...).wait(t); code != exitUsage {
			t.Errorf("%v: exit status %d", args, code)
		}
	}
}
