package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
	"github.com/gopercolator/percolator/internal/testing/fixture"
)

// A short benchmark delivers what it says, in both forms and as charts. Nothing is said about
// times.
func TestBenchObservers(t *testing.T) {
	fixture.Slow(t)
	t.Parallel()
	charts := filepath.Join(t.TempDir(), "charts")
	args := []string{"observers", "--duration", "2s", "--writers", "4,8", "--hops", "2", "--chains", "40",
		"--clean", "600", "--dirty", "7", "--rounds", "2", "--workers", "2", "--idle", "1s"}
	r := measured(t, append(args, "--plot", charts)...)
	sane := func(row *report.Row, least float64) {
		t.Helper()
		if row.Value("n") < least || row.Value("p50") > row.Value("p90") || row.Value("p90") > row.Value("p99") || row.Value("p99") > row.Value("max") || row.Value("max") <= 0 {
			t.Errorf("%+v", row)
		}
	}
	saturated := r.Table("saturated").Rows
	if len(saturated) != 4 || saturated[1].Name != "8 writers" || saturated[3].Name != "8 writers, journal off" {
		t.Errorf("saturated: %+v", saturated)
	}
	for _, row := range saturated {
		if row.Value("writes and runs") <= 0 {
			t.Errorf("saturated: %+v", row)
		}
	}
	for _, way := range []string{"direct dispatch", "looks only", "direct dispatch, journal off", "scan only, journal off"} {
		rows := r.Table("chain, " + way).Rows
		if len(rows) != 2+1 || rows[2].Name != "whole" {
			t.Fatalf("chain, %s: %d rows", way, len(rows))
		}
		for _, row := range rows {
			sane(row, 1)
		}
	}
	for _, journal := range []string{"", ", journal off"} {
		in := r.Table("in one process").Row("observed" + journal)
		if in.Value("offered") <= 0 || in.Value("delivered") <= 0 {
			t.Errorf("in one process: %+v", in)
		}
		sane(in, 1)
		across := r.Table("across processes" + journal)
		idle := across.Rows[:1]
		if journal != "" {
			idle = across.Rows[:2] // workers may begin late
		}
		read := 0.0
		for _, round := range idle {
			read += round.Value("reads of the table by workers before it")
		}
		if (read > 0) != (journal != "") {
			t.Errorf("idle workers sent %v reads of the table%s", read, journal)
		}
		p, all := r.Table("dirty rows").Row("all"+journal), across.Row("all")
		sane(all, 14)
		if p.Value("clean rows") != 600 || p.Value("dirty rows of a round") != 7 || p.Value("workers") != 2 || p.Value("to look at all") <= 0 || p.Figure("lost").Name == "" || p.Value("lost") != 0 ||
			len(across.Rows) != 2+1 || all.Value("n") != 14 || p.Value("heard of from the writer")+p.Value("found by a scan first") < 14 {
			t.Errorf("across processes: %+v", p)
		}
	}
	drawn(t, charts, "observers-in-process", "observers-chain", "observers-across-processes")

	q := start(t, append(args, "--clean", "0", "--duration", "500ms", "--writers", "4", "--hops", "1")...)
	if code := q.wait(t); code != exitOK || !strings.Contains(q.stdout.String(), "in one process") || strings.Contains(q.stdout.String(), "across processes") {
		t.Errorf("exit status %d, output:\n%s", code, q.stdout.String())
	}
}

func TestBenchObserversRefuses(t *testing.T) {
	t.Parallel()
	refuses(t, "observers", []string{"--duration", "0s"}, []string{"--writers", "0"}, []string{"--hops", "0"}, []string{"--chains", "0"}, []string{"--clean", "-1"}, []string{"--dirty", "0"},
		[]string{"--clean", "10", "--dirty", "11"}, []string{"--workers", "0"}, []string{"--rounds", "0"}, []string{"--idle", "-1s"}, []string{"--scan-interval", "-1s"}, []string{"--journal", "maybe"}, []string{"-o", "xml"})
}
