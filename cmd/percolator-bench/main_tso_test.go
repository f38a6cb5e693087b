package main

import (
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
)

// A short benchmark delivers what it says, in both forms. Nothing is said about times.
func TestBenchTSO(t *testing.T) {
	fixture.Slow(t)
	t.Parallel()
	args := []string{"tso", "--callers", "1,64", "--duration", "20ms", "--repeat", "1", "--offered", "1000", "--offered-callers", "8", "--total", "20000"}
	r := measured(t, args...)
	rates := r.Table("rates").Rows
	if len(rates) != 2 || rates[1].Figure("timestamps").Spread.Min <= 0 || r.Table("one caller").Row("ratio").Value("ratio") <= 0 ||
		r.Table("latency").Row("8 callers").Value("delivered") <= 0 || r.Table("latency").Row("8 callers").Value("p50") <= 0 {
		t.Errorf("%+v", r)
	}
	memory := r.Table("memory").Rows
	if n := len(memory); n == 0 || memory[n-1].Value("timestamps") < 20000 {
		t.Errorf("memory: %+v", memory)
	}
	if row := r.Table("store").Row("all measurements"); row.Value("timestamps") < 20000 || row.Value("writes to the store") < 1 {
		t.Errorf("writes: %+v", row)
	}
	p := start(t, args...)
	if code := p.wait(t); code != exitOK || !strings.Contains(p.stdout.String(), "round trip") {
		t.Errorf("exit status %d, output:\n%s", code, p.stdout.String())
	}
}

func TestBenchTSORefuses(t *testing.T) {
	t.Parallel()
	refuses(t, "tso", []string{"--callers", "0"}, []string{"--duration", "0s"}, []string{"--processes", "0"}, []string{"-o", "xml"}, []string{"--offered", "0"},
		[]string{"--processes", "100000"}, []string{"--clients", "100000"}, []string{"--total", "-5"}, []string{"--offered-callers", "1", "--processes", "2"})
}
