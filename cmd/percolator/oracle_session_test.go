package main

import (
	"strings"
	"testing"
)

// TestOracleSession shows the commands around the oracle, from an empty instance on.
func TestOracleSession(t *testing.T) {
	t.Parallel()
	cl := newCluster(t, nil)
	s := session{c: cl}
	s.run(exitUsage, "init", "--schema", "testdata/schema/none.yaml")
	s.run(exitOK, "init")
	s.run(exitOK, "init")
	s.run(exitOK, "init", "--schema", webSchema)
	s.run(exitOK, "init", "--schema", webSchema)
	s.run(exitFailure, "init", "--schema", shrunkSchema)
	s.run(exitUsage, "init", "--project=")
	s.run(exitUsage, "init", "x")
	s.run(exitOK, "tso", "next")
	s.run(exitOK, "tso", "status")
	s.run(exitOK, "tso", "status", "-o", "json")
	s.run(exitUsage, "tso", "status", "-o", "xml")
	s.run(exitOK, "tso", "raise", "--to", "now+1m")
	s.run(exitUsage, "tso", "raise", "--to", "now")
	s.run(exitUsage, "tso", "raise", "--to", "now+2h")
	s.run(exitUsage, "tso", "raise", "--to", "tomorrow")
	s.run(exitRecord, "tso", "raise", "--to", "now+1m", "--name", "another")
	s.replace(`("storeAnsweredMillis": |"served": |"record": |leads +\S+ +\d+ +)\d+`, "${1}N") // they change while the oracle leads
	s.replace(`is 1h59m\d+s ahead|is 2h0m0s ahead`, "is 2h ahead")
	s.compare("oracle.txt")

	cl.must(exitUsage, "init", "--spanner", "projects/p/instances/i/databases/d", "--schema", webSchema)
	cl.must(exitUnavailable, "tso", "next", "--tso", "127.0.0.1:1", "--timeout", "300ms")
	cl.must(exitUnavailable, "tso", "status", "--tso", "127.0.0.1:1", "--timeout", "300ms")
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	cl := newCluster(t, cellSchema())
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out := cl.must(exitOK, "completion", shell).out; !strings.Contains(out, "percolator") || len(out) < 1000 {
			t.Errorf("%s: %d bytes", shell, len(out))
		}
	}
	cl.must(exitUsage, "completion")
	cl.must(exitUsage, "completion", "tcsh")
	instance := []string{"--project", cl.project, "--instance", cl.instance}
	for _, c := range []struct {
		args []string
		want string // sorted as the schema is
	}{
		{[]string{"get", ""}, "accounts documents"},
		{[]string{"get", "d"}, "documents"},
		{[]string{"get", "documents", ""}, ""},
		{[]string{"notify", "ls", ""}, "accounts documents"},
		{[]string{"schema", "verify", "documents", ""}, "by-url"},
		{[]string{"schema", "backfill", "accounts", ""}, ""},
	} {
		words := append([]string{"__complete"}, c.args[:len(c.args)-1]...)
		words = append(append(words, instance...), c.args[len(c.args)-1])
		if got := completions(cl.must(exitOK, words...).out); got != c.want {
			t.Errorf("%q is completed by %q, want %q", c.args, got, c.want)
		}
	}
	// Where no instance is named nothing is completed, and nobody waits.
	if got := completions(cl.must(exitOK, "__complete", "get", "").out); got != "" {
		t.Errorf("without an instance: %q", got)
	}
	if got := completions(cl.must(exitOK, "__complete", "completion", "").out); got != "bash zsh fish powershell" {
		t.Errorf("shells: %q", got)
	}
}

// completions are the lines before the directive.
func completions(out string) string {
	var list []string
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, ":") {
			break
		}
		list = append(list, strings.TrimSpace(line))
	}
	return strings.Join(list, " ")
}
