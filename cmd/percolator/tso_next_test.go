package main

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/tso"
)

func TestNext(t *testing.T) {
	t.Parallel()
	_, address := startServer(t, startBigtable(t))
	before := time.Now().Truncate(time.Millisecond)
	for name, p := range map[string]*program{
		"by flag":        start(t, nil, "tso", "next", "--tso", address),
		"by environment": start(t, []string{cli.OracleEnv + "=" + address}, "tso", "next"),
	} {
		if code := p.wait(t); code != 0 {
			t.Fatalf("%s: exit status %d, %q", name, code, p.stderr.String())
		}
		number, text, _ := strings.Cut(strings.TrimSpace(p.stdout.String()), "\t")
		ts, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			t.Fatalf("%s: printed %q", name, p.stdout.String())
		}
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil || tso.At(at) != tso.Timestamp(ts) {
			t.Errorf("%s: printed %q: %v", name, p.stdout.String(), err)
		}
		if at.Before(before) || at.After(time.Now().Add(time.Minute)) {
			t.Errorf("%s: the time is %v, now is %v", name, at, before)
		}
	}
}

func TestNextFails(t *testing.T) {
	t.Parallel()
	if p := start(t, []string{cli.OracleEnv + "="}, "tso", "next"); p.wait(t) != cli.ExitUsage || !strings.Contains(p.stderr.String(), "--tso") {
		t.Errorf("without an address: %q", p.stderr.String())
	}
	const nobody = "127.0.0.1:1"
	if p := start(t, nil, "tso", "next", "--timeout", "1s", "--tso", nobody); p.wait(t) != cli.ExitUnavailable || !strings.Contains(p.stderr.String(), nobody) {
		t.Errorf("without a server: %q", p.stderr.String())
	}
}
