package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
)

func TestVersionCommand(t *testing.T) {
	t.Parallel()
	cl := &cluster{t: t}
	var v struct{ Go, Version string }
	if err := json.Unmarshal([]byte(cl.must(cli.ExitOK, "version", "-o", "json").out), &v); err != nil || v.Go != runtime.Version() || v.Version == "" {
		t.Errorf("-o json: %+v, %v", v, err)
	}
	if got := cl.must(cli.ExitOK, "version", "--short").out; got != v.Version+"\n" {
		t.Errorf("--short prints %q", got)
	}
	if got := cl.must(cli.ExitOK, "--version").out; got != v.Version+"\n" {
		t.Errorf("percolator --version prints %q", got)
	}
	cl.must(cli.ExitUsage, "version", "-o", "xml")
	cl.must(cli.ExitUsage, "version", "now")
}

func TestVersion(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "version")
	if code := p.wait(t); code != 0 || !strings.HasPrefix(p.stdout.String(), "percolator ") || !strings.Contains(p.stdout.String(), "go1.") {
		t.Errorf("exit status %d, printed %q", code, fmt.Sprint(p.stdout.String()))
	}
}
